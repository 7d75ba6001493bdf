"""Send our sources along with each task.

Safety: a worker with other code, or none, runs the driver's sources.
"""

import io
import zipfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

from highwater.dst.version import CODE, ROOT


def sources() -> bytes:
    """Return the sources that a run depends on, as a zip file: the same bytes for the same code."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for pattern in ("__init__.py", *CODE) for path in ROOT.glob(pattern)):
            archive.writestr(zipfile.ZipInfo(path.relative_to(ROOT.parent).as_posix()), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def shipped(code: str) -> Callable[[str], ModuleType]:
    """Return the function with which a worker imports our modules: from these sources, which are sent if its own differ.

    Spark sends the function and its callers as code, so they may refer to our modules only inside."""
    packed, root = sources(), str(ROOT.parent)

    def module(name: str) -> Any:
        import importlib
        import io
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
            except ImportError:
                return ""

        if Path(root).is_dir() and root not in sys.path:
            sys.path.insert(0, root)
        if version() != code:
            for of in [of for of in sys.modules if of.partition(".")[0] == "highwater"]:
                del sys.modules[of]
            sys.path.insert(0, unpacked())
            importlib.invalidate_caches()
        return importlib.import_module(name)

    return module
