"""Know where the parts of a protocol are: in our rooms, in the package of a user's project, or in an installed package.

A project is a folder with `highwater.toml`, which names its protocols and their packages:

    files = ["register/tests/table.json"]  # optional: data files of a run that the walk of `files_below` leaves out

    [protocols]
    lease = "lease"        # the protocol `lease` is the package DIR/lease/

The package has a module for each part: `model.py`, `impl.py`, `scenario.py` and so on (`PARTS`), and perhaps `spec.fizz` and
`spec.toml`. An installed package names its protocols as entry points of the group `highwater.protocols`.

`--project DIR` sets the environment variable HIGHWATER_PROJECT, so that child processes find the same project. Without the
option and the variable, a command that uses a project takes the one in the working folder, or in a folder above it (`search`).
An empty variable means no project. The folder goes to the end of `sys.path`: nothing in it can replace a module of Python or of
a library.
"""

import json
import os
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from traceback import extract_tb
from types import ModuleType
from typing import Any, NamedTuple

from highwater.interrupt import is_by_signal
from highwater.outside import document_of, json_of, toml_of

PACKAGE = Path(__file__).parent  # highwater
VARIABLE = "HIGHWATER_PROJECT"
SENT = "HIGHWATER_SENT"  # set in a worker that runs the sources of its task: dst/spark/shipping.py
FILE = "highwater.toml"
GROUP = "highwater.protocols"
SPEC = "spec"  # a project's spec is spec.fizz, and its rows are in spec.toml
NO_MESSAGE = "its __str__ raises "
RESERVED = ("engines",)  # names that `highwater verify` uses beside those of protocols


class Part(NamedTuple):
    room: str  # our package of these modules; a module is named by its protocol's stem
    names: tuple[str, ...]  # what a user's module must define
    verbs: str  # that need it


PROOF = ("m", "SAFEGUARDS", "SAFEGUARDS_OFF", "SYSTEMS", "INSTANCES", "WALKED", "WALKS", "STEPS", "prove", "system", "scope")
PARTS = {  # name of a user's module -> what it is
    "model": Part("model.protocols", ("Constants", "model"), "every verb but `dst lint`"),
    "proof": Part("model.proofs", PROOF, "`model prove`"),
    "refinement": Part("model.refinements", ("ONTO", "refinement"), "`model refine`"),
    "inheritance": Part(
        "model.proofs.refinements",
        ("REFINEMENT", "SYSTEMS", "OFF", "INSTANCES", "NEAREST", "concrete", "abstract", "executable"),
        "`model refine --unbounded`"),
    "impl": Part("impl.protocols", (), "`dst`, `campaign` and `cost`"),
    "mapping": Part("traces.protocols", ("Trace",), "`trace`, `dst` and `campaign`"),
    "scenario": Part("dst.scenarios", ("SCENARIO",), "`dst`, `campaign`, `cost` and `trace`"),
    "mutants": Part("dst.mutants", ("MUTANTS",), "`dst zoo`, and `--mutant`"),
    "recorded": Part("traces.recorded.systems", ("MODELS", "machine", "is_metadata"), "`trace check` of a log of requests"),
    "damage": Part("traces.damage.protocols", ("KNOWLEDGE",), "`trace damage`"),
    "judge": Part("conformance.protocols", ("SMALL", "IMPOSSIBLE"), "the FizzBee judge of `verify`"),
    "checks": Part("gate.protocols", ("checks",), "a protocol's own checks of `verify`"),
}


class ProjectError(Exception):
    """The project, or a module of it, cannot be used. The message is one line: what, where, and what to do."""


class Project(NamedTuple):
    folder: Path
    packages: dict[str, str]  # stem -> package
    files: tuple[str, ...] = ()  # patterns of files that a run needs, too


# --- which project

given = ""  # the folder as the user wrote it; "": as in the environment
searched: Path | None = None  # where `current` looks for a project if none is given; None: it does not look
noticed = False  # the project was found there, and not given
STAND_IN = "PROJECT"  # for the folder, in files that name no path
named: str | None = None  # how commands name the folder: as the user wrote it; "": by its whole path; else by this word


def use(folder: str) -> None:
    """Take the protocols of this project, in this process and its children. Raises ProjectError."""
    global given
    if not folder:
        raise ProjectError(f"--project is empty: give a folder with {FILE}; `.` is the working folder")
    before, path = os.environ.get(VARIABLE), Path(folder).resolve()
    if before and Path(before).resolve() != path:
        raise ProjectError(f"two projects at once: {folder}, and {given or f'{VARIABLE}={before}'}: give one of them")
    opened(str(path))
    os.environ[VARIABLE], given = str(path), folder


