"""Tell whether a run harmed a caller or a reader: if it left the model, run it again, judged by the callers' history alone.

Harm: a caller received a false response, an acknowledged update is lost or an update is applied twice, or a read returned what
nobody may see. These are the failures of kind "safety", except for those of NO_HARM.

A refinement failure ends a run when the implementation does something that its model does not do. That need not harm anyone.
Without the model the harness numbers updates itself, so an update may have another number than in the failing run.
"""

from highwater.dst.run_spec import Run
from highwater.dst.sim.choose import Lenient
from highwater.dst.simulate import Build, Outcome, simulate

NO_HARM = ("safety:", "exception:", "script")  # a property of a state, an error that no table lists, a script's own run


def harms(outcome: Outcome) -> bool:
    """Tell whether the run fails by harm to a caller or a reader."""
    return outcome.kind == "safety" and not outcome.signature.startswith(NO_HARM)


def harmed(outcome: Outcome, build: Build | None) -> Outcome | None:
    """Return the run in which a caller or a reader comes to harm: this one, or the same choices to the end without the model.
    None: nobody comes to harm."""
    found = without_the_model(outcome, build) if outcome.kind and outcome.by_model and not harms(outcome) else outcome
    return found if harms(found) else None


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
    harm = "came to harm" if harms(found) else "did not get on"
    return f"Callers: {harm}: {found.signature}: {' '.join(found.message.split())}"
