"""Puts back what the fuzzer must find: each cause is a function that patches one or two safeguards away."""

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from highwater.cluster import server
from highwater.cluster.server import Server
from highwater.impl.errors import Definite, StoreError
from highwater.impl.index.letters import sweeper
from highwater.impl.index.letters.sweeper import ENDS, Sweeper
from highwater.impl.raft import levels, terms, wire
from highwater.impl.raft.machine import Machine
from highwater.impl.raft.node import Node
from highwater.impl.stores import grpc_calls, s3
from highwater.impl.stores.keys import escaped


def far_terms(patch: pytest.MonkeyPatch) -> None:
    """Take any term, from whomever it comes."""
    patch.setattr(wire, "BOUND", 1 << 64)
    patch.setattr(terms, "FAR", 1 << 64)


def garbage_stops(patch: pytest.MonkeyPatch) -> None:
    """Let a message that cannot be read end the task that reads it."""
    decoded = wire.decoded

    def unguarded(data: bytes) -> Any:
        try:
            return decoded(data)
        except wire.Malformed as error:
            raise Definite(str(error)) from None

    patch.setattr(wire, "decoded", unguarded)


def unknown_kinds_stop(patch: pytest.MonkeyPatch) -> None:
    """Let a message of an unknown kind end the node, whoever sent it."""
    patch.setattr(Node, "_is_later", lambda self, sender: True)


def unguarded_queries(patch: pytest.MonkeyPatch) -> None:
    """Do not expect an error of the machine in a query."""
    patch.setattr(Server, "_queried", lambda self, state, body: self.settings.service.query(state, body))


def unchecked_commands(patch: pytest.MonkeyPatch) -> None:
    """Propose commands that the machine cannot apply."""
    patch.setattr(Machine, "refusal", lambda self, value, command: None)


def unread_members(patch: pytest.MonkeyPatch) -> None:
    """Keep an entry with members that cannot be read."""
    patch.setattr(levels, "members", SimpleNamespace(decoded=lambda body: None))


def names_of_any_bytes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(server, "name_of", bytes.decode)


async def only_store_errors(clock: Any, metrics: Any, period_ms: int, counter: str, what: str, step: Callable[[], Any]) -> None:
    while True:
        await clock.sleep_ms(period_ms)
        with suppress(StoreError):
            await step()


def narrow_sweeper(patch: pytest.MonkeyPatch) -> None:
    """Let a sweeper expect errors of the store only."""
    async def one(self: Sweeper, entry: Any) -> None:
        try:
            await self.settle(entry)
        except ENDS:
            raise
        except StoreError as error:
            self.left(entry, error)

    patch.setattr(Sweeper, "one", one)
    patch.setattr(sweeper, "repeat", only_store_errors)


def unguarded_replies(patch: pytest.MonkeyPatch) -> None:
    """Let the form of a reply raise what it does."""
    patch.setattr(s3, "well_formed", lambda call, request: call(**request))


def uncut_errors(patch: pytest.MonkeyPatch) -> None:
    """Echo all of a request in an error."""
    patch.setattr(grpc_calls, "cut", escaped)


class Cause(NamedTuple):
    """A cause, the subject that finds it, and what it says then. It finds it within `inputs`."""

    put_back: Callable[[pytest.MonkeyPatch], None]
    subject: str
    says: str
    inputs: int = 5_000


CAUSES = {  # by the attack
    "S2 terms": Cause(far_terms, "peers", "to which no group comes"),
    "S2 garbage": Cause(garbage_stops, "peers", "the node stops"),
    "S2 garbage in a frame": Cause(garbage_stops, "frames", "the node stops"),
    "S2 unknown kinds": Cause(unknown_kinds_stop, "peers", "the node stops"),
    "S8 queries": Cause(unguarded_queries, "frames", "a request raised what nobody expected"),
    "S8 commands": Cause(unchecked_commands, "frames", "cannot apply"),
    "members that cannot be read": Cause(unread_members, "peers", "an entry with members", 5_000),
    "S6 long keys": Cause(narrow_sweeper, "bucket", "bad key 'dlq-rejected/"),
    "S7 odd replies": Cause(unguarded_replies, "replies", "Error"),
    "S14 long errors": Cause(uncut_errors, "calls", "has an error of"),
    "S9 names that are no UTF-8": Cause(names_of_any_bytes, "frames", "a request raised what nobody expected"),
}
