"""Tell of a run that has left the model whether its callers came to harm: run it again, judged by their history alone.

A refinement failure says that an implementation did what its model does not do. That need not hurt anyone, and the run ends
there. Without the model the harness numbers updates by itself, so an update may have another number than in the failing run.
"""

from highwater.dst.run_spec import Run
from highwater.dst.sim.choose import Lenient
from highwater.dst.simulate import Build, Outcome, simulate


def without_the_model(outcome: Outcome, build: Build | None) -> Outcome:
    """Run the same choices again, to the end. Further choices are the seed's, or drawn anew if the tape is not the seed's."""
    sites = {site.partition(".")[0] for site, *_ in outcome.tape}
    run = Run(outcome.seed, outcome.scenario, None, outcome.strategy, None if "shape" in sites else outcome.shape,
              None if "swarm" in sites else outcome.weights)
    for strategy in ("portfolio", outcome.strategy):
        found = simulate(run._replace(strategy=strategy), build, by_model=False)
        if found.tape[:len(outcome.tape)] == outcome.tape:
            return found
    return simulate(run, build, by_model=False, chooser=Lenient(run.seed, outcome.tape, fresh=True))


def callers(outcome: Outcome, build: Build | None) -> str:
    """One line of a run that fails by refinement; "" of any other, whose own failure says it."""
    if outcome.kind != "refinement":
        return ""
    found = without_the_model(outcome, build)
    if not found.kind:
        return "Callers: nobody came to harm in this run (run again to its end, judged by the callers' history alone)"
    harm = "did not get on" if found.kind == "liveness" else "came to harm"
    return f"Callers: {harm}: {found.signature}: {' '.join(found.message.split())}"
