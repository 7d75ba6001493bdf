"""Measures the share of harmed runs, with and without the boundary, by `min_age`: the plot of docs/operating/boundary-files.md.

Stalls stay as they are while min_age grows. How long they are differs from run to run by a factor of up to 256, as machines
differ; within a run they are log-uniform from 0.1 to 5 times its own middle. Harm is what callers can tell by themselves
(traces/histories/history.py): an id committed twice, a committed update lost. No model judges here."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import Shape, production
from highwater.dst.simulate import simulate
from highwater.dst.world.faults import Weights

SEEDS = 1_000
MIN_AGES_MS = (50, 100, 200, 400, 800, 1600, 3200, 6400, 12800)
STALLS_MS = tuple(50 << i for i in range(9))  # the middle of a run's stalls: 50 ms to 12.8 s
STALLING = Weights(stall=200, refused=0, request_lost=0, reply_lost=0, late=0, crash=0)
BUILDS = {"min_age alone": ZOO["no_check"][1], "with the boundary": production}
PLOT = Path(__file__).resolve().parent.parent / "docs/images/min_age.svg"


def harmed(case: tuple[str, int, int]) -> int:
    """Count the seeds whose runs harmed a caller."""
    name, min_age_ms, seeds = case
    count = 0
    for seed in range(seeds):
        shape = Shape(writers=3, commits=4, collectors=2, rounds=4, min_age_ms=min_age_ms, think_ms=1,
                      stall_ms=STALLS_MS[seed % len(STALLS_MS)])
        count += simulate(Run(seed, shape=shape, weights=STALLING), BUILDS[name], by_model=False).kind == "safety"
    return count


def measure(seeds: int = SEEDS) -> dict[str, list[int]]:
    cases = [(name, min_age_ms, seeds) for name in BUILDS for min_age_ms in MIN_AGES_MS]
    with ProcessPoolExecutor(2) as pool:
        counts = list(pool.map(harmed, cases))
    width = len(MIN_AGES_MS)
    return {name: counts[i * width:(i + 1) * width] for i, name in enumerate(BUILDS)}


def table(counts: dict[str, list[int]], seeds: int = SEEDS) -> str:
    head = f"| min_age, ms | {' | '.join(map(str, MIN_AGES_MS))} |\n|{'---|' * (len(MIN_AGES_MS) + 1)}\n"
    rows = [f"| {name} | {' | '.join(f'{100 * n / seeds:.1f} %' for n in of)} |" for name, of in counts.items()]
    return (f"Share of {seeds:,} simulated runs in which a caller was harmed (an id committed twice, or a committed update "
            "lost):\n\n" + head + "\n".join(rows) + "\n\nMeasured by `python -m bench.min_age`.\n")


def plot(counts: dict[str, list[int]], seeds: int = SEEDS) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "highwater", "font.size": 10})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    for (name, of), colour in zip(counts.items(), ("#c0392b", "#1f6f8b")):
        axes.plot(MIN_AGES_MS, [100 * n / seeds for n in of], marker="o", color=colour, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(MIN_AGES_MS, [f"{m / 1000:g} s" for m in MIN_AGES_MS])
    axes.set_xlabel("min_age (stalls stay the same)")
    axes.set_ylabel("runs that harmed a caller, %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(bottom=-0.2)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    counts = measure()
    plot(counts)
    print(table(counts))
