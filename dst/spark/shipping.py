"""Send our sources, and those of a user's project, along with each task.

Safety: a worker with other code, or none, runs the driver's sources.
"""

import io
import zipfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

from highwater import project
from highwater.dst.version import CODE, ROOT

PROJECT = "project"  # the folder of a user's sources in the zip file


def sources() -> bytes:
    """Return the sources that a run depends on, as a zip file: the same bytes for the same code."""
    ours = sorted(path for pattern in ("__init__.py", "project.py", *CODE) for path in ROOT.glob(pattern))
    files = {path.relative_to(ROOT.parent).as_posix(): path.read_bytes() for path in ours}
    if project.users():
        files |= {f"{PROJECT}/{name}": path.read_bytes() for name, path in project.sources()}
        files[f"{PROJECT}/{project.FILE}"] = project.file_text().encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def shipped(code: str) -> Callable[[str], ModuleType]:
    """Return the function with which a worker imports our modules: from these sources, which are sent if its own differ.

    Spark sends the function and its callers as code, so they may refer to our modules only inside."""
    packed, root, variable, folder = sources(), str(ROOT.parent), project.VARIABLE, PROJECT
    packages = sorted({"highwater", *(package.partition(".")[0] for package in project.users().values())})

    def module(name: str) -> Any:
        import importlib
        import io
        import os
        import sys
        import tempfile
        import zipfile
        from pathlib import Path

        def unpacked() -> str:
            """Unpack the sources into a folder for this version of the code, in one atomic step."""
            place = Path(tempfile.gettempdir()) / f"highwater-{code}"
            if not place.is_dir():
                half = tempfile.mkdtemp(prefix="highwater-")
                zipfile.ZipFile(io.BytesIO(packed)).extractall(half)
                try:
                    Path(half).rename(place)
                except OSError:
                    pass  # another worker was first
            return str(place)

        def version() -> str:
            try:
                return importlib.import_module("highwater.dst.version").code_version()
            except Exception:  # there is no highwater, or no such project
                return ""

        if Path(root).is_dir() and root not in sys.path:
            sys.path.insert(0, root)
        if version() != code:
            before = os.environ.pop(variable, None)  # of an earlier task of this worker
            sys.path[:] = [path for path in sys.path if path != before]
            for of in [of for of in sys.modules if of.partition(".")[0] in packages]:
                del sys.modules[of]
            place = unpacked()
            sys.path.insert(0, place)
            if (Path(place) / folder).is_dir():
                os.environ[variable] = str(Path(place) / folder)
            importlib.invalidate_caches()
        return importlib.import_module(name)

    return module
