"""Give a run's clients ids that look like real ULIDs. They are functions of the run, and use no choices of its tape."""

from collections.abc import Iterator
from hashlib import blake2b

from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.world import Clock

TIME, RANDOM, COUNT = 48, 80, 64  # bits of a ULID: its time, a real one's random part, and the count in that part here


class ClientIds:
    """The ids of one client, made of its clock's time, its number among the run's clients, and a count.

    `given` is the count of all lives of the client, and continues after a crash. So ids are unique in a run for any clocks."""

    def __init__(self, clock: Clock, number: int, given: Iterator[int]):
        self.clock, self.number, self.given = clock, number, given

    def new_id(self) -> str:
        now_ms = max(self.clock.now_ms(), 0) % (1 << TIME)  # a slow clock may show a time before 0
        return ulid_of(now_ms << RANDOM | self.number << COUNT | next(self.given))


class ScatteredIds:
    """The ids of one node, whose last letters look random: nodes draw their election timeouts from them.

    `salt` is a choice of the run. `given` is the count of all lives of the node."""

    def __init__(self, clock: Clock, number: int, given: Iterator[int], salt: int):
        self.clock, self.number, self.given, self.salt = clock, number, given, salt

    def new_id(self) -> str:
        name = f"{self.salt}/{self.number}/{next(self.given)}"
        scattered = int.from_bytes(blake2b(name.encode(), digest_size=RANDOM // 8).digest())
        return ulid_of(max(self.clock.now_ms(), 0) % (1 << TIME) << RANDOM | scattered)


class RecordIds:
    """The ids of a writer's records, which only that writer compares."""

    def __init__(self, writer: int):
        self.writer, self.given = writer, 0

    def new_id(self) -> str:
        self.given += 1
        return f"{self.writer}-{self.given}"
