"""Writes down every module that a process and its workers import, however the workers are started.

Python imports this at its start where this folder is on PYTHONPATH. $WATCHED names the file that gets a line for each module:
the process, the module's name, the real path of its source.
"""

import os
import sys
from importlib.machinery import PathFinder


class Watch:
    """A finder that finds nothing, and is asked first."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        if spec and spec.has_location:
            with open(os.environ["WATCHED"], "a") as log:
                log.write(f"{os.getpid()} {name} {os.path.realpath(spec.origin)}\n")


if "WATCHED" in os.environ:
    sys.meta_path.insert(0, Watch)
