"""The group of a run whose trace also says what each step did for reads: traces/protocols/consistent_read.py judges that."""

from collections.abc import Iterator

from highwater.dst.actors import Actors
from highwater.dst.scenarios.replicated.group import Group
from highwater.impl.raft.messages import HeartbeatReply
from highwater.impl.raft.state import LEADER, Input, Output, Read, Send, State
from highwater.traces.protocols.consistent_read import ANSWER, BEGIN, INDEX, ROUND


class ReadingGroup(Group):
    """The nodes of one run, and the caller whose read begins now."""

    def __init__(self, actors: Actors):
        super().__init__(actors)
        self.asking = ""  # the caller; a node takes its read before it awaits anything
        self.answered: dict[tuple[str, int], int] = {}  # server, term -> the latest round that it answered

    def reads_of(self, before: State, given: Input, after: State, outputs: tuple[Output, ...]) -> tuple:
        return tuple(self._notes(before, given, after, outputs))

    def _notes(self, before: State, given: Input, after: State, outputs: tuple[Output, ...]) -> Iterator[tuple]:
        if isinstance(given, Read):
            yield BEGIN, given.read, self.asking
            self.asking = ""
        if after.reads and after.reads != before.reads:
            known = {one.read for one in before.reads if one.index is not None}
            yield from ((INDEX, one.read, one.index) for one in after.reads if one.index is not None and one.read not in known)
        if after.role == LEADER and after.round > (before.round if before.term == after.term else 0):
            yield ROUND, after.round
        for output in outputs:
            if isinstance(output, Send) and isinstance(output.message, HeartbeatReply):
                message, of = output.message, (after.me, output.message.term)
                if message.round > self.answered.get(of, 0):
                    self.answered[of] = message.round
                    yield ANSWER, message.term, message.round
