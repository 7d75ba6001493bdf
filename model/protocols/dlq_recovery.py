"""Safety: a block whose writer was told that it is kept is never lost, whoever crashes. It is in the index, or was once, or an
object that names it is in the store. No block comes into the index a second time.

The dead letter queue of a metadata index (Pyroscope's). A writer that cannot add a block to the index puts the block's metadata
into the store, as a letter. Sweepers list the letters, add each one's block to the index, and then delete the letter. A letter
that is damaged is moved to the rejected ones, and one that the index refuses because it is too old is kept aside for the
operator. Two sweepers may run at once, because a node that does not lead any more may not know it.

The index is one step of its state machine here (metadata_fsm has the rest): a block that is visible, or known as removed, is
added without an effect, and one that is too old is refused. A request in flight, to the store or to the index, is applied at
any later time, or never. specs/DlqRecovery.fizz has the same names, states and labelled edges.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model, Property
from highwater.model.parts import MANY, all_but, below, clients, in_pool, one_more, pooled, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    BLOCKS: int = 1  # that the writer adds, one after another
    BAD: int = 0  # of the blocks, the first: their letters are damaged
    SWEEPERS: int = 2
    AGES: int | None = 0  # blocks that grow too old for the horizon
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight that nobody waits for
    MAX_CRASHES: int | None = 0  # sweepers that crash
    # For liveness alone: switch it off and letters wait for ever
    SKIP_BAD: bool = True  # a damaged letter is no obstacle; False: a sweep ends there
    # Safeguards: switch one off and a property must fail
    DELETE_AFTER_ADD: bool = True  # a letter is deleted once its block is added; False: before
    DELETE_AFTER_COPY: bool = True  # a letter that is moved is deleted once its copy is there; False: before
    WAIT_COMMITTED: bool = True  # an addition without an answer is made again; False: it counts as done
    KEEP_REJECTED: bool = True  # a damaged letter is moved; False: it is deleted
    KEEP_ASIDE: bool = True  # a letter that is too old is moved; False: it is deleted
    KNOWN: bool = True  # the index knows the blocks that it has removed
    HORIZON: bool = True  # and refuses those that it may have forgotten


LIMITS = {**dict.fromkeys(("BAD", "SWEEPERS", "AGES", "MAX_PENDING", "MAX_CRASHES"), MANY), "BLOCKS": MANY[1:]}

Block = int
Blocks = frozenset[Block]
NOBODY: Blocks = frozenset()


class Shared(NamedTuple):
    letters: Blocks  # in the queue
    rejected: Blocks  # damaged letters
    aside: Blocks  # letters that were too old
    visible: Blocks  # in the index
    removed: Blocks  # known to the index as removed
    old: Blocks  # too old for the horizon
    pool: tuple[tuple[str, Block], ...]  # requests in flight that nobody waits for
    crashes: int
    # ghosts
    kept: Blocks  # whose writer was told that they are kept
    shown: Blocks  # that were visible once
    gone: Blocks  # that were removed once


class Writer(NamedTuple):
    at: Block = 0


class Sweeper(NamedTuple):
    pc: str = "Idle"  # Idle; Listed; Read, Bad, Late: it has a letter; Settled: the letter may be deleted
    todo: Blocks = NOBODY  # letters of its listing that it has not read
    at: Block = -1  # whose letter it has
    deleted: bool = False  # it has deleted that letter already


# --- the index

def added(s: Shared, b: Block) -> Shared:
    """Add a block that the index takes."""
    return s._replace(visible=s.visible | {b}, shown=s.shown | {b})


def is_known(c: Constants, s: Shared, b: Block) -> bool:
    return b in s.visible or (c.KNOWN and b in s.removed)


def is_late(c: Constants, s: Shared, b: Block) -> bool:
    """Tell whether the index refuses a block, for ever."""
    return not is_known(c, s, b) and c.HORIZON and b in s.old


def after_add(c: Constants, s: Shared, b: Block) -> Shared:
    """Return the state once the index has got a block."""
    return s if is_known(c, s, b) or is_late(c, s, b) else added(s, b)


# --- the writer

def add(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """It adds its block, and is told so."""
    if w.at < c.BLOCKS and not is_late(c, s, w.at):
        yield (), after_add(c, s, w.at)._replace(kept=s.kept | {w.at}), Writer(w.at + 1)


def add_late(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """It is told that its block is too old, so it is not kept."""
    if w.at < c.BLOCKS and is_late(c, s, w.at):
        yield (), s, Writer(w.at + 1)


def send_add(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """It gets no answer from the index."""
    if w.at < c.BLOCKS and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Add", w.at)), w


def put_letter(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """It could not add its block, and puts a letter."""
    if w.at < c.BLOCKS and w.at not in s.letters:
        yield (), s._replace(letters=s.letters | {w.at}, kept=s.kept | {w.at}), Writer(w.at + 1)


def find_letter(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The letter is there: an earlier request has put it."""
    if w.at < c.BLOCKS and w.at in s.letters:
        yield (), s._replace(kept=s.kept | {w.at}), Writer(w.at + 1)