def search(folder: Path | None) -> None:
    """Let `current` take the project in this folder or above it, unless one is given. None: do not look for one."""
    global searched
    searched = folder


def leave() -> None:
    """Take no project, in this process and its children. Nothing of one that was noticed was imported yet."""
    global noticed
    if os.environ.get(VARIABLE) in sys.path:
        sys.path.remove(os.environ[VARIABLE])
        opened.cache_clear()
    os.environ[VARIABLE], noticed = "", False


def leave_for(stem: str) -> None:
    """Leave a project that was noticed, not given, for a protocol of highwater's or of an installed package. Its code is not
    part of that protocol's runs."""
    if (project := current()) and noticed and stem not in project.packages and (stem in our_stems() or stem in installed()):
        leave()


def enclosing(start: Path) -> Path | None:
    """Return the folder of the project that encloses a folder, or is it. The search ends at the first folder with `.git`, and
    above `start` it takes no file or link of another owner, because a command runs the project's code. A `highwater.toml` that
    is no file is found, too: `current` refuses it."""
    for folder in (start, *start.parents):
        file = folder / FILE
        if os.path.lexists(file) and (folder == start or file.lstat().st_uid == start.stat().st_uid):
            return folder
        if os.path.exists(folder / ".git"):
            break
    return None


def notice(folder: Path) -> None:
    """Take a project that was found."""
    global noticed
    os.environ[VARIABLE], noticed = str(folder), True


def current() -> Project | None:
    """Return the project of this process, if there is one. Raises ProjectError."""
    if searched and VARIABLE not in os.environ and (found := enclosing(searched)):
        notice(found)
    folder = os.environ.get(VARIABLE)
    try:
        return opened(folder) if folder else None
    except ProjectError as error:
        raise ProjectError(f"{error}; --no-project takes no project" if noticed else f"{VARIABLE}={folder}: {error}") from None


def words() -> list[str]:
    """Return the option that selects the project, as the user typed it; [] if none is needed in the working folder.
    `elsewhere` changes it."""
    folder = os.environ.get(VARIABLE)
    if not folder or (noticed and named is None):
        return []
    return ["--project", quote((given if named is None else named) or folder)]


@contextmanager
def elsewhere(stand_in: str = "") -> Generator[None, None, None]:
    """Make commands that are read in another folder, such as those in a file. They have the whole path of the project's folder,
    or a word that stands for it."""
    global named
    before, named = named, stand_in
    try:
        yield
    finally:
        named = before


def option() -> str:
    """Return the option that selects the project, with a space before it, to end a command with; "" without a project."""
    return "".join(f" {word}" for word in words())


def environment() -> dict[str, str]:
    """Return what a process with an environment of its own needs in order to find the project."""
    current()  # which notices it
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}


@cache
def opened(folder: str) -> Project:
    """Read a project, and make its packages importable. Raises ProjectError."""
    project = read(Path(folder))
    check_names(project)
    if folder not in sys.path:
        sys.path.append(folder)
    return project


def read(folder: Path) -> Project:
    """Read the file of a project. Raises ProjectError."""
    file = folder / FILE
    if not folder.is_dir():
        raise ProjectError(f"{folder} is no folder: give a folder with {FILE}; `highwater new` makes one")
    if os.path.lexists(file) and not file.is_file():
        raise ProjectError(f"{file} is not a regular file: replace it with a file")
    if not file.is_file():
        raise ProjectError(f"{folder} is no project: it has no {FILE}; `highwater new` makes one")
    try:
        found = toml_of(document_of(file))
    except (OSError, ValueError) as error:
        raise ProjectError(f"{file}: {error}") from None
    packages = found.get("protocols")
    if not isinstance(packages, dict) or not packages:
        raise ProjectError(f"{file} names no protocol: write [protocols], and below it NAME = \"PACKAGE\"")
    if isinstance(packages.get("files"), list):
        raise ProjectError(f"{file}: write `files = ..` above [protocols]: below it, it names a protocol")
    for stem, package in packages.items():
        check_entry(str(file), stem, package)
        if not (folder / package.replace(".", "/") / "__init__.py").is_file():
            raise ProjectError(f"{file}: {stem} = {package!r}, but there is no {package.replace('.', '/')}/__init__.py")
    return Project(folder, packages, patterns_in(file, found.get("files", [])))


