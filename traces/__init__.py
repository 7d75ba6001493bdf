"""Events of a trace, and the check that a trace refines a model."""

if __name__ != "highwater.traces":
    raise ImportError("this package is highwater.traces: write `import highwater.traces` in place of `import traces`")
