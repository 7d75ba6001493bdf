"""Find the files to mutate, and the lines of them that changed since a commit."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from highwater import project
from highwater.mutate.operators import Mutant

OF_BYTES = ("block", "bloom", "build", "compression", "damaged", "parts", "rows", "table")  # of impl/db: left to the tests
REPLICATED = "impl/raft/"
INDEXED = ("impl/index/", "impl/codecs/index/")
OF_ROOMS = (REPLICATED, *INDEXED)  # whose mutants have rows of their own in the gate
UNEXECUTED = (f"{REPLICATED}identity.py",  # what only real processes run: left to the tests
              f"{REPLICATED}clocks.py", f"{REPLICATED}messages.py",  # types: nothing in them runs after the import
              "impl/index/answers.py",
              "impl/index/bucket/")  # programs that read a bucket whole
SIMULATED = ("impl/protocols/", "impl/kv/", "impl/db/", *OF_ROOMS)


def root() -> Path:
    """Return the folder that names of files are relative to: the project's, the checkout's, or the package's."""
    current = project.current()
    checkout = (project.PACKAGE / "impl").resolve().parent
    return current.folder if current else checkout


def files(protocol: str | None, only: Sequence[Path]) -> dict[str, Path]:
    """Return name -> path of the files of an implementation: of one protocol, or those given, or all. Raises ValueError."""
    if only:
        found = [path.resolve() for path in only]
    elif protocol or project.current():
        stems = [protocol] if protocol else project.stems("impl")
        found = [project.file_of("impl", stem).resolve() for stem in stems]
    else:
        found = sorted(path for path in (root() / "impl").rglob("*.py") if path.name != "__init__.py")
    for path in found:
        if not path.is_file():
            raise ValueError(f"{path} is no file")
        if not path.is_relative_to(root().resolve()):
            raise ValueError(f"{path} is not below {root()}")
    return {path.relative_to(root().resolve()).as_posix(): path for path in found}


def simulated() -> dict[str, Path]:
    """Return name -> path of the files that scenarios are to run: all of a project's; our protocols, stores of keys, the
    replicated log, the index, and the database, but for what only reads and writes its bytes."""
    found = files(None, ())
    return found if project.current() else {name: path for name, path in found.items() if name.startswith(SIMULATED) and not (
        (name.startswith("impl/db/") and path.stem in OF_BYTES) or name.startswith(UNEXECUTED))}


def changed_since(revision: str, names: Sequence[str]) -> dict[str, list[range]]:
    """Return the lines of these files that are not as in this commit. Raises ValueError if git does not know it."""
    ended = subprocess.run(["git", "diff", "--unified=0", "--no-color", "--no-prefix", revision, "--", *names], cwd=root(),
                           capture_output=True, text=True)
    if ended.returncode:
        raise ValueError(f"git knows no commit {revision!r}: {ended.stderr.strip().splitlines()[0]}")
    found: dict[str, list[range]] = {}
    file = ""
    for line in ended.stdout.splitlines():
        if line.startswith("+++ "):
            file = line[4:]
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(hunk[1])
            found.setdefault(file, []).append(range(first, first + int(hunk[2] or 1)))
    return found


def is_within(mutant: Mutant, changed: dict[str, list[range]]) -> bool:
    return any(set(lines) & set(range(mutant.first, mutant.last + 1)) for lines in changed.get(mutant.file, ()))
