"""Send our sources, and the code and data files of a user's project, along with each task.

Safety: a worker with other code, or none, runs the driver's sources, and no file that another user could have written.
"""

import io
import os
import zipfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

from highwater import project
from highwater.dst.version import CODE, ROOT

PROJECT = "project"  # the folder of a user's files in the zip file


def sources() -> bytes:
    """Return the files that a run depends on, as a zip file. Raises ProjectError."""
    ours = sorted({path for pattern in ("__init__.py", *CODE) for path in ROOT.glob(pattern)})
    files = {path.relative_to(ROOT.parent).as_posix(): path.read_bytes() for path in ours}
    files |= {f"{PROJECT}/{name}": content for name, content in project.contents().items()}
    programs = {f"{PROJECT}/{name}" for name, path in project.run_files().items() if os.access(path, os.X_OK)}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o700 if name in programs else 0o600) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def shipped(code: str) -> Callable[[str], ModuleType]:
    """Return the function with which a worker imports our modules: from these sources, which are sent if its own differ. It
    raises PermissionError if the folder for them in the worker's temporary folder is a link, or may be written by others.

    Spark sends the function and its callers as code, so they may refer to our modules only inside."""
    packed, root, variable, sent, folder = sources(), str(ROOT.parent), project.VARIABLE, project.SENT, PROJECT
    packages = sorted({"highwater", *(package.partition(".")[0] for package in project.users().values())})

    def module(name: str) -> Any:
        import importlib
        import io
        import os
        import shutil
        import stat
        import sys
        import tempfile
        import zipfile
        from contextlib import suppress
        from pathlib import Path

        def unpacked() -> Path:
            """Return the folder of the sources. Files that are missing or that differ are written, each in one atomic step."""
            place = own(own(Path(tempfile.gettempdir()) / f"highwater-{os.geteuid()}") / code)
            with zipfile.ZipFile(io.BytesIO(packed)) as archive:
                wanted = {place / info.filename: (archive.read(info), info.external_attr >> 16) for info in archive.infolist()}
            try:
                for path, (content, mode) in wanted.items():
                    write(place.parent, path, content, mode)
            except (FileExistsError, IsADirectoryError, NotADirectoryError):  # a file is where a folder should be
                shutil.rmtree(place)
                return unpacked()
            for path in place.rglob("*"):
                if path not in wanted and "__pycache__" not in path.parts and not path.is_dir():
                    path.unlink(missing_ok=True)
            return place

        def own(of: Path) -> Path:
            """Make a folder for this user alone, unless it is there."""
            with suppress(FileExistsError):
                of.mkdir(0o700)
            there = of.lstat()
            if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.geteuid() or there.st_mode & 0o077:
                what = "a link" if stat.S_ISLNK(there.st_mode) else "not this user's alone"
                raise PermissionError(f"{of} is {what}, and sources would be unpacked there: remove it, or set TMPDIR for the "
                                      "workers")
            return of

        def write(base: Path, path: Path, content: bytes, mode: int) -> None:
            with suppress(OSError):
                if not path.is_symlink() and path.read_bytes() == content:
                    return
            path.parent.mkdir(parents=True, exist_ok=True)
            number, half = tempfile.mkstemp(prefix=".new-", dir=base)
            try:
                with open(number, "wb") as out:
                    out.write(content)
                os.chmod(half, mode)
                os.replace(half, path)
            except BaseException:
                os.unlink(half)
                raise

        def version() -> str:
            try:
                return importlib.import_module("highwater.dst.version").code_version()
            except Exception:  # there is no highwater, or no such project
                return ""

        def forget() -> None:
            """Make this process as if it had imported neither highwater nor a project."""
            before = os.environ.get(variable)
            for of, found in [*sys.modules.items()]:
                inside = before and str(getattr(found, "__file__", None)).startswith(f"{before}/")
                if inside or of.partition(".")[0] in packages:
                    del sys.modules[of]

        if Path(root).is_dir() and os.stat(root).st_uid in (0, os.geteuid()) and root not in sys.path:
            sys.path.insert(0, root)
        if getattr(sys.modules.get("highwater"), "code_of_task", code) != code:  # that of an earlier task of this worker
            forget()
        if version() != code:
            forget()
            before = os.environ.pop(variable, None)  # of an earlier task of this worker
            sys.path[:] = [path for path in sys.path if path != before]
            place = unpacked()
            sys.path.insert(0, str(place))
            os.environ[sent] = str(place)
            if (place / folder).is_dir():
                os.environ[variable] = str(place / folder)
            importlib.invalidate_caches()
        vars(importlib.import_module("highwater"))["code_of_task"] = code
        return importlib.import_module(name)

    return module
