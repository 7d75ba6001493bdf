"""Deterministic simulation of impl/: one seed gives one run, to the byte."""

if __name__ != "highwater.dst":
    raise ImportError("this package is highwater.dst: write `import highwater.dst` in place of `import dst`")
