"""The wheel, and environments with it, for the tests that use an installed highwater."""

from pathlib import Path

import pytest

from tests.support import installed

LIBRARIES = Path(pytest.__file__).parents[1]  # of the interpreter that runs the tests


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """A folder with the wheel and the source distribution."""
    return installed.once(tmp_path_factory, "built", installed.build)


@pytest.fixture(scope="session")
def wheel(built) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def core(wheel, tmp_path_factory) -> Path:
    """An environment as `pip install highwater-verify` makes it: links to what the core depends on, and to nothing else."""
    def make(folder: Path) -> None:
        installed.with_links(installed.environment(folder, wheel), installed.core_of(wheel))

    return installed.once(tmp_path_factory, "core", make)


@pytest.fixture(scope="session")
def full(wheel, tmp_path_factory) -> Path:
    """An environment as with all extras: it also has what the interpreter of the tests has, the checkout excepted."""
    def make(folder: Path) -> None:
        (installed.environment(folder, wheel) / "dependencies.pth").write_text(f"{LIBRARIES}\n")

    return installed.once(tmp_path_factory, "full", make)


@pytest.fixture(scope="session")
def complete(full, tmp_path_factory) -> Path:
    """The environment with all extras, and with the command `highwater`."""
    def make(folder: Path) -> None:
        packages = installed.empty(folder)
        (packages / "full.pth").write_text(f"{next(full.glob('lib/python*/site-packages'))}\n{LIBRARIES}\n")
        installed.with_command(folder)

    return installed.once(tmp_path_factory, "complete", make)


@pytest.fixture(scope="session")
def users(wheel, core, tmp_path_factory) -> Path:
    """The core's environment with pytest beside it, and with the command `highwater`: what the tutorial's reader has."""
    def make(folder: Path) -> None:
        packages = installed.empty(folder)
        (packages / "core.pth").write_text(f"{next(core.glob('lib/python*/site-packages'))}\n")
        installed.with_links(packages, ["pytest"])
        installed.with_command(folder)

    return installed.once(tmp_path_factory, "users", make)
