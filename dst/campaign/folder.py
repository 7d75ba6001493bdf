"""Safety: what is read was written whole; a folder is one campaign's, and one process at a time writes to it.

    campaign.json       what is simulated, by which code; and what was asked for last
    rows/wave=N/        Parquet, columns as in rows.SCHEMA, some seeds each; renamed into place, so never half-written
    summary.json        failures by signature; there only when all that was asked for is done
    .lock  .writing-*/  one writer at a time; what a killed one has left is thrown away
"""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dst.campaign.rows import SCHEMA
from dst.campaign.what import Campaign, CampaignError, Refused, Seeds

VERSION = 3  # of a campaign's folder
OURS = (".lock", ".campaign.json")


class Asked(NamedTuple):
    """What a campaign was last asked for."""

    seeds: Seeds
    stop_after: int = 0  # failures; 0: it goes on whatever fails
    range_size: int = 0  # seeds in a task; 0: some seconds' worth
    limit_s: float = 60.0  # a seed that takes longer has hung


@contextmanager
def opened(out: Path, campaign: Campaign, asked: Asked | None = None) -> Iterator[None]:
    """The folder, made if it is not there, for this process alone, without leftovers. Raises Refused."""
    label = out / "campaign.json"
    if out.exists() and not out.is_dir():
        raise Refused(f"{out} is not a folder")
    if out.exists() and not label.exists() and any(path.name not in OURS for path in out.iterdir()):
        raise Refused(f"{out} is not empty, and no campaign's folder: give a new one")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{out} cannot be made a folder ({error.strerror}): give another") from error
    with open(out / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(f"another campaign is running in {out}") from None
        wanted = {"version": VERSION, **campaign._asdict()}
        if label.exists():
            compare(out, read_json(label), wanted)
        if asked or not label.exists():
            write_json(label, wanted | ({"asked": asked._asdict()} if asked else {}))
        for left in out.glob(".writing*"):
            shutil.rmtree(left, ignore_errors=True)
        (out / "summary.json").unlink(missing_ok=True)
        (out / "rows").mkdir(exist_ok=True)
        yield


def compare(out: Path, there: dict, wanted: dict) -> None:
    """Raises Refused."""
    differences = [f"{name} {there.get(name)!r}, not {value!r}" for name, value in wanted.items() if there.get(name) != value]
    if differences:
        raise Refused(f"{out} holds another campaign ({'; '.join(differences)}): give a new folder")


def labelled(out: Path) -> tuple[Campaign, Asked]:
    """What a folder says of itself. Raises Refused."""
    label = out / "campaign.json"
    if out.is_file():
        raise Refused(f"{out} is a file: give a campaign's folder")
    if not out.is_dir():
        raise Refused(f"{out}: there is no such folder")
    if not label.is_file():
        inside = ", ".join(sorted(str(folder.parent) for folder in out.glob("*/campaign.json")))
        more = f"; give one of those in it: {inside}" if inside else ""
        raise Refused(f"{out} is no campaign's folder: it has no campaign.json{more}")
    said = read_json(label)
    if not said:
        raise Refused(f"{label} is damaged: run the campaign anew, into a new folder")
    if said.get("version") != VERSION:
        raise Refused(f"{out} is of version {said.get('version')!r}, and this program reads {VERSION}: run the campaign anew")
    try:
        asked = said["asked"]
        return (Campaign(**{name: said[name] for name in Campaign._fields}),
                Asked(tuple(asked["seeds"]), asked["stop_after"], asked["range_size"], asked["limit_s"]))
    except (KeyError, TypeError) as error:
        raise Refused(f"{label} is damaged ({error}): run the campaign anew, into a new folder") from None


def is_running(out: Path) -> bool:
    """Somebody writes to it now."""
    try:
        with open(out / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def read(out: Path, seeds: Seeds, columns: list[str], wave: Path | None = None) -> pa.Table:
    """The rows of these seeds, in no order; of one wave, or all. Raises CampaignError if a file is not whole: then it is not
    ours."""
    try:
        return ds.dataset(wave or out / "rows", schema=SCHEMA, format="parquet").to_table(columns=columns, filter=within(seeds))
    except (pa.ArrowException, OSError) as error:
        raise damage(wave or out / "rows", columns, error) from error


def damage(rows: Path, columns: list[str], error: Exception) -> CampaignError:
    """Which of the files it is that cannot be read, and what mends it."""
    for file in sorted(rows.rglob("*.parquet")):
        try:
            pq.read_table(file, columns=columns, partitioning=None)
        except (pa.ArrowException, OSError) as why:
            return CampaignError(f"{file} cannot be read ({why}): delete it, and `highwater campaign resume` runs its seeds "
                                 "again")
    return CampaignError(f"{rows} cannot be read: {error}")


def missing(out: Path, seeds: Seeds) -> list[Seeds]:
    """The gaps between the seeds that there are rows of."""
    there = read(out, seeds, ["seed"])["seed"].to_numpy()
    edges = np.concatenate(([seeds[0] - 1], np.unique(there), [seeds[1]]))
    gaps = np.flatnonzero(np.diff(edges) > 1)
    return [(int(edges[i]) + 1, int(edges[i + 1])) for i in gaps]


def within(seeds: Seeds) -> pc.Expression:
    return (ds.field("seed") >= seeds[0]) & (ds.field("seed") < seeds[1])


@contextmanager
def committed(out: Path) -> Iterator[Path]:
    """A folder to write to, whose files are rows all together, and only if the block ends without an exception. Its name is
    new: what an engine whose driver was killed still writes goes elsewhere."""
    writing = out / f".writing-{token_hex(8)}"
    writing.mkdir()
    yield writing
    number = 1 + max((int(path.name.partition("=")[2]) for path in (out / "rows").glob("wave=*")), default=-1)
    writing.rename(out / "rows" / f"wave={number}")


def read_json(path: Path) -> dict:
    """Nothing, if it is not an object."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def summary_in(out: Path) -> dict:
    """Nothing, if there is none yet. Raises CampaignError."""
    mend = f"delete it, and `highwater campaign resume {out}` writes it anew"
    return whole(out / "summary.json", ("failures", "reached", "never"), mend)


def whole(path: Path, names: tuple[str, ...], mend: str) -> dict:
    """An object with these names; nothing, if there is no such file. Raises CampaignError."""
    if not path.exists():
        return {}
    found = read_json(path)
    if not set(names) <= set(found):
        raise CampaignError(f"{path} is damaged: {mend}")
    return found


def write_json(path: Path, value: dict) -> None:
    half = path.with_name(f".{path.name}")
    half.write_text(json.dumps(value, indent=2) + "\n")
    half.replace(path)
