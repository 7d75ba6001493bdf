"""Tell whether a run that left the model harmed its callers: run it again, judged by the callers' history alone.

A refinement failure ends a run when the implementation does something that its model does not do. That need not harm anyone.
Without the model the harness numbers updates itself, so an update may have another number than in the failing run.
"""

from highwater.dst.run_spec import Run
from highwater.dst.sim.choose import Lenient
from highwater.dst.simulate import Build, Outcome, simulate


def without_the_model(outcome: Outcome, build: Build | None) -> Outcome:
    """Run the same choices again, to the end. Later choices come from the seed, or are drawn anew if the tape is not the
    seed's."""
    sites = {site.partition(".")[0] for site, *_ in outcome.tape}
    run = Run(outcome.seed, outcome.scenario, None, outcome.strategy, None if "shape" in sites else outcome.shape,
              None if "swarm" in sites else outcome.weights)
    for strategy in ("portfolio", outcome.strategy):
        found = simulate(run._replace(strategy=strategy), build, by_model=False)
        if found.tape[:len(outcome.tape)] == outcome.tape:
            return found
    return simulate(run, build, by_model=False, chooser=Lenient(run.seed, outcome.tape, fresh=True))


def callers(outcome: Outcome, build: Build | None) -> str:
    """Describe in one line the harm in a run that fails by refinement; "" for other runs, whose failure already says it."""
    if outcome.kind != "refinement":
        return ""
    found = without_the_model(outcome, build)
    if not found.kind:
        return "Callers: nobody came to harm in this run (run again to its end, judged by the callers' history alone)"
    harm = "did not get on" if found.kind == "liveness" else "came to harm"
    return f"Callers: {harm}: {found.signature}: {' '.join(found.message.split())}"
