"""Pure functions on manifests: projection, union, and the merging of views."""
