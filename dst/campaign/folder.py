"""Keep a campaign in a folder. Safety: only complete files are read; a folder belongs to one campaign, and has one writer at a
time.

    campaign.json       the campaign, its code (a hash of the sources, and git's commit), and the last request
    rows/wave=N/        Parquet, columns as in rows.SCHEMA, some seeds each; renamed into place, so never half-written
    summary.json        failures by signature; exists only when all requested seeds are done
    .lock  .writing-*/  one writer at a time; leftovers of a killed one are deleted
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater import project
from highwater.dst.campaign.rows import SCHEMA
from highwater.dst.campaign.what import GUIDED, NO_GUIDE, Campaign, CampaignError, Refused, Seeds, replay_of
from highwater.dst.version import ROOT, code_version
from highwater.model.explore.disk.own_folder import own
from highwater.outside import document_of, json_of

VERSION = 5  # of a campaign's folder
READABLE = (3, 4, VERSION)  # 3 has two more columns, which only guided campaigns used; 3 and 4 have no `output`
NO_LABEL = ("restore a copy of it; without one the rows can still be read as Parquet, but the campaign must be run again, "
            "into a new folder")
OURS = (".lock", ".campaign.json")
URL = "url"  # a file of a folder that is a copy of a bucket: bucket/copy.py


class Asked(NamedTuple):
    """The last request for a campaign: its seeds and limits."""

    seeds: Seeds
    stop_after: int = 0  # failures; 0: no limit
    range_size: int = 0  # seeds in a task; 0: as many as take some seconds
    limit_s: float = 60.0  # a seed that takes longer has hung


@contextmanager
def opened(out: Path, campaign: Campaign, asked: Asked | None = None) -> Generator[None, None, None]:
    """Open the folder for this process alone, making it if necessary and removing leftovers. Raises Refused."""
    label = out / "campaign.json"
    with own(out, label.name, OURS, "campaign", Refused):
        wanted = {"version": VERSION, **campaign._asdict(), **of_project()}
        if label.exists():
            compare(out, read_json(label), wanted)
        if asked or not label.exists():
            more = {"asked": asked._asdict()} if asked else {}
            write_json(label, wanted | place_of_project() | {"commit": commit()} | more)
        for left in out.glob(".writing*"):
            shutil.rmtree(left, ignore_errors=True)
        (out / "summary.json").unlink(missing_ok=True)
        (out / "rows").mkdir(exist_ok=True)
        yield


def of_project() -> dict[str, str]:
    """Name the project in campaign.json, if there is one. Its code is part of the campaign's code."""
    current = project.current()
    return {"project": current.folder.name} if current else {}


def place_of_project() -> dict[str, str]:
    """Say in campaign.json where the project is, so that `labelled` finds it. Another place makes no other campaign."""
    current = project.current()
    return {"project_folder": str(current.folder)} if current else {}


def take_project(out: Path, said: dict) -> None:
    """Take the project of a campaign, given its campaign.json, unless one was given. The campaign's own folder may be in it.
    Raises Refused if the project is not found, or another one was given."""
    name, scenario = said.get("project"), str(said.get("scenario"))
    current = project.current()
    if not name:
        return project.leave_for(scenario)
    if current and not project.noticed:
        if scenario not in current.packages:
            raise Refused(f"{out} is a campaign of the project {name!r}, but {current.folder} has no protocol {scenario!r}: "
                          "give its own project")
        return None
    project.leave()  # its package may have the name of the campaign's
    recorded = str(said.get("project_folder", ""))
    for folder in (recorded and Path(recorded), project.enclosing(out.resolve()), current and current.folder):
        try:
            if folder and scenario in project.opened(str(folder)).packages:
                return project.notice(folder)
        except project.ProjectError:
            pass
    where = f", which is not in {recorded} any more" if recorded else ""
    raise Refused(f"{out} is a campaign of the project {name!r}{where}: add --project and that folder")


