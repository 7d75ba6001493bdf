"""Keeps the connections of a node in step with the members of its group."""

import logging

from highwater.impl.raft import core, in_force
from highwater.impl.raft.members import Members
from highwater.impl.raft.state import Input, Output, State, Tick
from highwater.impl.stores.stream_net import Address, StreamNet

log = logging.getLogger("highwater")


def following_members(step: core.Step, net: StreamNet) -> core.Step:
    """Return a step that lets the network dial those who joined, and no more those who left.

    Who leaves is dialled until that is committed and told: the next tick comes after that.
    """
    leaving: set[str] = set()

    def followed(state: State, given: Input) -> tuple[State, tuple[Output, ...]]:
        after, outputs = step(state, given)
        before, now = state.configurations[-1], after.configurations[-1]
        if now is not before and now != before:
            leaving.update(names(before.members) - names(now.members))
            leaving.difference_update(names(now.members))
            for name, text in now.members.addresses:
                if address := Address.of(text):
                    net.reach(name, address)
            log.info("node %r: the voters are %s; the learners %s", after.me, ", ".join(now.members.voters) or "unknown",
                     ", ".join(now.members.learners) or "none")
        if leaving and isinstance(given, Tick) and not in_force.is_open(after):
            for name in leaving:
                net.forget(name)
            leaving.clear()
        return after, outputs
    return followed


def names(of: Members) -> set[str]:
    return {*of.voters, *of.learners}
