"""Runs the benchmarks: `python -m bench [NAME ..]`. Ratios compare measurements of one run on this machine."""

import sys

from bench import (
    bulk,
    campaigns,
    checking,
    client_test,
    database,
    exploration,
    exploration_on_disk,
    gate,
    index_adds,
    index_letters,
    index_queries,
    index_rebuild,
    metadata_index,
    proof,
    recording,
    refinement,
    replication,
    shrinking,
    simulation,
    strangers,
    tables,
)
from bench.peers import simulators

ALL = {"exploration": exploration, "exploration_on_disk": exploration_on_disk, "simulation": simulation, "database": database,
       "metadata_index": metadata_index, "index_queries": index_queries,
       "index_adds": index_adds, "index_letters": index_letters, "index_rebuild": index_rebuild,
       "simulators": simulators, "shrinking": shrinking, "proof": proof, "recording": recording, "checking": checking,
       "refinement": refinement, "replication": replication, "strangers": strangers,
       "client_test": client_test, "tables": tables,
       "campaigns": campaigns, "bulk": bulk, "gate": gate}


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in ALL]
    if unknown:
        sys.exit(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(ALL)}")
    failed = 0
    for name in sys.argv[1:] or ALL:
        print(f"--- {name}: {ALL[name].__doc__.splitlines()[0]}", flush=True)
        failed |= bool(ALL[name].main())
    sys.exit(failed)
