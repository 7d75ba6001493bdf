"""Safety: only one program uses a folder at a time, and a folder with other content is refused."""

import fcntl
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def own(folder: Path, label: str, ours: Collection[str], what: str, refused: type[Exception]) -> Generator[None, None, None]:
    """Hold the folder for this program alone, and make it if it is missing.

    `label` is the file that identifies it; `ours` are other names that may exist before it; `what` names the content. Raises
    `refused`, with a message of one line.
    """
    if folder.exists() and not folder.is_dir():
        raise refused(f"{folder} is not a folder")
    if folder.exists() and not (folder / label).exists() and any(path.name not in ours for path in folder.iterdir()):
        raise refused(f"{folder} is not empty, and no {what}'s folder: give a new one")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refused(f"{folder} cannot be made a folder ({error.strerror}): give another") from error
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise refused(f"another {what} is running in {folder}") from None
        yield