def commit() -> str:
    """Return the current commit, of the project if there is one, with a + if the tree is dirty; "" outside git."""
    current = project.current()
    if not current and not (ROOT.parent / ".git").exists():
        return ""
    folder = str(current.folder if current else ROOT.parent)
    unnamed = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # a hook's GIT_DIR is another
    try:
        said = subprocess.run(["git", "-C", folder, "describe", "--always", "--exclude=*", "--abbrev=12",
                               "--dirty=+"], capture_output=True, text=True, timeout=10, env=unnamed)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def compare(place: Path | str, there: dict, wanted: dict) -> None:
    """Raises Refused if the folder, or the bucket at this URL, holds a campaign with other parameters."""
    differences = [f"{name} {there.get(name)!r}, not {value!r}" for name, value in wanted.items() if there.get(name) != value]
    if differences:
        new = "folder" if isinstance(place, Path) else "prefix"
        raise Refused(f"{place} holds another campaign ({'; '.join(differences)}): give a new {new}")


def labelled(out: Path) -> tuple[Campaign, Asked]:
    """Return the campaign that a folder holds and what was last requested of it. Takes its project. Raises Refused."""
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
        raise Refused(f"{label} is damaged: {NO_LABEL}")
    take_project(out, said)
    if said.get("version") not in READABLE:
        raise Refused(f"{out} is of version {said.get('version')!r}, but this program reads "
                      f"{' and '.join(map(str, READABLE))}: run the campaign again")
    try:
        asked = said["asked"]
        found = (Campaign(**{name: said[name] for name in Campaign._fields}),
                 Asked(tuple(asked["seeds"]), asked["stop_after"], asked["range_size"], asked["limit_s"]))
        check_types(*found)
        return found
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{label} is damaged ({error}): {NO_LABEL}") from None


def check_types(campaign: Campaign, asked: Asked) -> None:
    """Raises ValueError or TypeError if a field of campaign.json has a wrong type."""
    low, high = asked.seeds
    for name, value, usual in (("seeds", low, 0), ("seeds", high, 0), *zip(campaign._fields, campaign, Campaign()),
                               *zip(asked._fields[1:], asked[1:], Asked((0, 1))[1:])):
        if type(value) is not type(usual) and (type(value), type(usual)) != (int, float):
            raise ValueError(f"{name} is {value!r}")
    if not 0 <= low < high:
        raise ValueError(f"seeds are {low} to {high}")


def url_of(out: Path) -> str:
    """Return the URL that a folder is a copy of; "" for any other folder."""
    try:
        return (out / URL).read_text().strip()
    except OSError:
        return ""