def send_letter(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """It gets no answer from the store."""
    if w.at < c.BLOCKS and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Letter", w.at)), w


def give_up(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """It goes on without knowing whether its block is kept."""
    if w.at < c.BLOCKS:
        yield (), s, Writer(w.at + 1)


# --- sweepers

def rest(w: Sweeper) -> Sweeper:
    """The letter is done: the next one, if there is one."""
    return Sweeper("Listed", w.todo) if w.todo else Sweeper()


def sweeper_list(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """It lists the letters. An empty listing is no step."""
    if w.pc == "Idle" and s.letters:
        yield (), s, Sweeper("Listed", s.letters)


def get(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """It reads a letter that is left, in any order. A damaged one is not added."""
    for b in sorted(w.todo & s.letters):
        if w.pc == "Listed":
            got = Sweeper("Bad" if b < c.BAD else "Read", w.todo - {b}, b)
            yield (b,), s, got if b >= c.BAD or c.SKIP_BAD else Sweeper()


def get_gone(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """Another sweeper has deleted the letter."""
    for b in sorted(w.todo - s.letters):
        if w.pc == "Listed":
            yield (b,), s, rest(w._replace(todo=w.todo - {b}))


def settled(c: Constants, w: Sweeper) -> Sweeper:
    return rest(w) if w.deleted else w._replace(pc="Settled")


def may_add(c: Constants, w: Sweeper) -> bool:
    return w.pc == "Read" and (c.DELETE_AFTER_ADD or w.deleted)


def re_add(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """The index has the block, or had it once."""
    if may_add(c, w) and not is_late(c, s, w.at):
        yield (), after_add(c, s, w.at), settled(c, w)


def re_add_late(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """The index refuses the block."""
    if may_add(c, w) and is_late(c, s, w.at):
        yield (), s, w._replace(pc="Late") if c.KEEP_ASIDE else settled(c, w)


def send_re_add(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """It gets no answer from the index, so it leaves the letter to a later sweep."""
    if may_add(c, w) and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Add", w.at)), rest(w) if c.WAIT_COMMITTED else settled(c, w)


def may_copy(c: Constants, w: Sweeper) -> bool:
    return w.pc == "Late" or (w.pc == "Bad" and c.KEEP_REJECTED and (c.DELETE_AFTER_COPY or w.deleted))


def copied(s: Shared, bad: bool, b: Block) -> Shared:
    return s._replace(rejected=s.rejected | {b}) if bad else s._replace(aside=s.aside | {b})


def is_copied(s: Shared, w: Sweeper) -> bool:
    return w.at in (s.rejected if w.pc == "Bad" else s.aside)


def copy(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """It puts a copy of a letter that is not added."""
    if may_copy(c, w) and not is_copied(s, w):
        yield (), copied(s, w.pc == "Bad", w.at), settled(c, w)


def copy_conflict(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """The copy is there."""
    if may_copy(c, w) and is_copied(s, w):
        yield (), s, settled(c, w)


def send_copy(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """It gets no answer from the store, so it leaves the letter to a later sweep."""
    if may_copy(c, w) and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Reject" if w.pc == "Bad" else "Aside", w.at)), rest(w)


def may_delete(c: Constants, w: Sweeper) -> bool:
    early = {"Read": not c.DELETE_AFTER_ADD, "Bad": not (c.DELETE_AFTER_COPY and c.KEEP_REJECTED)}
    return not w.deleted and early.get(w.pc, w.pc == "Settled")


def after_delete(c: Constants, w: Sweeper) -> Sweeper:
    return rest(w) if w.pc == "Settled" or (w.pc == "Bad" and not c.KEEP_REJECTED) else w._replace(deleted=True)


def delete(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    if may_delete(c, w):
        yield (), s._replace(letters=s.letters - {w.at}), after_delete(c, w)


def send_delete(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    """It gets no answer from the store."""
    if may_delete(c, w) and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Delete", w.at)), after_delete(c, w)


def crash(c: Constants, me: int, s: Shared, w: Sweeper) -> Iterator:
    if w.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), s._replace(crashes=one_more(s.crashes, c.MAX_CRASHES)), Sweeper()


# --- requests in flight, and the rest of the index

def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request is applied that nobody waits for."""
    for (kind, b), after in in_pool(s):
        if kind == "Add":
            after = after_add(c, after, b)
        elif kind == "Letter":
            after = after._replace(letters=after.letters | {b})
        elif kind == "Delete":
            after = after._replace(letters=after.letters - {b})
        else:
            after = copied(after, kind == "Reject", b)
        yield ((kind, b),), after, ()


def remove(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The index removes a block: it is compacted, or retention drops it."""
    for b in sorted(s.visible):
        yield (b,), s._replace(visible=s.visible - {b}, removed=s.removed | {b}, gone=s.gone | {b}), ()


def age(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for b in range(c.BLOCKS):
        if b not in s.old and below(len(s.old), c.AGES):
            yield (b,), s._replace(old=s.old | {b}), ()


def forget(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The index forgets a removed block that is too old."""
    for b in sorted(s.removed & s.old):
        yield (b,), s._replace(removed=s.removed - {b}), ()


# --- properties

def nothing_is_lost(c: Constants, s: Shared) -> bool:
    """A block that is kept is in the index, or was once, or a letter in the store names it."""
    return s.kept <= s.shown | s.letters | s.rejected | s.aside


def added_once(c: Constants, s: Shared) -> bool:
    """No block that the index has removed is visible again."""
    return s.visible.isdisjoint(s.gone)


def letters_are_settled(c: Constants, s: Shared) -> bool:
    """Every letter leaves the queue, again and again."""
    return not s.letters


def read_is_stale(c: Constants, s: Shared) -> bool:
    """A block is kept, and no query finds it yet."""
    return any(b in s.letters and b not in s.shown for b in s.kept)


def is_recovered(c: Constants, s: Shared) -> bool:
    """A letter's block is in the index, and the letter is gone."""
    return any(b not in s.letters for b in s.kept & s.visible)


def letter_is_late(c: Constants, s: Shared) -> bool:
    """A letter names a block that the index has removed."""
    return not s.letters.isdisjoint(s.gone)


def is_rejected(c: Constants, s: Shared) -> bool:
    return bool(s.rejected)


def is_aside(c: Constants, s: Shared) -> bool:
    return bool(s.aside)


def two_have_one_letter(c: Constants, s: Shared, w: Sweeper) -> bool:
    """A sweeper has a letter that another one has deleted."""
    return w.at >= 0 and w.at not in s.letters


WRITER = {"Add": add, "AddLate": add_late, "SendAdd": send_add, "PutLetter": put_letter, "FindLetter": find_letter,
          "SendLetter": send_letter, "GiveUp": give_up}
SWEEPER = {"List": sweeper_list, "Get": get, "GetGone": get_gone, "ReAdd": re_add, "ReAddLate": re_add_late,
           "SendReAdd": send_re_add, "Copy": copy, "CopyConflict": copy_conflict, "SendCopy": send_copy, "Delete": delete,
           "SendDelete": send_delete, "Crash": crash}
INDEX = {"ApplyPending": apply_pending, "Remove": remove, "Age": age, "Forget": forget}

ALWAYS = {
    "NothingIsLost": (None, nothing_is_lost),
    "AddedOnce": (None, added_once),
}
SOMETIMES: dict[str, Property] = {
    "ReadIsStale": (None, read_is_stale),
    "IsRecovered": (None, is_recovered),
    "LetterIsLate": (None, letter_is_late),
    "IsRejected": (None, is_rejected),
    "IsAside": (None, is_aside),
    "TwoHaveOneLetter": ("Sweeper", two_have_one_letter),
}
EVENTUALLY = {"LettersAreSettled": (None, letters_are_settled)}
FAULTS = {"SendAdd", "SendLetter", "SendReAdd", "SendCopy", "SendDelete", "Crash",
          "Add", "AddLate", "PutLetter", "FindLetter", "GiveUp"}  # never obligatory, so not fair
FAIR = {"Sweeper": frozenset({"List", "Get", "GetGone", "ReAdd", "ReAddLate", "Copy", "CopyConflict", "Delete"})}


def model(c: Constants) -> Model:
    absent = {"IsRejected"} if not c.BAD else set[str]()
    absent |= {"IsAside"} if c.AGES == 0 or c.BAD >= c.BLOCKS else set()
    absent |= {"ReadIsStale"} if not c.BLOCKS else set()
    absent |= {"TwoHaveOneLetter"} if c.SWEEPERS < 2 else set()
    absent |= {"IsRejected", "IsAside"} if not c.SWEEPERS else set()
    first = Shared(*[NOBODY] * 6, pool=(), crashes=0, kept=NOBODY, shown=NOBODY, gone=NOBODY)
    roles = (("Writer", 1, Writer(), WRITER), ("Sweeper", c.SWEEPERS, Sweeper(), SWEEPER))
    return Model("dlq_recovery", c, first, (*clients(*roles), store(INDEX)), ALWAYS, all_but(SOMETIMES, absent), EVENTUALLY,
                 FAIR, renamed={"Sweeper": None})
