"""Properties of a Raft group at every step, checked over all its servers at once, without a model.

    R1  a term has one leader
    R2  if two logs have an entry of the same index and term, they are equal up to there
    R3  a leader has every entry that was committed in an earlier term
    R4  no two servers take different entries for committed at one index
    R5  what a leader commits is durable on a quorum: read from what a crash would leave of the disks
    I17 a log is cut only where a snapshot that is durable and can be read covers what goes, and a snapshot's index never falls
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from highwater.impl.raft.entries import Entry, Log, entry_at, last_index, term_at
from highwater.impl.raft.state import LEADER, State
from highwater.traces.refine import Failure


class Committed(NamedTuple):
    entry: Entry  # servers compare without its checksum, which those do not have that got it in an older form
    term: int  # of the first server that took it for committed


class Properties:
    """The properties of one group. `durable(server)` returns the log that a crash would leave on its disk, and
    `covered(server)` the index up to which a snapshot covers it."""

    def __init__(self, servers: Iterable[str], durable: Callable[[str], Log], covered: Callable[[str], int]):
        self.servers, self.durable, self.covered = tuple(servers), durable, covered
        self.leaders: dict[int, str] = {}
        self.before: dict[tuple[int, int], tuple[Any, int]] = {}  # (index, term) -> the entry, and the term before it
        self.committed: dict[int, Committed] = {}

    def check(self, before: State, after: State, changed_from: int | None) -> None:
        """Check one step. `changed_from`: the first index at which it changed the log; None: it did not. Raises Failure."""
        if after.role == LEADER and (before.role, before.term) != (LEADER, after.term):
            self._leads(after)
        if changed_from is not None:
            self._matches(after, changed_from)
        if after.commit > before.commit:
            self._commits(after, max(before.commit, after.log.base_index))

    def cuts(self, before: State, after: State) -> None:
        """Check a step that may forget entries. Raises Failure."""
        if after.log.base_index > before.log.base_index and self.covered(after.me) < after.log.base_index:
            raise broken("I17", f"{after.me} forgets all up to entry {after.log.base_index}, and a crash leaves a snapshot up "
                                f"to {self.covered(after.me)}")
        if after.snapshot[0] < before.snapshot[0]:
            raise broken("I17", f"{after.me} has a snapshot up to {after.snapshot[0]} in the place of one up to "
                                f"{before.snapshot[0]}")

    def voters(self, leader: State) -> tuple[str, ...]:
        """Return the servers of which a leader needs a quorum: they never change."""
        return self.servers

    def _leads(self, leader: State) -> None:
        other = self.leaders.setdefault(leader.term, leader.me)
        if other != leader.me:
            raise broken("R1", f"{other} and {leader.me} both lead term {leader.term}")
        for index, (entry, term) in self.committed.items():
            if term < leader.term and index > leader.log.base_index and not has(leader.log, index, entry):
                raise broken("R3", f"{leader.me} leads term {leader.term} without entry {index}, committed in term {term}")

    def _matches(self, state: State, first: int) -> None:
        for index in range(max(first, state.log.base_index + 1), last_index(state.log) + 1):
            entry, previous = entry_at(state.log, index), term_at(state.log, index - 1)
            assert previous is not None
            other = self.before.setdefault((index, entry.term), (entry[:3], previous))
            if other != (entry[:3], previous):
                raise broken("R2", f"{state.me} has another entry {index} of term {entry.term} than a server had before, "
                                   "or another one before it")

    def _commits(self, state: State, after: int) -> None:
        for index in range(after + 1, state.commit + 1):
            entry = entry_at(state.log, index)
            other = self.committed.setdefault(index, Committed(entry, state.term))
            if other.entry[:3] != entry[:3]:
                raise broken("R4", f"{state.me} takes another entry for committed at {index} than a server did before")
        if state.role == LEADER:
            entry = entry_at(state.log, state.commit)
            voters = self.voters(state)
            those = [server for server in voters if has(self.durable(server), state.commit, entry)]
            if 2 * len(those) <= len(voters):
                raise broken("R5", f"{state.me} commits entry {state.commit}, which is durable on "
                                   f"{', '.join(those) or 'no disk'}")


def has(log: Log, index: int, entry: Entry) -> bool:
    """Tell whether a log has an entry, or has it no more because a snapshot covers it."""
    return index <= log.base_index or (index <= last_index(log) and entry_at(log, index)[:3] == entry[:3])


def broken(name: str, why: str) -> Failure:
    return Failure("safety", f"safety:{name}", f"{name}: {why}")
