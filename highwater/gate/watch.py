"""Note what a process depends on while it runs: the files of ours that it reads, the folders that it lists, the libraries that
it imports, and the programs that it starts.

Safety: the kept verdict of a check is under everything noted here, so what goes unnoticed makes a kept verdict lie.

Each process appends a line to one file as soon as it meets something new. So nothing is lost when a process is killed, or ends
without clean-up, as the workers of pools do. A forked process inherits the watch. A process that is started anew finds the
file's name in its environment, and `import highwater` installs the watch before anything else of ours is read.

A C library opens files unseen. None reads ours: pyarrow, duckdb and the JVM read only what a check has written.
"""

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec, source_from_cache
from pathlib import Path
from shutil import which
from sysconfig import get_paths

VARIABLE = "HIGHWATER_WATCH"  # the file to append to
PROJECT = "HIGHWATER_PROJECT"  # the folder of a user's own protocols
GROUP = "highwater.protocols"  # the entry points of installed packages with protocols
PACKAGE = Path(__file__).parents[1]
LIBRARIES = ("site-packages", "dist-packages")
STANDARD = tuple(os.path.realpath(get_paths()[name]) for name in ("stdlib", "platstdlib"))
IGNORED = ("/.cache/", "/__pycache__/", "/.git/", "/out/")  # made by our programs, and remade from what is watched
EDITABLE = ".__path_hook__"  # ends setuptools' entries of sys.path, which are no paths; importlib.metadata opens them as such
IMPORTING = "<frozen importlib._bootstrap_external>"  # lists folders to find modules; those found are noted by themselves

installed: set[str] = set()  # files that this process appends to


@cache
def folders() -> dict[str, str]:
    """Map a name to each folder whose files are ours: the package, the folders of the checkout that it links to, the user's
    project, and the installed packages that have protocols, perhaps in editable mode."""
    links = {f"highwater/{path.name}": str(path) for path in PACKAGE.iterdir() if path.is_symlink()}
    project = {"project": os.path.abspath(os.environ[PROJECT])} if os.environ.get(PROJECT) else {}
    return {"highwater": str(PACKAGE), **links, **project, **packages()}


def packages() -> dict[str, str]:
    """Map a name to each folder of an installed package that has protocols. Nothing is imported, so a package whose code fails
    is found too. An entry point without a package is left out: highwater/project.py reports it."""
    tops = sorted({entry.value.partition(".")[0] for entry in entry_points(group=GROUP)})
    found = {top: find_spec(top) for top in tops if top.isidentifier()}
    places = {top: spec.submodule_search_locations or () for top, spec in found.items() if spec}
    return {f"installed/{number}/{top}": folder for top in places for number, folder in enumerate(places[top])}


@cache
def roots() -> dict[str, str]:
    """Map a name to each folder whose files are ours, without links."""
    return {name: os.path.realpath(folder) for name, folder in folders().items()}


def named(path: str) -> str:
    """Name a file or folder of ours: its root's name, and the path from there. "" if it is not ours, or is ignored."""
    for name, root in roots().items():
        if path == root or path.startswith(root + os.sep):
            inside = path.removeprefix(root)
            return "" if any(part in inside + "/" for part in IGNORED) else name + inside
    return ""


def place(name: str) -> str:
    """Return the path of a name in a list. What is not ours has its path for a name. If the package of a name was uninstalled,
    nothing is at the path that is returned."""
    if os.path.isabs(name):
        return name
    root = max((root for root in roots() if name == root or name.startswith(root + "/")), key=len, default="")
    return roots().get(root, "") + name.removeprefix(root)


def library(path: str) -> str:
    """Return the top-level name of the library that a file belongs to; "" if it is of none."""
    parts = path.split(os.sep)
    found = next((parts[i + 1] for i in range(len(parts) - 1) if parts[i] in LIBRARIES), "")
    return "" if found.startswith("_") or found.endswith((".pth", ".dist-info", ".egg-link")) else found.partition(".")[0]


