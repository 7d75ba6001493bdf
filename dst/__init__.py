"""Deterministic simulation of impl/ under injected stalls and faults."""

if __name__ != "highwater.dst":
    raise ImportError("this package is highwater.dst: write `import highwater.dst` in place of `import dst`")
