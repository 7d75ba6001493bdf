"""Safety: no file id is acknowledged twice, the latest file is never deleted, and an acknowledged update stays in the latest.

BP(W, K, G, M), the boundary protocol reduced to an exact transition system, so that explorers of states can be measured on
the same work: W writers of K updates each, G collectors, file ids 1..M. It is an ordinary model. The same system stands in
bench/peers/ for FizzBee, TLC, Spin and Stateright, and each must count what EXACT says.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model, Process


class Constants(NamedTuple):
    W: int = 2  # writers
    K: int = 2  # updates that each of them makes
    G: int = 1  # collectors
    M: int = 4  # the largest id
    # Safeguards: switch one off and a property must fail
    CHECK: bool = True  # a file at or behind the boundary is not acknowledged
    BOUNDARY_FIRST: bool = True  # the boundary is durable before a file behind it is deleted
    CONDITIONAL_PUT: bool = True  # the boundary is written only where it still is what was read
    KEEP_LATEST: bool = True  # the last file of a listing is neither deleted nor put behind the boundary


Update = tuple[int, int]  # (writer, zero-based index of its update)
NOTHING: frozenset = frozenset()


class Shared(NamedTuple):
    files: tuple[frozenset[Update] | None, ...]  # files[i - 1] is what the file of id i holds; always M of them
    boundary: int = 0  # durable
    # ghosts
    acked: frozenset[int] = NOTHING  # ids that a writer has reported as successful
    bad: int = 0  # 1: an id was acknowledged twice; 2: the latest file was deleted


class Writer(NamedTuple):
    update: Update  # to be made next; those before it are acknowledged
    pc: str = "Idle"  # Idle, Listed, Ready, Created, Checked
    n: int = 0  # the latest id that it knows; a field that a pc does not use is 0 or empty, here and below
    base: frozenset[Update] = NOTHING  # the content of n
    b: int = 0  # the boundary that it read


class Collector(NamedTuple):
    pc: str = "Idle"  # Idle, Listed, Desired, Versioned, Deleting
    ids: frozenset[int] = NOTHING  # listed; then to be deleted
    d: int = 0  # the boundary that it wants
    b: int = 0  # the boundary that it read


IDLE = Collector()


def present(s: Shared) -> list[int]:
    return [i for i, file in enumerate(s.files, 1) if file is not None]


def top(s: Shared) -> int:
    """Return the largest id present, 0 if there is none."""
    return max(present(s), default=0)


def latest(s: Shared) -> frozenset[Update]:
    n = top(s)
    return s.files[n - 1] if n else NOTHING  # pyright: ignore[reportReturnType]  # `top` is present


def with_file(s: Shared, i: int, file: frozenset[Update] | None) -> Shared:
    return s._replace(files=(*s.files[:i - 1], file, *s.files[i:]))


# --- a writer: LIST, GET the latest, PUT the next if absent, GET the boundary, report ------------------------------------

def writer_list(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Idle" and w.update[1] < c.K:
        yield (), s, Writer(w.update, "Listed", top(s))


def read(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Listed":
        file = s.files[w.n - 1] if w.n else None
        yield (), s, Writer(w.update) if file is None else Writer(w.update, "Ready", w.n, file)


def create(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Ready" and w.n < c.M and s.files[w.n] is None:
        yield (), with_file(s, w.n + 1, w.base | {w.update}), Writer(w.update, "Created", w.n)


def conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Ready" and w.n < c.M and s.files[w.n] is not None:
        yield (), s, Writer(w.update)


def writer_read_boundary(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Created":
        yield (), s, Writer(w.update, "Checked", w.n, b=s.boundary)


def accept(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    i = w.n + 1
    if w.pc == "Checked" and (i > w.b or not c.CHECK):
        after = s._replace(bad=1) if i in s.acked else s
        yield (), after._replace(acked=s.acked | {i}), Writer((me, w.update[1] + 1))


def reject(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Checked" and w.n + 1 <= w.b and c.CHECK:
        yield (), s, Writer(w.update)


# --- a collector: LIST, GET the boundary, PUT it forward if unchanged, DELETE one by one ----------------------------------

def collector_list(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Idle" and len(present(s)) >= 2:
        yield (), s, Collector("Listed", frozenset(present(s)))


def compute(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Listed":
        following = "Desired" if c.BOUNDARY_FIRST else "Deleting"
        for d in sorted(g.ids):
            if d < max(g.ids) or not c.KEEP_LATEST:
                yield (d,), s, Collector(following, frozenset(i for i in g.ids if i <= d), d)


def durable(c: Constants, g: Collector) -> Collector:
    """Return the collector after the boundary is durable: it deletes, unless it has already done so."""
    return Collector("Deleting", g.ids) if c.BOUNDARY_FIRST else IDLE


def collector_read_boundary(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Desired":
        yield (), s, durable(c, g) if g.d <= s.boundary else Collector("Versioned", g.ids, g.d, s.boundary)


def put_boundary(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Versioned" and (s.boundary == g.b or not c.CONDITIONAL_PUT):
        yield (), s._replace(boundary=g.d), durable(c, g)


def put_lost(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Versioned" and s.boundary != g.b and c.CONDITIONAL_PUT:
        yield (), s, Collector("Desired", g.ids, g.d)


def delete(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Deleting":
        done = IDLE if c.BOUNDARY_FIRST else Collector("Desired", d=g.d)
        for i in sorted(g.ids):
            after = s._replace(bad=2) if i == top(s) else s
            yield (i,), with_file(after, i, None), g._replace(ids=g.ids - {i}) if len(g.ids) > 1 else done


# --- properties -----------------------------------------------------------------------------------------------------------

def no_id_acked_twice(c: Constants, s: Shared) -> bool:
    return s.bad != 1


def latest_never_deleted(c: Constants, s: Shared) -> bool:
    return s.bad != 2


def no_acked_update_lost(c: Constants, s: Shared, w: Writer) -> bool:
    me, acknowledged = w.update
    return {(me, k) for k in range(acknowledged)} <= latest(s)


def every_id_is_acked(c: Constants, s: Shared) -> bool:
    return len(s.acked) == min(c.M - 1, c.W * c.K)


def acked_file_is_deleted(c: Constants, s: Shared) -> bool:
    return any(s.files[i - 1] is None for i in s.acked)


def other_update_is_built_on_acked(c: Constants, s: Shared, w: Writer) -> bool:
    me, acknowledged = w.update
    return acknowledged > 0 and any(other != me for other, _ in latest(s))


def rejected_update_is_in_latest(c: Constants, s: Shared, w: Writer) -> bool:
    """Return whether the latest file holds a write that its writer will reject, because the boundary has passed it."""
    return w.pc == "Created" and w.n + 1 <= s.boundary and w.update in latest(s)


# --- reductions -----------------------------------------------------------------------------------------------------------

def renamed_writers(part: Shared | Writer | Collector, names: tuple[int, ...]) -> Shared | Writer | Collector:
    """Rename the writers in updates. Acknowledged ids name no writer."""
    def anew(updates: frozenset[Update] | None) -> frozenset[Update] | None:
        return updates and frozenset((names[w], k) for w, k in updates)

    if isinstance(part, Shared):
        return part._replace(files=tuple(map(anew, part.files)))
    if isinstance(part, Writer):
        return part._replace(update=(names[part.update[0]], part.update[1]), base=anew(part.base))
    return part


WRITER = {
    "List": writer_list, "Read": read, "Create": create, "Conflict": conflict, "ReadBoundary": writer_read_boundary,
    "Accept": accept, "Reject": reject,
}
COLLECTOR = {
    "List": collector_list, "Compute": compute, "ReadBoundary": collector_read_boundary, "PutBoundary": put_boundary,
    "PutLost": put_lost, "Delete": delete,
}
ALWAYS = {
    "NoIdAckedTwice": (None, no_id_acked_twice),
    "LatestNeverDeleted": (None, latest_never_deleted),
    "NoAckedUpdateLost": ("Writer", no_acked_update_lost),
}
SOMETIMES = {
    "EveryIdIsAcked": (None, every_id_is_acked),
    "AckedFileIsDeleted": (None, acked_file_is_deleted),
    "OtherUpdateIsBuiltOnAcked": ("Writer", other_update_is_built_on_acked),
    "RejectedUpdateIsInLatest": ("Writer", rejected_update_is_in_latest),
}
UNSEEN = {"Writer": frozenset({"Accept", "Reject"}), "Collector": frozenset({"Compute"})}  # merged: taken in the same step
RENAMED = {"Writer": renamed_writers, "Collector": None}

S1, S2, S3 = Constants(2, 2, 1, 5), Constants(2, 2, 2, 4), Constants(3, 2, 1, 4)
S4, S5, XL = Constants(2, 2, 2, 5), Constants(3, 2, 1, 5), Constants(3, 2, 2, 4)
NAMED = {"S1": S1, "S2": S2, "S3": S3, "S4": S4, "S5": S5, "XL": XL}


class Counts(NamedTuple):
    distinct: int
    transitions: int  # the initial state is not one
    depth: int  # breadth-first levels after the initial state


EXACT = {
    Constants(2, 1, 1, 3): Counts(765, 1_889, 21),
    Constants(2, 1, 1, 4): Counts(1_100, 2_721, 29),
    Constants(2, 2, 1, 3): Counts(2_967, 7_947, 29),
    Constants(2, 2, 1, 4): Counts(11_964, 34_149, 36),
    S1: Counts(27_199, 80_215, 45),
    Constants(2, 2, 1, 6): Counts(41_776, 121_770, 55),
    Constants(2, 3, 1, 5): Counts(82_695, 258_387, 46),
    Constants(2, 2, 2, 3): Counts(52_269, 196_382, 33),
    S2: Counts(471_789, 1_947_144, 42),
    S3: Counts(797_304, 2_963_004, 47),
    S4: Counts(2_078_052, 9_221_880, 52),
    S5: Counts(5_444_805, 21_109_266, 61),
    XL: Counts(40_172_370, 201_496_983, 54),
    Constants(3, 1, 1, 4): Counts(88_508, 308_476, 39),
}
# Distinct states with symmetry reduction of writers and collectors; with merging of unseen actions; and with both.
SYMMETRIC = {S1: 13_627, S2: 121_592, S3: 134_002, S4: 528_944, S5: 912_380, XL: 3_448_246}
MERGED = {S1: 8_399, S2: 112_106, S3: 227_379, S4: 441_546, S5: 1_294_818}
BOTH = {S1: 4_224, S2: 29_402, S3: 38_566, S4: 113_632, S5: 218_506, XL: 671_612}


class Mutant(NamedTuple):
    constants: Constants
    violated: str
    steps: int  # of a shortest counterexample; the same with symmetry
    merged: int  # fused steps, when unseen actions are merged


MUTANTS = {
    "m1": Mutant(S2._replace(CHECK=False), "NoIdAckedTwice", 18, 15),
    "m2": Mutant(S2._replace(BOUNDARY_FIRST=False), "NoIdAckedTwice", 16, 13),
    "m3": Mutant(S2._replace(CONDITIONAL_PUT=False), "NoIdAckedTwice", 22, 18),
    "m4": Mutant(S2._replace(KEEP_LATEST=False), "LatestNeverDeleted", 8, 7),
}


def model(c: Constants) -> Model:
    writers = tuple(Process(f"Writer#{i}", "Writer", i, Writer((i, 0)), WRITER) for i in range(c.W))
    collectors = tuple(Process(f"Collector#{i}", "Collector", i, IDLE, COLLECTOR) for i in range(c.G))
    shared = Shared((NOTHING,) + (None,) * (c.M - 1))
    return Model("boundary_peer", c, shared, writers + collectors, ALWAYS, SOMETIMES, unseen=UNSEEN, renamed=RENAMED)
