"""Give the clients of a run ids as real ones look: ULIDs. They are functions of the run, and take nothing from its tape."""

from collections.abc import Iterator

from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.world import Clock

TIME, RANDOM, COUNT = 48, 80, 64  # bits of a ULID: of its time, of what is random in a real one, and of that the count here


class ClientIds:
    """The ids of one client: the time by its clock, its number among the run's clients, and how many ids it had before.

    `given` counts the ids of all lives of the client: one that begins again after a crash goes on with it. So no id is given
    twice in a run, wherever the clocks stand."""

    def __init__(self, clock: Clock, number: int, given: Iterator[int]):
        self.clock, self.number, self.given = clock, number, given

    def new_id(self) -> str:
        now_ms = max(self.clock.now_ms(), 0) % (1 << TIME)  # a clock that is behind begins before 0
        return ulid_of(now_ms << RANDOM | self.number << COUNT | next(self.given))
