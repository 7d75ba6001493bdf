"""Findings of dst/determinism/lint.py that are allowed, with reasons. An entry without a finding is an error.

Entries of protocols are in lint_allowed_protocols.toml.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple


class Allowed(NamedTuple):
    file: str
    hazard: str  # of dst/determinism/lint.py's HAZARDS
    code: str  # a part of the finding's code
    why: str


PURE = "a function of its argument, and of no run"
MACHINERY = (
    *(Allowed("dst/sim/alarm.py", hazard, code, "ends a run that does not end; no run that ends sees it") for hazard, code in (
        ("concurrency", "import signal"), ("time", "monotonic, process_time"), ("cache", "global _ends_s"))),
    *(Allowed("impl/codecs/slatedb/flatbuffer.py", "cache", of, PURE) for of in (
        "@cache slots_of", "unions_of", "found_by", "id_of", "left_out", "layout_of", "id_table", "ulid_of")),
    Allowed("impl/codecs/index/strings.py", "cache", "lru_cache(LATELY)", PURE),
    Allowed("impl/codecs/slatedb/manifest.py", "cache", "lru_cache(LATELY)", PURE),
    Allowed("traces/machines.py", "cache", "@cache node_of", PURE),
    Allowed("impl/layout.py", "cache", "lru_cache(LATELY)", PURE),
    Allowed("impl/stores/bounds.py", "environment", "import os", "of real stores; a simulated one has no bounds"),
    Allowed("impl/stores/bounds.py", "time", "import time", "of real stores; a simulated one has no bounds"),
    Allowed("impl/stores/databases.py", "concurrency", "import asyncio", "a real store, of files; it is not simulated"),
    Allowed("impl/stores/databases.py", "environment", "import os", "a real store, of files; it is not simulated"),
    Allowed("impl/stores/memory.py", "concurrency", "import threading", "a real store, for threads; it is not simulated"),
    Allowed("impl/stores/memory.py", "time", "import time", "a real store, whose objects are as old as they are"),
    Allowed("impl/index/letters/sweeper.py", "frames", "interrupted = error", "raised again by the same call"),
    Allowed("impl/stores/verified.py", "frames", "last = error", "raised again by the same call"),
    Allowed("dst/search/reached.py", "address", "id(self.refiner)", "a key of a dict that holds the object's tables, too"),
    Allowed("dst/search/sketch.py", "address", "id(refiner)", "as in reached.py: its tables say whose they are"),
    Allowed("dst/search/reached.py", "set order", "in self.states}", "of integers, added to a set of what was reached"),
    Allowed("dst/sim/kernel.py", "cache", "sites", "labels, a function of the client's name"),
    Allowed("dst/world/faults.py", "cache", "@cache fates", PURE),
    Allowed("dst/world/node_faults.py", "cache", "@cache disk_fates", PURE),
    Allowed("dst/world/node_faults.py", "cache", "@cache message_fates", PURE),
    Allowed("dst/world/sdk.py", "frames", "last = error", "raised again by the same call"),
    Allowed("dst/scenarios/__init__.py", "cache", "@cache named", "of modules"),
    Allowed("dst/scenarios/__init__.py", "cache", "@cache mutants_of", "of modules"),
    Allowed("dst/search/reached.py", "cache", "@cache bits", PURE),
    Allowed("dst/world/store.py", "cache", "@cache profile_of", PURE),
    Allowed("dst/world/store.py", "cache", "@cache refusal", PURE),
    Allowed("dst/world/store.py", "cache", "etag", PURE),
    Allowed("dst/world/store.py", "cache", "behind", PURE),
    Allowed("dst/world/store.py", "cache", "lru_cache(50000)(check_key)", PURE),
    Allowed("dst/cost.py", "cache", "@cache table", PURE),
    Allowed("dst/script.py", "cache", "@cache failed", "of scripts, in which nothing is drawn: they run once in a process"),
    Allowed("dst/scenario.py", "cache", "@cache rules_of", PURE),
    Allowed("dst/scenario.py", "cache", "lru_cache(CACHED)", "of a codec, whose functions are of their argument alone"),
    Allowed("traces/calls.py", "cache", "content", PURE),
    Allowed("traces/trace.py", "cache", "update_of", PURE),
    Allowed("traces/store.py", "cache", "span", PURE),
    Allowed("traces/recorded/access_log.py", "time", "from datetime import datetime", "reads the times in a log; in no run"),
    Allowed("traces/event.py", "cache", "MARKS", PURE),
    Allowed("traces/protocols/indexed/rows.py", "cache", "lru_cache(KEPT) message", "of bytes; nobody changes it"),
    Allowed("traces/protocols/indexed/rows.py", "cache", "lru_cache(KEPT) unit_and_rest", PURE),
    Allowed("traces/event.py", "cache", "range_of", PURE),
    Allowed("traces/explain/explain.py", "frames", "failing, error", "told once, after the run"),
    Allowed("traces/histories/history.py", "cache", "updates_in", PURE),
    Allowed("traces/histories/versions.py", "cache", "rows_in", PURE),
    Allowed("traces/recorded/s3log.py", "cache", "NOTHING", "is never written to"),
    Allowed("traces/recorded/systems/template.py", "cache", "self.spot", PURE),
    Allowed("traces/follow.py", "cache", "TOLD", "is never written to: what stands for an event of what a caller is told"),
    Allowed("dst/verdict.py", "cache", "options_of", PURE),
    *(Allowed("traces/recorded/systems/slatedb_layout.py", "cache", of, PURE) for of in ("key_of", "place_of", "decoded")),
    Allowed("traces/protocols/__init__.py", "cache", "@cache recorded", "of modules"),
    Allowed("traces/damage/protocols/__init__.py", "cache", "@cache knowledge", "of modules"),
    Allowed("traces/refine.py", "cache", "REFINERS", "what a refiner keeps is a function of event and state"),
    Allowed("traces/explain/timeline.py", "address", "id(value)", "a key of a dict, looked up and never put in an order"),
    *(Allowed("model/guards.py", "cache", f"@cache {name}", "of the source of a function") for name in (
        "parsed", "definition", "segment", "returned", "compiled", "bound", "operands_of", "names_of", "arguments_of")),
    Allowed("model/proofs/engine/logic.py", "cache", "WORDS", "numbers of words, of a proof alone: Z3 never sees their order"),
    Allowed("model/explore/reads.py", "address", "id(code)", "a key of a set of objects that are alive meanwhile"),
    Allowed("model/explore/reads.py", "cache", "RECORDED", "of types"),
    Allowed("model/explore/reads.py", "cache", "@cache recorder", "of types"),
    Allowed("model/explore/reads.py", "set order", "_written", "small integers: places of fields, each of them looked up"),
    Allowed("model/explore/reductions.py", "set order", "for orbit in orbits",
            "asks whether there is such a state; names one of them"),
    Allowed("model/explore/reductions.py", "set order", "reached ^ resting_",
            "asks whether there is such a state; names one of them"),
    Allowed("model/refine.py", "address", "id(", "a part of a key of a set; the objects are kept, one for each value"),
    Allowed("model/explore/wide.py", "address", "id(", "a key of a dict of arrays that are alive meanwhile"),
    Allowed("model/explore/disk/work.py", "cache", "KEPT", "tables of a folder's levels, kept only while its chain is theirs"),
    Allowed("model/explore/wide.py", "concurrency", "ThreadPoolExecutor",
            "numpy on two cores; every result has its place; in no run"),
)
PROTOCOLS = tuple(Allowed(**entry) for entry in tomllib.loads(
    (Path(__file__).parent / "lint_allowed_protocols.toml").read_text())["allowed"])
ALLOWED = (*MACHINERY, *PROTOCOLS)
