"""Contents of metadata files as bytes."""
