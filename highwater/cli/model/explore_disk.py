"""highwater model explore --out DIR, --spark: explore with states in files, by processes or by Spark."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from highwater.cli.console import console, refuse
from highwater.gate.exits import HARNESS, INCOMPLETE, INTERRUPTED
from highwater.model.core import Bounds, Exploration, Model, Progress

if TYPE_CHECKING:
    from highwater.dst.spark.session import SessionOptions


def search_on_disk(model: Model, what: dict[str, object], out: Path | None, of_spark: "SessionOptions | None", processes: int,
                   partitions: int | None, bounds: Bounds, progress: Progress) -> Exploration:
    """Explore with states in files, on Spark if there are options of a session, else in processes. Exits with one line after a
    failure. `what` identifies the exploration."""
    from highwater.dst.campaign.stages import local_stages
    from highwater.dst.campaign.what import CampaignError, NoSpark
    from highwater.dst.spark.stages import spark_stages
    from highwater.model.explore.disk.files import Refused
    from highwater.model.explore.disk.search import Failed, explore

    goes_on = f"Finished depths are kept in {out}: the same command resumes." if out else "Nothing is kept: add --out DIR."
    began: list[int] = []

    def stop(code: int, message: str) -> NoReturn:
        console.print(message, style="red", markup=False)
        raise typer.Exit(code)

    def told(states: int, depth: int) -> None:
        if not began and depth:
            console.print(f"resumes at depth {depth}, with {states:,} states", markup=False)
        began.append(depth)
        progress(states, depth)

    stages = spark_stages(of_spark) if of_spark else local_stages(processes)
    try:
        with folder(out, of_spark.master if of_spark else "") as there:
            return explore(model, there, what, stages, partitions, told, bounds)
    except Refused as error:
        refuse(str(error))
    except NoSpark as error:
        stop(INCOMPLETE, str(error))
    except (Failed, CampaignError) as error:
        stop(HARNESS, f"The exploration has failed. {str(error).strip().splitlines()[0]} {goes_on}")
    except OSError as error:
        stop(HARNESS, f"The exploration has failed. {error.filename or out}: {error.strerror or error}. {goes_on}")
    except KeyboardInterrupt:
        stop(INTERRUPTED, f"Stopped. {goes_on}")


@contextmanager
def folder(out: Path | None, master: str) -> Generator[Path, None, None]:
    """Yield the folder to keep states in; without --out, a temporary one that is deleted at the end."""
    if out:
        yield out
    elif master and not master.startswith("local"):
        refuse(f"--master {master}: give --out DIR, a folder that this machine and the workers share")
    else:
        with tempfile.TemporaryDirectory(prefix="highwater-explore-") as made:
            yield Path(made)
