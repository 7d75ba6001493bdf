"""highwater campaign triage: keep a bundle of each kind of failure, and say which are new."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from shlex import quote

import numpy as np

from highwater import project
from highwater.cli.console import announce
from highwater.cli.dst.bundle import bundle
from highwater.dst.campaign.folder import check_code, check_rows, covered, labelled, read, write_json
from highwater.dst.campaign.triage import Shrinker, Small, compare, names_of, replayed, rerun, small_run, summary_of, to_shrink
from highwater.dst.campaign.what import CampaignError
from highwater.dst.run_spec import Run
from highwater.dst.search.shrink import measure
from highwater.dst.simulate import Outcome


def triage(out: Path, against: list[Path], budget: int, start: Callable[[], AbstractContextManager[Shrinker]]) -> list[dict]:
    """Write DIR/bundles and DIR/triage.json, and return a row for each signature. Raises Refused, CampaignError, OSError."""
    campaign, asked = labelled(out)
    summary = summary_of(out)
    check_code(campaign, out, min((of["smallest_seed"] for of in summary["failures"]), default=asked.seeds[0]))
    low, high = covered(asked, summary)
    seeds = np.sort(read(out, (low, high), ["seed", "kind", "signature"])["seed"].to_numpy())
    check_rows(out, seeds, high - low - len(seeds), summary)  # report damaged rows before anything else
    states = {one.signature: one for one in compare(summary, [summary_of(folder) for folder in against])}
    bundles, those = {}, to_shrink(summary)
    announce(campaign.scenario, at_once=True)
    names = names_of(signature for _, signature in those)
    with start() if those else nullcontext(lambda *_: ()) as shrink:
        for (seed, signature), small in zip(those, shrink(campaign, those, budget)):
            (outcome, given), found = rerun(campaign, seed), replayed(campaign, small)
            if {outcome.signature, found.signature} != {signature}:
                raise CampaignError(f"seed {seed}: the shrunk run ends with {found.signature or 'ok'} instead of {signature}")
            bundles[signature] = kept(out / "bundles" / names[signature], outcome, given, small, found)
    rows = [{"signature": failure["signature"], "state": states[failure["signature"]].state, "kind": failure["kind"],
             "first": states[failure["signature"]].first, "count": failure["count"], "seed": failure["smallest_seed"],
             "message": failure["message"],
             **bundles.get(failure["signature"], {"bundle": "", "requests": "", "replay": failure["replay"]})}
            for failure in summary["failures"]]
    rows += [{"signature": one.signature, "state": one.state, "kind": "", "first": one.first}
             for one in states.values() if one.state == "gone"]
    write_json(out / "triage.json", {"against": [summary_of(folder)["code"] for folder in against], "failures": rows})
    return rows


def kept(place: Path, outcome: Outcome, given: Run, small: Small, found: Outcome) -> dict[str, str]:
    """Write a bundle of a run and its shrunk run. Return its fields for triage.json."""
    bundle(outcome, given, place, (found, small_run(given, small)))
    return {"bundle": f"bundles/{place.name}", "requests": f"{measure(outcome)[0]} -> {measure(found)[0]}",
            "replay": f"highwater dst replay {quote(str(place))}{project.option()} --shrunk"}
