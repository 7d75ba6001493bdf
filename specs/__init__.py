"""The FizzBee specs, their rows, and what runs FizzBee on them."""

if __name__ != "highwater.specs":
    raise ImportError("this package is highwater.specs: write `import highwater.specs` in place of `import specs`")
