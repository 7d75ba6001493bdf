"""highwater new: write the skeleton of a project, which runs as it is.

The files are those of highwater/skeleton/. In their names and texts, NAME stands for the protocol's name.
"""

import shutil
import tempfile
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from highwater import project
from highwater.cli.console import console, refuse

SKELETON = project.PACKAGE / "skeleton"
PLACEHOLDER = "NAME"
OF_THE_SKELETON = ("tests", "conftest")  # names beside the package's in a project


def new(name: Annotated[str, typer.Argument(metavar="NAME", help="the protocol's name, a Python identifier: small letters, "
                                                                 "digits and single _")],
        into: Annotated[Path | None, typer.Option("--into", metavar="DIR", help="the project's folder, new or empty "
                                                                               "[default: NAME]")] = None) -> None:
    """Write a project of one's own that runs: model, implementation, scenario, mapping, a mutant, tests, and a CI workflow."""
    folder = into or Path(name)
    check_name(name, folder)
    check_folder(folder)
    try:
        write(name, folder)
    except OSError as error:
        refuse(f"{folder} cannot be written: {error.strerror}")
    console.print(f"{folder}: a project with the protocol {name}. Try:", markup=False)
    for verb in ("model explore", "dst run --seeds 0:1000", "dst zoo --campaigns 5", "verify"):
        console.print(f"    highwater {verb} --project {folder}", markup=False)


def check_name(name: str, folder: Path) -> None:
    """Refuse a name that cannot be that of a protocol in this folder, or that another module or protocol has."""
    if iskeyword(name) or name in OF_THE_SKELETON:
        whose = "Python" if iskeyword(name) else "pytest"
        refuse(f"highwater new {name}: {name!r} has a meaning for {whose}: choose another name")
    try:
        project.check_entry("", name, name)
        project.check_names(project.Project(folder.resolve(), {name: name}))
    except project.ProjectError as error:
        refuse(f"highwater new {name}: {str(error).partition(': ')[2]}")


def check_folder(folder: Path) -> None:
    """Refuse a path that is a file, is below one, or is a folder with something in it."""
    file = next((above for above in folder.parents if above.exists() and not above.is_dir()), None)
    if file:
        refuse(f"{folder}: {file} is a file, so no folder can be in it: name a new folder with --into")
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        refuse(f"{folder} is there already{' and is not empty' * folder.is_dir()}: name a new folder with --into")


def write(name: str, folder: Path) -> None:
    """Write all files beside the folder, and rename them to it: a project is complete, or absent."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for path, text in files(name):
            (beside / path).parent.mkdir(parents=True, exist_ok=True)
            (beside / path).write_text(text)
        beside.chmod(0o755)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def files(name: str) -> list[tuple[str, str]]:
    """Return (path in the project, text) of each file, by path."""
    found = [path for path in sorted(SKELETON.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return [(path.relative_to(SKELETON).as_posix().replace(PLACEHOLDER, name), path.read_text().replace(PLACEHOLDER, name))
            for path in found]