def is_running(out: Path) -> bool | None:
    """Tell whether a process is writing to the campaign now. None for a copy of a bucket, which does not say."""
    if url_of(out):
        return None
    try:
        with open(out / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def read(out: Path, seeds: Seeds, columns: list[str], wave: Path | None = None, only: pc.Expression | None = None) -> pa.Table:
    """Return the rows of these seeds, in no particular order, of one wave or of all; `only` those of a condition. Raises
    CampaignError if a file is damaged."""
    import pyarrow.dataset as ds  # here, because it imports pandas, which a worker that only writes rows does not need

    try:
        those = within(seeds) if only is None else within(seeds) & only
        return ds.dataset(wave or out / "rows", schema=SCHEMA, format="parquet").to_table(columns=columns, filter=those)
    except (pa.ArrowException, OSError) as error:
        raise damage(out, columns, error, wave) from error


def damage(out: Path, columns: list[str], error: Exception, wave: Path | None = None) -> CampaignError:
    return damaged_file(out, columns, wave) or CampaignError(f"{wave or out / 'rows'} cannot be read: {error}")


def damaged_file(out: Path, columns: list[str], wave: Path | None = None) -> CampaignError | None:
    """Return an error that names the first unreadable file and how to repair the folder; None if all can be read."""
    for file in sorted((wave or out / "rows").rglob("*.parquet")):
        try:
            pq.read_table(file, columns=columns, partitioning=None)  # pyright: ignore[reportArgumentType]  # None: no partitions
        except (pa.ArrowException, OSError) as why:
            return CampaignError(f"{file} cannot be read ({' '.join(str(why).split())}): delete it, and `highwater campaign "
                                 f"resume {out}{project.option()}` runs its seeds again")
    return None


def output_of(out: Path, seeds: Iterable[int]) -> dict[int, str]:
    """Return what failed seeds have printed at their end, of those that have. Raises CampaignError."""
    wanted = sorted(seeds)
    if not wanted:
        return {}
    rows = read(out, (wanted[0], wanted[-1] + 1), ["seed", "output"], only=pc.field("seed").isin(wanted))
    return {row["seed"]: row["output"] for row in rows.to_pylist() if row["output"]}


def missing(out: Path, seeds: Seeds) -> list[Seeds]:
    """Return the ranges of seeds that have no rows."""
    there = read(out, seeds, ["seed"])["seed"].to_numpy()
    edges = np.concatenate(([seeds[0] - 1], np.unique(there), [seeds[1]]))
    gaps = np.flatnonzero(np.diff(edges) > 1)
    return [(int(edges[i]) + 1, int(edges[i + 1])) for i in gaps]


def within(seeds: Seeds) -> pc.Expression:
    return (pc.field("seed") >= seeds[0]) & (pc.field("seed") < seeds[1])


@contextmanager
def committed(out: Path) -> Generator[tuple[Path, Path], None, None]:
    """Provide a folder to write rows to, and commit all its files together if the block ends without an exception. Its second
    value is the folder that then has them.

    The folder's name is new. So an engine whose driver was killed cannot write into it."""
    writing = out / f".writing-{token_hex(8)}"
    writing.mkdir()
    number = 1 + max((int(path.name.partition("=")[2]) for path in (out / "rows").glob("wave=*")), default=-1)
    final = out / "rows" / f"wave={number}"
    yield writing, final
    writing.rename(final)


def read_json(path: Path) -> dict:
    """Read a JSON object; {} if the file is missing or is not one."""
    try:
        return dict(json_of(document_of(path)))
    except (OSError, ValueError, TypeError):
        return {}


def summary_in(out: Path) -> dict:
    """Return the summary; {} if there is none yet. Raises CampaignError."""
    mend = f"delete it, and `highwater campaign resume {out}{project.option()}` writes it anew"
    found = whole(out / "summary.json", ("seeds", "failures", "reached", "never"), mend)
    if found and not re.fullmatch(r"\d+:\d+", str(found["seeds"]), re.ASCII):
        raise CampaignError(f"{out / 'summary.json'} is damaged: {mend}")
    return found


def commit_in(out: Path) -> str:
    return str(read_json(out / "campaign.json").get("commit", ""))


def check_code(campaign: Campaign, out: Path, seed: int) -> None:
    """Raises Refused if the code differs from the campaign's: the same seed may run differently with it."""
    if campaign.code != code_version():
        commit = commit_in(out)
        of = f"{campaign.code}, commit {commit}" if commit else campaign.code
        again = (f" ({NO_GUIDE})" if campaign.strategy == GUIDED else
                 f"; or run the seed with this code: {replay_of(campaign, seed)}")
        raise Refused(f"{out} was run with other code ({of}; this is {code_version()}): check out that commit{again}")


def covered(asked: Asked, summary: dict) -> Seeds:
    """Return the seeds that a campaign reports on: those in its summary (fewer than all after `--stop-after`), else all.

    Rows beyond them are ignored, because which exist depends on how the seeds were cut into ranges."""
    low, _, high = summary.get("seeds", "").partition(":")
    return (int(low), int(high)) if summary else asked.seeds


def check_rows(out: Path, seeds: np.ndarray, left: int, summary: dict) -> None:
    """Check that each seed has one row. `seeds`: of all rows, ascending; `left`: number of seeds without a row. Raises
    CampaignError."""
    if len(seeds) and (np.diff(seeds) == 0).any():
        twice = int(seeds[:-1][np.diff(seeds) == 0][0])
        waves = [str(wave) for wave in sorted((out / "rows").glob("wave=*"))
                 if read(out, (twice, twice + 1), ["seed"], wave).num_rows]
        raise CampaignError(f"{out / 'rows'} has more than one row for a seed: seed {twice} is in "
                            f"{' and '.join(waves)}: keep one of them")
    if summary and left:
        raise CampaignError(f"{out} has lost the rows of {left:,} seeds since its summary was written: `highwater campaign "
                            f"resume {out}{project.option()}` runs them again")


def whole(path: Path, names: tuple[str, ...], mend: str) -> dict:
    """Read a JSON object that has these names; {} if there is no such file. Raises CampaignError."""
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
