"""highwater: verification of the metadata protocols that databases build on object storage.

The names below are the public API; docs/api.md describes each. `import highwater` loads nothing else: a name is looked up in
its module when it is first used. So `highwater.S3Store` alone needs boto3.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if os.environ.get("HIGHWATER_WATCH"):  # a check of `highwater verify` runs in this process, or in one that started it
    import_module("highwater.gate.watch")

if TYPE_CHECKING:
    from highwater.dst.run_spec import Run, RunSpec
    from highwater.dst.scenario import Mutants, Scenario
    from highwater.dst.simulate import Outcome, simulate
    from highwater.dst.world.faults import Weights
    from highwater.impl.errors import (
        AlreadyExists,
        Definite,
        Indefinite,
        NotFound,
        OutcomeUnknown,
        PreconditionFailed,
        StoreError,
        Unavailable,
    )
    from highwater.impl.stores.local import LocalStore
    from highwater.impl.stores.memory import MemoryStore
    from highwater.impl.stores.s3 import S3Store
    from highwater.impl.stores.system import open_store, system_world
    from highwater.impl.world import Entry, Object, ObjectStore, Page, World
    from highwater.model.core import Bounds, Exploration, Model, Process, State, Step, init, moves
    from highwater.model.explore.tabulated import explore
    from highwater.model.explore.walk import walk
    from highwater.model.guards import why_not
    from highwater.model.liveness import Lasso, eventually
    from highwater.traces.event import Event, from_json, to_json
    from highwater.traces.refine import Failure, Match, Refiner
    from highwater.traces.trace import Trace

__version__ = "0.2.0"  # the one place: pyproject.toml and `highwater --version` read it

PLACES = {  # module -> its public names; as imported above, which is for type checkers and editors
    "model.core": ("Model", "Process", "State", "Step", "Exploration", "Bounds", "init", "moves"),
    "model.explore.tabulated": ("explore",),
    "model.explore.walk": ("walk",),
    "model.liveness": ("eventually", "Lasso"),
    "model.guards": ("why_not",),
    "dst.scenario": ("Scenario", "Mutants"),
    "dst.run_spec": ("RunSpec", "Run"),
    "dst.simulate": ("simulate", "Outcome"),
    "dst.world.faults": ("Weights",),
    "traces.event": ("Event", "from_json", "to_json"),
    "traces.refine": ("Refiner", "Match", "Failure"),
    "traces.trace": ("Trace",),
    "impl.world": ("World", "ObjectStore", "Object", "Entry", "Page"),
    "impl.errors": ("StoreError", "Definite", "Indefinite", "NotFound", "AlreadyExists", "PreconditionFailed", "Unavailable",
                    "OutcomeUnknown"),
    "impl.stores.memory": ("MemoryStore",),
    "impl.stores.local": ("LocalStore",),
    "impl.stores.s3": ("S3Store",),
    "impl.stores.system": ("open_store", "system_world"),
}
MODULE = {name: f"highwater.{module}" for module, names in PLACES.items() for name in names}

__all__ = [  # noqa: RUF022  # in the order of docs/api.md
    "Model", "Process", "State", "Step", "Exploration", "Bounds", "init", "moves", "explore", "walk", "eventually", "Lasso",
    "why_not", "Scenario", "Mutants", "RunSpec", "Run", "simulate", "Outcome", "Weights", "Event", "from_json", "to_json",
    "Refiner", "Match", "Failure", "Trace",
    "World", "ObjectStore", "Object", "Entry", "Page", "StoreError", "Definite", "Indefinite", "NotFound", "AlreadyExists",
    "PreconditionFailed", "Unavailable", "OutcomeUnknown", "MemoryStore", "LocalStore", "S3Store", "open_store", "system_world",
]


def __getattr__(name: str) -> Any:
    if name not in MODULE:
        raise AttributeError(f"module 'highwater' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(MODULE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
