"""Identify the code of a run. Safety: a run of other code, or with other data files, is not taken for a run of this code."""

from hashlib import blake2b
from pathlib import Path

from highwater import project

ROOT = Path(__file__).parent.parent  # the package highwater
CODE = ("interrupt.py", "messages.py", "outside.py", "pages.py", "project.py", "model/*.py", "model/protocols/*.py",
        "model/explore/**/*.py", "impl/**/*.py", "traces/**/*.py", "dst/**/*.py")  # what determines a run, beside its choices


def code_version() -> str:
    """Return a hash of the files that a run depends on: sources, and the data files of a project. Raises ProjectError."""
    hasher = blake2b(digest_size=8)
    for path in sorted(path for pattern in CODE for path in ROOT.glob(pattern)):
        source = path.read_bytes()
        hasher.update(f"{path.relative_to(ROOT).as_posix()} {len(source)}\n".encode() + source)
    for name, content in project.contents().items():
        hasher.update(f"project/{name} {len(content)}\n".encode() + content)
    return hasher.hexdigest()
