"""Safety: a client is convicted by a model only if no order of the requests of a trial is one that the model allows."""

from collections.abc import Iterator

from highwater.clients.findings import Evidence, Finding
from highwater.traces.recorded.orders import Found, search
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.s3store import READS, steps_of
from highwater.traces.recorded.systems.mapped import Mapped
from highwater.traces.recorded.systems.template import Template

BUDGET = 200_000  # steps of a search; beyond it a trial is not judged


def modelled(of: Evidence) -> Iterator[Finding]:
    """A request is no action of the model that `--map` names for its key, or breaks a property of the model."""
    if not of.maps:
        return
    machine = Mapped(of.maps, of.place.prefix, fresh=True)
    for requests in (of.seen.before, of.requests):
        found = search(steps_of(requests)[0], machine, BUDGET)
        if found.verdict == "stuck":
            yield worst(found)
        if found.verdict != "complete":
            return


def worst(found: Found) -> Finding:
    """The finding of a search that no order ends: a property that is broken counts most, and an answer of the store least."""
    step, refusal = min(found.refused, key=lambda one: (not one[1].harm, one[1].guard == "store", one[0].number))
    kind = "store contradicts itself" if refusal.guard == "store" else "property broken" if refusal.harm else "not in the model"
    request: Request = step.what.request
    needs = f"; {refusal.needs}" if refusal.needs else ""
    return Finding(kind, f"{refusal.guard}: {refusal.why}{needs}", (request.number,))


def unused_maps(of: Evidence) -> list[str]:
    """Return the templates of maps that fit no key that is put or deleted."""
    changed = [step.what.key for step in steps_of([*of.seen.before, *of.requests])[0] if step.what.op not in READS]
    templates = [Template(one.keys, of.place.prefix) for one in of.maps]
    return [template.text for template in templates if not any(map(template.spot, changed))]
