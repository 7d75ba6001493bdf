"""Exploration: states per second of each engine and of its peers on the same systems, and the ratios they must reach.

The instances S1 to XL of BP are those of highwater/gate/boundary_peer.py; every count is checked. Each of our runs is a process
of its own, and only the search is timed. bench/peers/run.py says what the peers' seconds contain. A missing peer is reported
and its ratios are left out. `python -m bench.exploration run SYSTEM ENGINE` is one run.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from bench.peers import run as peers
from highwater.gate import boundary_peer as bp
from highwater.model.core import Model, peak_bytes
from highwater.model.explore import plain, tabulated, wide
from highwater.model.explore.walk import walk
from highwater.model.protocols import sequenced_metadata_boundary as smb

ENGINES = {"plain": plain.explore, "tabulated": tabulated.explore, "wide": wide.explore}
OURS = {  # of our own protocol: what FizzBee ends within a minute, and one of millions of states
    "smb_small": smb.Constants(),
    "smb_large": smb.Constants(COLLECTORS=2, READERS=1, MAX_ID=4),
}
MUTANT = bp.MUTANTS["m3"]
WALKS, STEPS = 50_000, 100
# (what, engine, system, peer, its system, how many times its rate ours must be)
TARGETS = (
    ("pure Python", "tabulated", "S1", "FizzBee", "S1", 300),
    ("pure Python", "tabulated", "S2", "TLC", "S2", 10),
    ("numpy", "wide", "S2", "FizzBee", "S1", 1500),
    ("numpy", "wide", "S2", "TLC", "S2", 30),
    ("numpy", "wide", "S4", "Stateright", "S4", 1),
    ("numpy", "wide", "XL", "Stateright", "XL", 4),
    ("our protocol", "wide", "smb_large", "FizzBee", "smb_small", 1000),
)
RUNS = {"S1": 5, "S2": 5, "S4": 3, "XL": 1, "smb_small": 1, "smb_large": 3}


def system(name: str) -> Model:
    return smb.model(OURS[name]) if name in OURS else bp.model(bp.NAMED[name])


def run(name: str, engine: str) -> dict:
    """Run one search in this process. Raises AssertionError for a wrong count."""
    model = system(name)
    start = time.perf_counter()
    found = ENGINES[engine](model)
    seconds = time.perf_counter() - start
    assert found.complete, f"{name} on {engine}: {found.violated or found.stopped}"
    if name in bp.NAMED:
        counts = (found.states, found.transitions, found.depth)
        assert counts == bp.EXACT[bp.NAMED[name]], f"{name} on {engine} counts {counts}"
    return {"states": found.states, "seconds": seconds, "peak_bytes": peak_bytes()}


def apart(name: str, engine: str) -> dict:
    """Run one search in a process of its own. Exits if it fails."""
    done = subprocess.run([sys.executable, "-m", "bench.exploration", "run", name, engine], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} on {engine} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def fizzbee_on_ours(name: str) -> peers.Rate:
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.fizzbee.errors import FizzMissing
    from highwater.specs.runs import FOLDER
    try:
        fizz = Fizz.find()
    except FizzMissing as error:
        raise peers.PeerMissing(str(error)) from None
    changed = {k: v for k, v in OURS[name]._asdict().items() if v != getattr(smb.Constants(), k)}
    found = fizz.check(FOLDER / "SequencedMetadataBoundary.fizz", changed)
    return peers.Rate(found.states, None, None, found.seconds, None)


def measured_by(peer: str, name: str) -> Callable[[], tuple[int, float]]:
    ask = {"FizzBee": peers.fizzbee, "TLC": peers.tlc, "Stateright": peers.stateright}[peer]

    def measure() -> tuple[int, float]:
        rate = fizzbee_on_ours(name) if name in OURS else ask(bp.NAMED[name])
        return rate.states, rate.seconds

    return measure


def main() -> None:
    rates: dict[tuple[str, str], float] = {}
    missing: dict[str, str] = {}
    for name in RUNS:
        ways = {engine: lambda e=engine, n=name: apart(n, e) for _, engine, of, *_ in TARGETS if of == name}
        ways |= {peer: measured_by(peer, name) for *_, peer, of, _ in TARGETS if of == name}
        seen: dict[str, list[float]] = {way: [] for way in ways}
        memory = 0.0
        for turn in range(RUNS[name]):  # by turns, so that a slow minute of the machine affects all
            for way, measure in ways.items():
                if turn and way == "FizzBee":  # a minute each
                    continue
                try:
                    found = measure()
                except peers.PeerMissing as error:
                    missing[way] = str(error)
                    continue
                states, seconds = (found["states"], found["seconds"]) if isinstance(found, dict) else found
                memory = found["peak_bytes"] / states if isinstance(found, dict) else memory
                seen[way].append(states / seconds)
        for way, those in seen.items():
            if those:
                rates[way, name] = statistics.median(those)
                print(f"{name:10} {way:12} {rates[way, name]:14,.0f} states/s", flush=True)
        if name == "XL":
            print(f"{name:10} wide         {memory:14,.1f} bytes per state, whole process {told(memory <= 64, 'at most 64')}")
    for what, engine, of, peer, theirs, wanted in TARGETS:
        if (peer, theirs) in rates:
            ratio = rates[engine, of] / rates[peer, theirs]
            held = told(ratio >= wanted, f"at least {wanted}")
            print(f"{what:12} {of:10} / {peer} on {theirs:10} {ratio:10,.1f} times {held}")
    for peer, why in missing.items():
        print(f"{peer} not measured: {why}")
    alone()


def alone() -> None:
    """Print the rates that have no peer to be compared with."""
    for name, model in (("BP S2", bp.model(bp.S2)), ("smb_large", system("smb_large"))):
        start = time.perf_counter()
        found = walk(model, walks=WALKS, steps=STEPS)
        rate = found.steps / (time.perf_counter() - start)
        print(f"random walks {name}: {rate:,.0f} steps/s {told(rate >= 1e6, 'at least 1,000,000')}")
    for engine in ("tabulated", "wide"):
        start = time.perf_counter()
        found = ENGINES[engine](bp.model(MUTANT.constants))
        seconds = time.perf_counter() - start
        assert (found.violated, len(found.trace) - 1) == (MUTANT.violated, MUTANT.steps)
        print(f"mutant m3, {MUTANT.steps} steps, {engine}: {seconds:.2f} s {told(seconds <= 2, 'at most 2')}")


def told(held: bool, wanted: str) -> str:
    return f"({wanted}{'' if held else ': MISSED'})"


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"] and len(sys.argv) == 4:
        print(json.dumps(run(*sys.argv[2:])))
    else:
        main()
