"""FizzBee specs, one for each protocol, and the table of their runs."""

if __name__ != "highwater.specs":
    raise ImportError("this package is highwater.specs: write `import highwater.specs` in place of `import specs`")
