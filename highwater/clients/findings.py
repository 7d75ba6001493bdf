"""The evidence of a trial, and the findings of the judges."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from highwater.clients.trial import Place, Seen
from highwater.gate.exits import LIVENESS, REFINEMENT, SAFETY
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.systems.mapped import Map

CODES = {  # the kinds of findings, the worst first, with the exit codes of their classes
    "hung": LIVENESS,
    "committed twice": SAFETY, "overwritten": SAFETY, "put blindly": SAFETY, "success without a commit": SAFETY,
    "told wrongly": SAFETY, "dangling": SAFETY, "property broken": SAFETY, "check failed": SAFETY,
    "error though committed": REFINEMENT, "not in the model": REFINEMENT, "store contradicts itself": REFINEMENT}


class Finding(NamedTuple):
    kind: str  # one of CODES
    why: str
    requests: tuple[int, ...] = ()  # their numbers in the log


class Evidence(NamedTuple):
    """`clean` are the requests of the run without faults."""

    seen: Seen
    clean: Sequence[Request]
    place: Place
    hints: tuple[str, ...] = ()  # patterns of keys that a client may overwrite: nothing depends on them
    names: re.Pattern[str] | None = None  # finds, in the body of a commit, the objects that it names
    maps: tuple[Map, ...] = ()  # which keys belong to which model

    @property
    def requests(self) -> list[Request]:
        return self.seen.requests

    def is_hint(self, one: Request) -> bool:
        return any(fnmatchcase(one.key.removeprefix(self.place.prefix), pattern) for pattern in self.hints)
