"""Executable models of the protocols, explorers and proofs."""

if __name__ != "highwater.model":
    raise ImportError("this package is highwater.model: write `import highwater.model` in place of `import model`")
