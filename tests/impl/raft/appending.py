"""A machine for tests: a list of the entries, each with its index."""

import json

from highwater.impl.raft.machine import Command, Machine


def apply(state: tuple[tuple[int, str], ...], command: Command) -> tuple[tuple[tuple[int, str], ...], int]:
    """Append an entry; the result is how many there were before."""
    return (*state, (command.index, command.body.decode())), len(state)


def dump(state: tuple[tuple[int, str], ...]) -> bytes:
    return json.dumps(state).encode()


def load(data: bytes) -> tuple[tuple[int, str], ...]:
    return tuple((index, body) for index, body in json.loads(data))


APPENDING = Machine((), apply, dump, load)