def patterns_in(file: Path, given: object) -> tuple[str, ...]:
    """Return the patterns of `files`. Raises ProjectError."""
    if not isinstance(given, list):
        raise ProjectError(f"{file}: files = {given!r}: write a list of names, for example [\"register/tests/table.json\"]")
    for each in given:
        if not isinstance(each, str) or not each.strip("/.") or each.startswith("/") or ".." in each.split("/"):
            raise ProjectError(f"{file}: files has {each!r}: name a file or a folder below {file.parent}; * and ** match names")
    return tuple(given)


def check_entry(where: str, stem: str, package: object) -> None:
    """Check one line `stem = "package"`. Raises ProjectError."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", stem):
        raise ProjectError(f"{where}: {stem!r} is no name of a protocol: write small letters, digits and single _")
    if not isinstance(package, str) or not all(part.isidentifier() for part in package.split(".")):
        raise ProjectError(f"{where}: {stem} = {package!r}: write the name of a Python package")
    if any(SKIPPED.fullmatch(part) for part in package.split(".")):
        raise ProjectError(f"{where}: {package!r} is the name of a folder without code: choose another name for the package")
    if stem in our_stems() or stem in RESERVED:
        raise ProjectError(f"{where}: highwater has a protocol named {stem!r} already: choose another name")


def check_names(project: Project) -> None:
    """Check that the project's names are its own. Raises ProjectError."""
    file = project.folder / FILE
    for stem, package in project.packages.items():
        other = installed().get(stem, package)
        if other != package:
            raise ProjectError(f"{file}: the installed package {other!r} has a protocol {stem!r} too: choose another name")
        top = package.partition(".")[0]
        if top in sys.stdlib_module_names:
            raise ProjectError(f"{file}: the package {top!r} has the name of a module of Python: choose another name")
        found = PathFinder.find_spec(top, [path for path in sys.path if path != str(project.folder)])
        where = found and found.origin  # a folder without __init__.py has none, and any package comes before it
        if where and not Path(where).resolve().is_relative_to(project.folder.resolve()):
            raise ProjectError(f"{file}: the package {top!r} has the name of another one, {where}: choose another name")


@cache
def installed() -> dict[str, str]:
    """Return the protocols of installed packages: stem -> package. Raises ProjectError if two have one name."""
    found: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        whose = f"the installed package {entry.dist.name if entry.dist else entry.value}"
        check_entry(whose, entry.name, entry.value)
        if found.get(entry.name, entry.value) != entry.value:
            raise ProjectError(f"{whose}: {found[entry.name]!r} has a protocol named {entry.name!r} too: uninstall one of them")
        found[entry.name] = entry.value
    return found


# --- which protocols, and where their parts are

@cache
def ours(part: str) -> tuple[str, ...]:
    """Return the names of the modules in our room of this part."""
    return tuple(sorted(path.stem for path in room(part).glob("[a-z]*.py")))


def room(part: str) -> Path:
    return PACKAGE / PARTS[part].room.replace(".", "/")


def our_stems() -> set[str]:
    return {*ours("model"), *ours("scenario")}


def users() -> dict[str, str]:
    """Return the protocols that are not ours: stem -> package."""
    project = current()
    return {**installed(), **(project.packages if project else {})}


def stems(part: str) -> tuple[str, ...]:
    """Return the protocols that have this part: of the project if there is one; else ours and those of installed packages."""
    project = current()
    wanted = project.packages if project else installed()
    return tuple(sorted({*(() if project else ours(part)), *(stem for stem in wanted if has(part, stem))}))


def only() -> str | None:
    """Return the project's protocol if it has just one; None without a project. Raises ProjectError if it has several."""
    project = current()
    if project and len(project.packages) > 1:
        raise ProjectError(f"{project.folder} has several protocols: choose one of {', '.join(sorted(project.packages))}")
    return next(iter(project.packages)) if project else None


def is_users(stem: str) -> bool:
    """Tell whether a protocol of this name is a user's."""
    return stem not in our_stems() and stem in users()


def folder_of(stem: str) -> Path:
    """Return the folder of a user's package. Raises ProjectError."""
    package, project = users()[stem], current()
    if project and stem in project.packages:
        return project.folder / package.replace(".", "/")
    try:
        found = find_spec(package)
    except ModuleNotFoundError:
        found = None
    if not found or not found.submodule_search_locations:
        raise ProjectError(f"the protocol {stem!r} should be in the installed package {package!r}, but there is none")
    return Path(next(iter(found.submodule_search_locations)))


