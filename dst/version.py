"""Identify the code of a run. Safety: a run of other code is not taken for a run of this code."""

from hashlib import blake2b
from pathlib import Path

from highwater import project

ROOT = Path(__file__).parent.parent  # the package highwater
CODE = ("messages.py", "outside.py", "pages.py", "project.py", "model/*.py", "model/protocols/*.py", "model/explore/**/*.py",
        "impl/**/*.py", "traces/**/*.py", "dst/**/*.py")  # what determines a run, beside its choices


def code_version() -> str:
    """Return a hash of the sources that a run depends on."""
    hasher = blake2b(digest_size=8)
    for path in sorted(path for pattern in CODE for path in ROOT.glob(pattern)):
        source = path.read_bytes()
        hasher.update(f"{path.relative_to(ROOT).as_posix()} {len(source)}\n".encode() + source)
    for name, path in project.sources():
        source = path.read_bytes()
        hasher.update(f"project/{name} {len(source)}\n".encode() + source)
    return hasher.hexdigest()
