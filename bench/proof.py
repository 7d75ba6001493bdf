"""Proof: seconds for all queries, and the slowest."""

import time

from model.proofs.sequenced_metadata_boundary import prove


def main() -> None:
    start = time.perf_counter()
    found = prove()
    seconds = time.perf_counter() - start
    print(f"{len(found.rows)} queries in {seconds:.1f} s, slowest {max(row.ms for row in found.rows):.0f} ms, "
          f"{'all proved' if found.holds else 'NOT proved'}")