def file_of(part: str, stem: str) -> Path:
    """Return the path that the module of this part has, if there is one."""
    return folder_of(stem) / f"{part}.py" if is_users(stem) else room(part) / f"{stem}.py"


def module(part: str, stem: str) -> str:
    """Return the name of the module of this part."""
    return f"{users()[stem]}.{part}" if is_users(stem) else f"highwater.{PARTS[part].room}.{stem}"


def has(part: str, stem: str) -> bool:
    return stem.isidentifier() and os.path.isfile(file_of(part, stem))  # False for a name that no file can have


def spec(name: str, suffix: str) -> Path:
    """Return the path of a spec's file: `suffix` is .fizz or .toml. Our specs are named in CamelCase."""
    return folder_of(name) / f"{SPEC}{suffix}" if is_users(name) else PACKAGE / "specs" / f"{name}{suffix}"


def settings() -> dict[str, Any]:
    """Return the content of the project's highwater.toml; {} without a project."""
    project = current()
    return toml_of(document_of(project.folder / FILE)) if project else {}


def tables() -> list[tuple[str, Path]]:
    """Return (spec's name, path of the table of its runs) for each spec of the project, or of ours and installed packages."""
    project = current()
    paths = [] if project else [(path.stem, path) for path in sorted((PACKAGE / "specs").glob("*.toml"))]
    mine = ((stem, spec(stem, ".toml")) for stem in sorted(project.packages if project else installed()))
    return [*paths, *((stem, path) for stem, path in mine if path.is_file())]


def load(part: str, stem: str) -> ModuleType:
    """Import the module of this part. Raises ProjectError if a user's module is missing, fails, or lacks a name."""
    if not is_users(stem):
        return import_module(module(part, stem))
    name, file = module(part, stem), file_of(part, stem)
    if not file.is_file():
        there = [f"{each}.py" for each in PARTS if has(each, stem)]
        raise ProjectError(f"{file} is missing, which is for {PARTS[part].verbs}: {stem!r} has "
                           f"{', '.join(there) or 'no module at all'}; write it, or take a verb that needs no {part}")
    try:
        found = import_module(name)
    except BaseException as error:
        if is_by_signal(error):
            raise
        raise ProjectError(f"{name} cannot be imported: {raised(error)}; for the traceback: cd {quote(str(root_of(stem)))} && "
                           f"python -c 'import {name}'") from error
    lacking = [each for each in PARTS[part].names if not hasattr(found, each)]
    if lacking:
        raise ProjectError(f"{file} defines no {lacking[0]}; {part}.py must define {', '.join(PARTS[part].names)}")
    return found


def root_of(stem: str) -> Path:
    """Return the folder from which a user's package is imported."""
    return folder_of(stem).parents[users()[stem].count(".")]


def type_and_message(error: BaseException) -> str:
    """Return an exception's type and message in one line; the type alone if it has no message."""
    return f"{type(error).__name__}: {' '.join(message_of(error).split())}".removesuffix(": ")


def message_of(error: BaseException) -> str:
    """Return the message of an exception; if its class raises when asked for it, say so."""
    try:
        return str(error)
    except BaseException as other:
        if is_by_signal(other):
            raise
        return f"{NO_MESSAGE}{type(other).__name__}"


def raised(error: BaseException) -> str:
    """Describe an exception in one line: its type, its message, and the file and line that raised it."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen ")]
    return type_and_message(error) + hint(error) + (
        f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else "")


# --- what a run depends on

SKIPPED = re.compile(r"\..*|__pycache__|node_modules|tests|out|build|dist|.*\.egg-info")  # folders that no run needs
OUTPUTS = {"campaign.json": ("scenario", "code"), "manifest.json": ("tape", "digest"), "explore.json": ("what", "partitions")}
REPORT = b'<meta name="generator" content="highwater'  # in the first bytes of a page that a verb has written
MOST_MIB = 16  # of all files of a project together, because each of Spark's tasks carries them


def roots() -> list[Path]:
    """Return the folders whose files count: the package highwater, the project, and installed packages of protocols."""
    project = current()
    return [PACKAGE, *([project.folder] if project else sorted({top for _, top in tops()}))]


def tops() -> list[tuple[str, Path]]:
    """Return the names and folders of the top packages of installed protocols."""
    return [(package.partition(".")[0], root_of(stem) / package.partition(".")[0]) for stem, package in installed().items()]


def sources() -> list[tuple[str, Path]]:
    """Return (name, path) of each Python file of users' protocols, by name. Names are relative to the project."""
    return [(name, path) for name, path in sorted(run_files().items()) if name.endswith(".py")]


