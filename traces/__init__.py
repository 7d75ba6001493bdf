"""Traces of store requests, held against the models."""

if __name__ != "highwater.traces":
    raise ImportError("this package is highwater.traces: write `import highwater.traces` in place of `import traces`")
