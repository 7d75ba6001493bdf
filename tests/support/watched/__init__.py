"""Reads the modules that a process and its workers import; sitecustomize.py writes them down."""

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

FOLDER = str(Path(__file__).parent)  # to be put on PYTHONPATH


def loaded_twice(modules: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Real paths that were imported by more than one name; `modules`: name and real path of each."""
    names = defaultdict(set)
    for name, path in modules:
        names[path].add(name)
    return {path: of for path, of in names.items() if len(of) > 1}


def of_this_process(modules: dict, root: Path) -> list[tuple[str, str]]:
    """Name and real path of the modules below `root`. A worker's __mp_main__ is __main__, and no second copy."""
    found = {id(module): (name, os.path.realpath(module.__file__)) for name, module in list(modules.items())
             if name != "__mp_main__" and getattr(module, "__file__", None)}
    return [(name, path) for name, path in found.values() if Path(path).is_relative_to(root)]


def by_process(log: Path) -> dict[str, list[tuple[str, str]]]:
    """Read the log of sitecustomize.py: process -> names and real paths of its modules."""
    found = defaultdict(list)
    for line in log.read_text().splitlines():
        process, name, path = line.split(" ", 2)
        found[process].append((name, path))
    return found
