"""highwater campaign replay: run the seed of a row again and compare the result with the row."""

from pathlib import Path
from typing import NoReturn

import typer

from highwater.cli.console import announce, console, refuse
from highwater.cli.dst.bundle import bundle
from highwater.cli.dst.report import or_time_out, report
from highwater.dst.campaign.folder import check_code, labelled, read
from highwater.dst.campaign.triage import rerun
from highwater.dst.campaign.what import CampaignError, Refused, replay_of, replayed_in
from highwater.gate.exits import HARNESS, of_kinds


def replay(out: Path, seed: int, keep: Path | None) -> NoReturn:
    try:
        campaign, asked = labelled(out)
        low, high = asked.seeds
        row = read(out, (seed, seed + 1), ["signature", "digest"]).to_pylist()
        if not row:
            refuse(f"{out} has no row of seed {seed}: " + ("it has not run yet" if low <= seed < high else
                                                           f"the campaign has seeds {low} to {high - 1}"))
        check_code(campaign, out, seed)
        again = replayed_in(replay_of(campaign, seed), out)
        announce(campaign.scenario)
        outcome, given = or_time_out(lambda: rerun(campaign, seed), asked.limit_s, again)
    except Refused as error:
        refuse(str(error))
    except CampaignError as error:
        console.print(str(error), markup=False)
        raise typer.Exit(HARNESS) from None
    if keep:
        bundle(outcome, given, keep)
    report(outcome, given, again)
    if row[0]["digest"] and (outcome.signature, outcome.digest) != (row[0]["signature"], row[0]["digest"]):
        console.print(f"[bold red]nondeterminism[/]: its row says {row[0]['signature'] or 'ok'}, trace {row[0]['digest']}")
        raise typer.Exit(of_kinds(["nondeterminism"]))
    raise typer.Exit(of_kinds([outcome.kind] if outcome.kind else []))
