"""Proof: seconds of all queries, with a limit of 60 s; and of the bounded engine on an instance, to the depth of its graph."""

import time

from highwater.model.proofs import sequenced_metadata_boundary as proofs
from highwater.model.proofs.engine.instances import bounded
from highwater.model.protocols.sequenced_metadata_boundary import Constants

LIMIT_S = 60
DEPTH = 22  # of the graph of Constants(): every state is reached within so many steps


def main() -> None:
    for note, system in proofs.SYSTEMS.items():
        start = time.perf_counter()
        found = proofs.prove(**system)
        seconds = time.perf_counter() - start
        print(f"{len(found.rows):,} queries{note} in {seconds:.1f} s, {LIMIT_S / seconds:.0f} times within {LIMIT_S} s; "
              f"slowest {max(row.ms for row in found.rows):.0f} ms; {'all proved' if found.holds else 'NOT proved'}")
    start = time.perf_counter()
    result = bounded(proofs, Constants(), DEPTH)
    seconds = time.perf_counter() - start
    print(f"bounded, 2 writers x 2, {DEPTH} steps: {'nothing breaks' if result.holds else 'BROKEN'}, in {seconds:.1f} s, "
          f"{LIMIT_S / seconds:.0f} times within {LIMIT_S} s")
