"""Check that the simulation kills every mutant, and by the oracle that is expected."""

from collections.abc import Iterator
from statistics import median

from highwater import project
from highwater.dst.scenario import counted
from highwater.gate.exits import HARNESS
from highwater.gate.rows import Check, Found
from highwater.gate.sizes import Size


def checks(protocol: str, size: Size) -> Iterator[Check]:
    from highwater.dst.scenarios import mutants_of

    if not project.has("mutants", protocol):
        return
    for name, (what, _) in mutants_of(protocol).builds.items():
        yield Check(protocol, "mutant", f"{name}: {what}", killed, (protocol, name, size.kills, size.budget), weight=2)


def killed(protocol: str, name: str, kills: int, budget: int) -> Found:
    from highwater.dst.search.hunt import hunt
    from highwater.dst.zoo import build_of, expected

    waits, signatures = hunt(build_of(name, protocol), kills, budget, scenario=protocol)
    if len(waits) < kills:
        return Found("", HARNESS, f"killed {len(waits)} times in {budget:,} seeds, not {kills} times")
    strange = sorted(signature for signature in signatures if not signature.startswith(expected(name, True, protocol)))
    if strange:
        return Found("", HARNESS, f"killed by {strange[0]}, expected {' or '.join(expected(name, True, protocol))}")
    after = counted(round(median(waits)), "seed") + (f" (median of {kills})" if kills > 1 else "")
    return Found(f"killed after {after}: {', '.join(sorted(signatures)[:2])}")
