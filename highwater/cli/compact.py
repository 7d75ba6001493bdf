"""highwater db compact, for SlateDB databases."""

import json
from typing import Annotated, Any

import typer

from highwater.cli import admin
from highwater.cli.console import console, refuse
from highwater.gate.exits import INCOMPLETE, SAFETY
from highwater.gate.extras import install_extra
from highwater.impl.db.compression import NAMES


def compact_command(url: admin.Url,
                    watch: Annotated[bool, typer.Option("--watch", help="go on polling, until Ctrl-C")] = False,
                    poll_s: Annotated[float, typer.Option(min=0, help="seconds between two polls of --watch")] = 5,
                    least: Annotated[int, typer.Option("--min-sources", min=1, help="SSTs of L0, or runs, that are compacted "
                                                       "at least")] = 4,
                    codec: Annotated[str, typer.Option(help=f"of the outputs: {', '.join(NAMES)}")] = "none",
                    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be compacted first; nothing is "
                                                          "written")] = False,
                    as_json: Annotated[bool, typer.Option("--json", help="print JSON lines")] = False) -> None:
    """Merge SSTs of L0 and sorted runs until there are too few. This is a compactor: one that runs elsewhere is fenced, also
    that inside a released writer. Writers and readers are not disturbed."""
    from highwater.admin import compact
    from highwater.impl.db.compactor import Options
    from highwater.impl.db.tiers import Tiers

    if codec not in NAMES:
        refuse(f"--codec {codec}: it is one of {', '.join(NAMES)}")
    if watch and dry_run:
        refuse("--watch and --dry-run: give one of them")
    options = Options(round(1000 * poll_s), Tiers(least, max(8, least)))
    options = options._replace(form=options.form._replace(compression_codec=NAMES.index(codec)))

    def told(one: dict[str, Any]) -> None:
        console.print(json.dumps(one) if as_json else line(one), markup=False)

    if dry_run:
        found = asked(url, compact.planned, True, options)
        for one in found:
            told(one)
    elif watch:
        asked(url, compact.watched, False, options, told)
        return
    else:
        found = asked(url, compact.compacted, False, options, told)
    if not found and not as_json:
        console.print("there is nothing to compact")


def asked(url: str, ask: Any, read_only: bool, *more: Any) -> Any:
    """Return what `admin.asked` returns. Exits with 10 where safety refuses, and with 3 if a codec's library is missing."""
    from highwater.admin.compact import REFUSALS
    from highwater.impl.db.compression import CodecMissing

    try:
        return admin.asked(url, ask, read_only, *more, through=(*REFUSALS, CodecMissing))
    except CodecMissing as error:
        refuse(f"{url}: {error}: {install_extra('codecs')}", INCOMPLETE)
    except REFUSALS as error:
        refuse(f"{url}: {error}", SAFETY)


def line(one: dict[str, Any]) -> str:
    """Return a compaction as a line."""
    sources = [f"{len(one['l0'])} of L0"] * bool(one["l0"]) + [f"run {run}" for run in one["runs"]]
    said = f"{one['compaction']}: {', '.join(sources)} -> run {one['destination']}"
    if "outputs" not in one:
        return f"{said}, {one['status']}"
    size = sum(sst["bytes_of_blocks"] for sst in one["outputs"])
    return f"{said}: {len(one['outputs'])} SSTs, {size:,} bytes"
