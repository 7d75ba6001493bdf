"""highwater index retention: which units of a metadata index a policy drops now."""

import json
from typing import Annotated

import typer
from rich.table import Table

from highwater.cli.console import console, refuse
from highwater.cli.index import LOOPBACK, AsJson, At, backed_up, files_of, finish, places_of, policy_of, told_by_all
from highwater.cli.raft import Authority, Certificate, Key
from highwater.gate.exits import INCOMPLETE

Retain = Annotated[int, typer.Option("--retain-s", min=0, help="seconds for which data are kept; 0: for ever")]
Tenants = Annotated[list[str] | None, typer.Option("--retain-tenant", help="NAME=SECONDS, for a tenant with another period")]


def retention_command(
        dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be dropped")] = False,
        retain_s: Retain = 31 * 24 * 3600, tenants: Tenants = None, at: At = LOOPBACK, as_json: AsJson = False,
        authority: Authority = None, certificate: Certificate = None, key: Key = None) -> None:
    """Show the units that retention would drop now. It changes nothing."""
    from highwater.impl.codecs.codec import Undecodable
    from highwater.impl.codecs.index.partitions import text
    from highwater.impl.index import replicated, units
    from highwater.impl.index.retention import MS, over

    if not dry_run:
        refuse("give --dry-run: units are dropped by `highwater index serve --retain-s` alone, on the node that leads")
    policy, places, files = policy_of(retain_s, tenants), places_of(at), files_of(authority, certificate, key)
    try:
        rows = replicated.load(finish(backed_up(places, files)))
    except Undecodable as error:
        refuse(f"the index's state came damaged: {error}", INCOMPLETE)
    times_ms = [told["log_time_ms"] for told in finish(told_by_all(places, files)).values() if "log_time_ms" in told]
    if not times_ms:
        refuse("no node answers with its log time, by which the leader decides: repeat the command", INCOMPLETE)
    found = [(unit, times, len(units.ids(rows, unit))) for unit, times in over(rows, policy, max(times_ms) * MS)]
    if as_json:
        for unit, times, blocks in found:
            print(json.dumps({"window": text(unit.partition), "tenant": unit.tenant, "shard": unit.shard, "blocks": blocks,
                              "from_ms": times.min_ms, "to_ms": times.max_ms}))
        return
    table = Table("window", "tenant", "shard", "blocks", "from", "to")
    for unit, times, blocks in found:
        table.add_row(text(unit.partition), unit.tenant or "(anonymous)", str(unit.shard), f"{blocks:,}", str(times.min_ms),
                      str(times.max_ms))
    console.print(table)
    console.print(f"{len(found):,} units, {sum(blocks for *_, blocks in found):,} blocks would be dropped")
