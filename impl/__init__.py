"""The protocols themselves, on memory, local files and S3."""

if __name__ != "highwater.impl":
    raise ImportError("this package is highwater.impl: write `import highwater.impl` in place of `import impl`")
