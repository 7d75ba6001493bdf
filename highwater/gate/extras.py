"""Find the extra of the distribution that a missing library belongs to. The core works without extras."""

EXTRAS = {  # extra in pyproject.toml -> its modules that ours import
    "spark": ("duckdb", "jdk", "pandas", "py4j", "pyarrow", "pyspark"),
    "proofs": ("z3",),
    "s3": ("boto3", "botocore"),
    "index": ("google", "google_crc32c", "lmdb", "xxhash", "zstandard"),
    "dev": ("hypothesis",),
}


def install_command(error: ModuleNotFoundError) -> str:
    """Return the command that installs the library that `error` names; empty if no extra has it."""
    library = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if library in modules), "")
    return f"pip install 'highwater-verify[{extra}]'" if extra else ""
