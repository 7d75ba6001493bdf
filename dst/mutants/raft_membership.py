"""Known-bad Raft nodes whose members change: the real core with functions replaced during a step, or the real node with one
changed.

Each is judged by the model, by the properties over all nodes (dst/scenarios/replicated/properties.py), and by what callers saw.
"""

from typing import Any

from highwater.dst.mutants.raft import node_of, step_with, stepping
from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.raft import Impl
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft import core, elections, in_force, members, membership, replication
from highwater.impl.raft.entries import MEMBERS, NOOP, Entry
from highwater.impl.raft.machine import Machine
from highwater.impl.raft.members import Configuration, Members
from highwater.impl.raft.node import Node, Options
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.state import LEARN, PROMOTE, Change, Input, Output, Restart, State

# --- who counts


def all_of(state: State, own: int, followers: list[tuple[str, int]]) -> list[int]:
    """Count learners, and a leader that removes itself."""
    return sorted([own, *(number for _, number in followers)], reverse=True)


def servers_of(state: State, servers: frozenset[str]) -> int:
    return len(servers)


def with_learners(state: State) -> tuple[str, ...]:
    """Ask learners for their votes, too."""
    return tuple(name for name in (*state.voters, *state.learners) if name != state.me)


def is_voter(state: State) -> bool:
    return state.me in state.voters


def also_learners(state: State) -> bool:
    """Let a learner stand for election, too."""
    return own_may_stand(state) or state.me in state.learners


own_may_stand, own_found, own_begun_anew, own_after = in_force.may_stand, in_force.found, in_force.begun_anew, membership.after

# --- when a change is in force


def in_force_at_commit(state: State, given: Input) -> tuple[State, tuple[Output, ...]]:
    """Let the members be those of the last change that is known to be committed."""
    after, outputs = core.step(state, given)
    of = in_force.at(after, after.commit).members
    return after._replace(voters=of.voters, learners=of.learners), outputs


def never_undone(state: State, first: int, entries: tuple[Entry, ...]) -> State:
    """Let a change stay in force whose entry is cut."""
    new = in_force.changes_in(entries, first)
    if not new:
        return state
    return in_force.with_configurations(state, (*(one for one in state.configurations if one.index < first), *new))


def of_the_beginning(state: State, given: Restart) -> State:
    """Forget the members of a snapshot at a restart."""
    return own_found(state, given._replace(members=None))


def without_the_log(state: State, given: Restart) -> State:
    """Forget the changes in the log at a restart."""
    return own_found(state, given._replace(log=given.log._replace(
        entries=tuple(entry._replace(kind=NOOP) if entry.kind == MEMBERS else entry for entry in given.log.entries))))


def not_of_the_snapshot(state: State, index: int, of: Members | None) -> State:
    """Forget the members of an installed snapshot."""
    return own_begun_anew(state, index, None)


# --- which change may be made


def two_at_once(state: State, given: Input) -> tuple[State, tuple[Output, ...]]:
    """Take a change for committed as soon as another one is asked for."""
    return step_with((in_force, "is_open", never))(state, given) if isinstance(given, Change) else core.step(state, given)


def never(*given: object) -> bool:
    return False


def always(*given: object) -> bool:
    return True


def after_two(state: State, given: Change) -> Members:
    """Add another server together with the one that is promoted, or remove one together with the one that leaves."""
    of = own_after(state, given)
    if given.what == PROMOTE and of.learners:
        return members.with_voter(of, of.learners[0])
    if given.what not in (LEARN, PROMOTE) and len(of.voters) > 1:
        return members.without(of, next(name for name in of.voters if name != state.me or len(of.voters) == 1))
    return of


# --- the node


class MembersOfTheBeginning(Node):
    """Writes a snapshot as if the members were those of the beginning."""

    def __init__(self, world: NodeWorld, me: str, voters: Any, machine: Machine, options: Options, step: core.Step):
        super().__init__(world, me, voters, machine, options, step)
        self.founders = tuple(sorted(voters))

    def _snapshot_of(self, index: int, term: int) -> Snapshot:
        own = super()._snapshot_of(index, term)
        return own._replace(members=own.members and Members(self.founders))


class MembersOfTheLog(Node):
    """Writes a snapshot with the members that are in force at the end of the log, committed or not."""

    def _snapshot_of(self, index: int, term: int) -> Snapshot:
        of: Configuration = self.state.configurations[-1]
        return Snapshot(index, term, of.members.voters, self.machine.dump(self.value), of.members if of.index else None)


def stepping_by(step: core.Step) -> Build:
    return lambda world, shape, number: Impl(step=step)


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "own_term_uncommitted": ("a leader changes the members before it has committed an entry of its own term (the bug of 2015)",
                             stepping((membership, "may_change", always))),
    "two_at_once": ("a leader changes the members before the last change is committed", stepping_by(two_at_once)),
    "two_servers": ("a change concerns two servers", stepping((membership, "after", after_two))),
    "in_force_at_commit": ("a change is in force once it is committed", stepping_by(in_force_at_commit)),
    "never_undone": ("a change whose entry is cut stays in force", stepping((in_force, "changed", never_undone))),
    "learner_commits": ("learners count for commits", stepping((replication, "of_voters", all_of))),
    "learner_elects": ("learners are asked for their votes, and count", stepping(
        (elections, "others", with_learners), (elections, "counted", servers_of))),
    "learner_stands": ("a learner stands for election", stepping((in_force, "may_stand", also_learners))),
    "removed_stands": ("any server stands for election", stepping((in_force, "may_stand", always))),
    "removed_counts_itself": ("a candidate that is removed counts its own vote", stepping((elections, "counted", servers_of))),
    "snapshot_of_the_beginning": ("a snapshot has the members of the beginning", node_of(MembersOfTheBeginning)),
    "snapshot_of_the_end": ("a snapshot has the members at the end of the log", node_of(MembersOfTheLog)),
    "snapshot_members_not_read": ("a restart forgets the members of the snapshot",
                                  stepping((in_force, "found", of_the_beginning))),
    "log_not_read": ("a restart forgets the changes in the log", stepping((in_force, "found", without_the_log))),
    "snapshot_members_not_installed": ("an installed snapshot leaves the members as they were", stepping(
        (in_force, "begun_anew", not_of_the_snapshot))),
    "only_voters_stand": ("a server that an uncommitted change removes does not stand for election", stepping(
        (in_force, "may_stand", is_voter))),
}
MODEL = ("refinement:Server.", "refinement:message")
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    **dict.fromkeys(("own_term_uncommitted", "two_at_once", "two_servers"), (("refinement:Server.Change",), ())),
    **dict.fromkeys(("learner_stands", "removed_stands"), (("refinement:Server.Timeout",), ())),
    **dict.fromkeys(("in_force_at_commit", "never_undone", "log_not_read"), (("refinement:Server.members",), ())),
    **dict.fromkeys(("snapshot_of_the_beginning", "snapshot_of_the_end", "snapshot_members_not_read",
                     "snapshot_members_not_installed"), (("refinement:Server.members",), ())),
    "learner_commits": (("refinement:Server.AdvanceCommit",), ()),
    **dict.fromkeys(("learner_elects", "removed_counts_itself"), (MODEL, ())),
    "only_voters_stand": (("liveness:Server",), ("liveness:Server",)),
}
MUTANTS = Mutants(BUILDS, ORACLES)
