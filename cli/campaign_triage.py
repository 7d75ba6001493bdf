"""highwater campaign triage: a bundle of each kind of failure, and what is new about it."""

from pathlib import Path
from shlex import quote

from cli.dst_report import bundle
from dst.bundle import Given
from dst.campaign.folder import labelled, write_json
from dst.campaign.triage import compare, names_of, replayed, rerun, summary_of, to_shrink, with_processes
from dst.campaign.what import CampaignError, Refused
from dst.shrink import measure
from dst.version import code_version


def triage(out: Path, against: list[Path], budget: int, jobs: int) -> list[dict]:
    """A row a signature; writes DIR/bundles and DIR/triage.json. Raises Refused, CampaignError, OSError."""
    campaign, _ = labelled(out)
    if campaign.code != code_version():
        raise Refused(f"{out} is of other code ({campaign.code}, and here is {code_version()}): check that out, or run it anew")
    summary = summary_of(out)
    states = {one.signature: one for one in compare(summary, [summary_of(folder) for folder in against])}
    todo, bundles = to_shrink(summary), {}
    names = names_of(signature for _, signature in todo)
    for (_, signature), small in zip(todo, with_processes(jobs)(campaign, todo, budget)):
        outcome, shape = rerun(campaign, small.seed)
        found = replayed(campaign, small)
        if {outcome.signature, found.signature} != {signature}:
            raise CampaignError(f"seed {small.seed}, shrunk, ends with {found.signature or 'ok'}, and was {signature}")
        name = names[signature]
        given = Given(campaign.scenario, small.seed, campaign.mutant or None, outcome.strategy, shape)
        bundle(outcome, given, out / "bundles" / name,
               (found, given._replace(strategy=small.strategy, shape=small.shape, weights=small.weights)))
        bundles[signature] = {
            "bundle": f"bundles/{name}", "requests": f"{measure(outcome)[0]} -> {measure(found)[0]}",
            "replay": f"highwater dst replay {quote(str(out / 'bundles' / name))} --shrunk"}
    rows = [{"signature": failure["signature"], "state": states[failure["signature"]].state, "kind": failure["kind"],
             "first": states[failure["signature"]].first, "count": failure["count"], "seed": failure["smallest_seed"],
             "message": failure["message"],
             **bundles.get(failure["signature"], {"bundle": "", "requests": "", "replay": failure["replay"]})}
            for failure in summary["failures"]]
    rows += [{"signature": one.signature, "state": one.state, "kind": "", "first": one.first}
             for one in states.values() if one.state == "gone"]
    write_json(out / "triage.json", {"against": [summary_of(folder)["code"] for folder in against], "failures": rows})
    return rows
