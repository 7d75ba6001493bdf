"""Safety: an update of a manifest changes only what its action changes. The models leave out many of its fields."""

from highwater.impl.codecs.manifest import Manifest


def other_changes(before: Manifest, after: Manifest, *allowed: str) -> str:
    """Return the first field, apart from these, that differs between two manifests; "" if there is none."""
    return next((name for name, old, new in zip(before._fields, before, after) if old != new and name not in allowed), "")
