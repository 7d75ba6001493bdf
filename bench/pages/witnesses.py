"""Renders the table of docs/protocols/raft.md: which runs reach what each property of Raft forbids to go wrong.

A property that is checked where nothing could break it says nothing. So each has witnesses: states, or moments, in which an
implementation without a safeguard would break it.
"""

from collections import Counter

from highwater.dst.run_spec import Run
from highwater.dst.search.reached import MODEL_EVERY, Watch, bits, names_of
from highwater.dst.simulate import simulate

STEM = "raft"
SEEDS = range(0, 600, MODEL_EVERY)  # those in which the model's witnesses are looked for
PROPERTIES = {  # witness -> the properties that it stands for
    "model: TwoTermsAreLed": "R1", "model: LeaderIsStale": "R1", "model: LogsConflict": "R2", "seen: entries overwritten": "R2",
    "model: LaterLeaderHasCommitted": "R3", "model: EarlierTermIsCommitted": "R3",
    "model: StaleLeaderLacksCommitted": "R3", "model: FollowerLearns": "R4", "seen: snapshot installed": "R4",
    "seen: restart with a snapshot": "R4", "seen: snapshot of an earlier term": "R4", "model: CommittedBeforeOwnSync": "R5",
    "seen: restart after a commit": "R5", "seen: unsynced bytes lost": "R5",
}


def witnesses() -> str:
    """Run the seeds, and render a row for each witness. Raises ValueError if one of them is none of the scenario's."""
    if unknown := PROPERTIES.keys() - bits(STEM).keys():
        raise ValueError(f"no witness of {STEM}: {', '.join(sorted(unknown))}")
    watch, found = Watch(STEM), Counter[str]()
    for seed in SEEDS:
        found.update(names_of(watch.reached(simulate(watch.expect(Run(seed, STEM)), trace_of=watch.trace_of)), STEM))
    lines = [f"| property | witness | of {len(SEEDS)} runs |", "|---|---|--:|"]
    lines += [f"| {of} | {name.partition(': ')[2]} | {found[name]} |" for name, of in PROPERTIES.items()]
    return "\n".join(lines) + "\n"