def contents() -> dict[str, bytes]:
    """Return name -> content of each file that a run of users' protocols depends on: code, data files, and a highwater.toml
    that names them; {} if there are no such protocols. Names are relative to the project. Raises ProjectError."""
    if not users():
        return {}
    paths, read, left = run_files(), {FILE: file_text().encode()}, MOST_MIB << 20
    for name, path in sorted(paths.items()):
        try:
            name.encode()
            with open(path, "rb") as stream:
                read[name] = stream.read(left + 1)
        except UnicodeEncodeError:
            raise ProjectError(f"{os.fsencode(path)!r}: the name of the file is not UTF-8: rename it") from None
        except OSError as error:
            raise ProjectError(f"{path} cannot be read ({error.strerror}), and is a file of the project: make it readable, or "
                               "move it into a folder `out`") from None
        left -= len(read[name])
        if left < 0:
            raise ProjectError(f"{max(paths.values(), key=os.path.getsize)} is the largest file of a project whose files have "
                               f"more than {MOST_MIB} MiB, which is the bound, because each task of a campaign carries them: "
                               "move files that no run reads into a folder `out`")
    return read


def run_files() -> dict[str, Path]:
    """Return name -> path of each file that a run of users' protocols may read. Raises ProjectError."""
    project = current()
    files = {f"{top}/{name}".lstrip("/"): path for top, folder in ([("", project.folder)] if project else tops())
             for name, path in files_below(folder)}
    for place, pattern in [(project.folder, pattern) for pattern in project.files] if project else ():
        more = dict(files_matching(place, pattern))
        if not more:
            raise ProjectError(f"{place / FILE}: files names {pattern!r}, and there is no such file: name another, or "
                               "remove it")
        files |= more
    files.pop(FILE, None)  # `file_text` has what a run reads of it
    return files


def files_matching(folder: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    """Yield the files that match a pattern, and those below matching folders, but not the output of a verb. Raises
    ProjectError."""
    try:
        found = sorted(folder.glob(pattern))
    except ValueError as error:
        raise ProjectError(f"{folder / FILE}: files has {pattern!r}: {error}") from None
    for match in found:
        above = [match, *match.parents][:len(match.relative_to(folder).parts)]
        if any(is_output(each) for each in above if each.is_dir()):
            continue
        below = files_below(match) if match.is_dir() else [("", match)] if match.is_file() else ()
        yield from ((path.relative_to(folder).as_posix(), path) for _, path in below)


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name, path) of each file in a folder of code, but for those that SKIPPED names and the output of a verb."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not SKIPPED.fullmatch(name) and
                      not os.path.exists(os.path.join(place, name, "pyvenv.cfg")) and not is_output(Path(place, name))]
        for name in files:
            path = Path(place, name)
            if not name.startswith(".") and path.is_file() and not is_report(path):
                yield path.relative_to(folder).as_posix(), path


def is_output(folder: Path) -> bool:
    """Return whether a verb has made this folder: a campaign, a bundle or an exploration, by the file that labels it."""
    for label, names in OUTPUTS.items():
        if os.path.lexists(folder / label):
            try:
                said = json_of(document_of(folder / label))
            except (OSError, ValueError):
                continue
            if isinstance(said, dict) and set(names) <= said.keys():
                return True
    return False


def is_report(path: Path) -> bool:
    if path.suffix != ".html":
        return False
    try:
        with open(path, "rb") as stream:
            return REPORT in stream.read(1_000)
    except OSError:
        return False


def file_text() -> str:
    """Return the highwater.toml of what is sent to workers: it names the protocols and `files` of `contents`."""
    project = current()
    packages, files = (project.packages, project.files) if project else (installed(), ())
    return "\n".join([*([f"files = {json.dumps(files, ensure_ascii=False)}"] if files else []), "[protocols]",
                      *(f'{stem} = "{package}"' for stem, package in sorted(packages.items())), ""])


class MissingFile(Exception):
    """A run opened a file that its worker does not have. The message is one line: the file, and what to do."""


def hint(error: BaseException) -> str:
    """Return what to do about a file that is missing in a process of Spark that runs the sources that were sent; else ""."""
    if not isinstance(error, FileNotFoundError) or not os.environ.get(SENT):
        return ""
    return f"; this worker has only the files of the project: name it in `files` of {FILE}"
