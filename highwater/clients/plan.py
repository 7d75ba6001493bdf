"""A campaign's settings, kept as test.json in its folder, so that its runs can be repeated."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from highwater.clients.faults import HOLD, Fault, faults_of
from highwater.clients.trial import Asked, Words
from highwater.outside import document_of, json_of
from highwater.traces.recorded.systems.mapped import Map

FILE = "test.json"


class Unfit(ValueError):
    """A folder holds something else, or nothing. The text says what to do."""


class Plan(NamedTuple):
    """`clients`: the first is the one that is tried. `endpoint`, `bucket`: "" for a server that is started for it."""

    clients: dict[str, Words]
    check: Words = ()
    setup: Words = ()
    reopen: Words = ()
    limit_s: float = 60
    endpoint: str = ""
    bucket: str = ""
    client_timeout_s: float | None = None
    hang: bool = False
    seed: int = 0
    hints: Words = ()
    names: str = ""
    only: Words = ()  # of the faults, if not all
    maps: tuple[Map, ...] = ()

    def asked(self, environment: dict[str, str]) -> Asked:
        return Asked(self.clients, self.check, self.setup, self.reopen, self.limit_s, environment)

    @property
    def faults(self) -> dict[str, Fault]:
        found = faults_of(self.client_timeout_s, self.hang)
        return {name: found[name] for name in self.only if name != HOLD} if self.only else found

    @property
    def pattern(self) -> re.Pattern[str] | None:
        return re.compile(self.names) if self.names else None


def begin(folder: Path, plan: Plan) -> None:
    """Make the folder of a campaign, or go on in it. Raises Unfit if it holds anything else."""
    if (folder / FILE).exists():
        if kept(folder) != plan:
            raise Unfit(f"{folder} holds another test, that of {folder / FILE}: give another folder with --out, or delete it")
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Unfit(f"{folder} exists and holds something else: give another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{FILE}.new").write_text(json.dumps(plan._asdict(), indent=1) + "\n")
    (folder / f"{FILE}.new").rename(folder / FILE)


def kept(folder: Path) -> Plan:
    """Return the plan of a campaign's folder. Raises Unfit if there is none."""
    try:
        fields: dict[str, Any] = json_of(document_of(folder / FILE))
        for name in ("check", "setup", "reopen", "hints", "only"):
            fields[name] = tuple(fields[name])
        fields["maps"] = tuple(Map(*one) for one in fields["maps"])
        return Plan(**{**fields, "clients": {name: tuple(words) for name, words in fields["clients"].items()}})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unfit(f"{folder} is no folder of `highwater client test`: {error}") from None