def source(path: str) -> str:
    """Return the source of a file of byte code, and any other file as it is."""
    if not path.endswith(".pyc"):
        return path
    try:
        return source_from_cache(path)
    except ValueError:
        return path


def line_of(kind: str, path: str) -> str:
    """Return the line that a check's list has for this file, folder or program; "" if it does not depend on it."""
    if path.endswith(EDITABLE):
        return ""
    asked, path = os.path.abspath(source(path)), os.path.realpath(source(path))
    if name := named(path):
        return f"{kind}\t{name}\n"
    if kind == "program":
        return f"program\t{path}\n"
    if kind == "file" and (name := library(path)):
        return f"library\t{name}\n"
    return f"{kind}\t{path}\n" if is_linked(asked) or (kind == "file" and is_module_elsewhere(path)) else ""


def is_linked(path: str) -> bool:
    """Return whether this path is in a folder of ours. The file itself is elsewhere, if it is not ours by its real path."""
    written = folders().values()  # perhaps with links in them
    root = next((root for root in (*roots().values(), *written) if path.startswith(root + os.sep)), "")
    return bool(root) and not any(part in path.removeprefix(root) + "/" for part in IGNORED)


def is_module_elsewhere(path: str) -> bool:
    """Return whether this is a module that is neither ours, nor Python's, nor in a library: a user's own, say."""
    return path.endswith(".py") and not path.startswith(STANDARD) and not any(f"/{part}/" in path for part in LIBRARIES)


def install(path: str) -> None:
    """Append to `path` what this process depends on from now on, and what it has imported before. A watch cannot be removed."""
    if path in installed:
        return
    installed.add(path)
    seen: set[tuple[str, str]] = set()
    written: set[str] = set()

    def note(kind: str, what: str | bytes | os.PathLike) -> None:
        what = os.fsdecode(what)
        if (kind, what) in seen and os.path.isabs(what):
            return
        seen.add((kind, what))
        line = line_of(kind, what)
        if line and line not in written:
            written.add(line)
            append(path, line)

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            name, _, flags = arguments
            if isinstance(name, (str, bytes, os.PathLike)) and not is_written(flags):
                note("file", name)
        elif event in ("os.listdir", "os.scandir"):
            [folder] = arguments
            if not isinstance(folder, int) and sys._getframe(1).f_code.co_filename != IMPORTING:
                note("folder", folder or ".")
        elif event == "subprocess.Popen":
            executable, command, _, environment = arguments
            started(executable, command, environment)

    def started(executable: object, command: object, environment: object) -> None:
        """Note the program, and files of ours on its command line."""
        words = [os.fsdecode(word) for word in (command if isinstance(command, (list, tuple)) else [])]
        program = os.fsdecode(executable or (words or [""])[0])  # pyright: ignore[reportArgumentType]
        search = environment.get("PATH") if isinstance(environment, dict) else None
        if found := which(program, path=search):
            note("program", found)
        for word in words[1:]:
            if os.path.isfile(word):
                note("file", word)

    imported(note)
    sys.addaudithook(hook)


def imported(note: Callable[[str, str], None]) -> None:
    """Note the files of all modules that are imported."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            note("file", file)


def is_written(flags: int) -> bool:
    """Return whether a file is opened for writing alone."""
    return flags & os.O_ACCMODE == os.O_WRONLY


def append(path: str, line: str) -> None:
    """Append a line. One write to a file that is open for appending is never mixed with another process's."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode(errors="surrogateescape"))
    finally:
        os.close(file)


def noted(path: str) -> dict[str, set[str]]:
    """Read a list: the names of files, folders, libraries and programs."""
    found: dict[str, set[str]] = {kind: set() for kind in ("file", "folder", "library", "program")}
    for line in Path(path).read_text(errors="surrogateescape").splitlines():
        kind, _, name = line.partition("\t")
        found[kind].add(name)
    return found


if os.environ.get(VARIABLE):
    install(os.environ[VARIABLE])
