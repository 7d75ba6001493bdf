"""Scripts of dead letters: what a writer leaves when the index does not answer, and what a sweeper makes of it."""

from hashlib import sha256
from typing import Any

from highwater.dst.script import LOST, Alone, Cancelled, Script, check, same
from highwater.dst.scripts.indexed.one import block, says, ulid
from highwater.impl.codecs.index.messages import encode
from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, StoreError, TimedOut, Unavailable
from highwater.impl.index.letters import kept, letter, sweeper, writer
from highwater.impl.index.letters.kept import Letter
from highwater.impl.index.letters.letter import InvalidLetter
from highwater.impl.index.letters.sweeper import Sweeper
from highwater.impl.index.letters.writer import LetterTaken, Writer
from highwater.impl.index.library import InvalidArgument, TooLate
from highwater.impl.index.service.codes import OverLimit
from highwater.impl.raft.faults import LeadershipLost, NotLeader, NotRunning, QueueFull, TooLarge

ONE = block(1, tenant="t")
KEY, BODY = f"dlq/1/t/{ulid(1)}/meta.pb", encode(ONE)
GONE = NotLeader("a", "b")


class Adds:
    """An index that raises the errors of a script, one at each add; None: it takes the block."""

    def __init__(self, *answers: BaseException | None):
        self.answers: list[Any] = list(answers)
        self.added: list[str] = []

    async def __call__(self, made: Any) -> None:
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.added.append(made.id)


async def keys(alone: Alone) -> list[str]:
    return [entry.key for entry in (await alone.real.list_page("dlq")).entries]


# --- letters

async def a_letter_has_the_block_of_its_key(alone: Alone) -> None:
    same((letter.key_of(ONE), letter.key_of(block(1))), (KEY, f"dlq/1/anonymous/{ulid(1)}/meta.pb"))
    moved = [f"{prefix}/1/t/{ulid(1)}/meta.pb" for prefix in ("dlq-rejected", "dlq-aside")]
    for key in (KEY, *moved, f"{moved[0]}.0123456789abcdef"):
        same((letter.letter_key(key), letter.letter_of(key, BODY)), (KEY, ONE))
    same(letter.letter_key("other/key"), "other/key")
    for key, body, text in (
            (KEY.replace("/1/", "/2/", 1), BODY, f"byte 0, letter: it has the block of {KEY!r}"),
            (KEY, encode(block(1, tenant="t", min_time=0)),
             "byte 0, letter: min_time 0 and max_time 2000 are no range of times after 0")):
        says(InvalidLetter, text, lambda key=key, body=body: letter.letter_of(key, body))
    try:
        letter.letter_of(KEY, b"\x08")
    except InvalidLetter as error:
        check(str(error).startswith("byte 0, letter: byte 0, letter: not a BlockMeta"), "a damaged letter is refused as one")
    else:
        check(False, "a damaged letter is refused")
    same(letter.LONGEST_LETTER_BYTES, 4 << 20)


# --- writers

OPTIONS = writer.Options(retry_ms=1_000, pause_ms=400, attempts=3)


async def a_writer_adds_for_a_while_and_leaves_a_letter(alone: Alone) -> None:
    adds = Adds(GONE, TimedOut("slow"), None)
    of, began = Writer(alone.world, adds, OPTIONS), alone.now
    same((await of.add(ONE), adds.added, alone.now - began, await keys(alone)), ("added", [ulid(1)], 800, []))
    adds.answers = [GONE, QueueFull("full"), TimedOut("slow"), LeadershipLost("lost")]
    began = alone.now
    same((await of.add(ONE), len(adds.answers), alone.now - began), ("kept", 0, 1_200))
    same((await alone.real.get(KEY)).body, BODY)
    same((alone.counted, alone.warnings), (["dead_letters_written"], [
        f"block {ulid(1)} is in no index yet, and its letter is in the queue: lost"]))
    adds.answers = [GONE] * 4
    same(await of.add(ONE), "kept")
    await alone.real.delete(KEY)
    for told, answers in ((Unavailable, [GONE] * 4), (OutcomeUnknown, [GONE, TimedOut("slow"), GONE, GONE])):
        adds.answers = answers
        alone.fails("create", "dlq/", Unavailable, 3)
        await alone.raises(told, of.add(ONE))  # what the index may have is not told as being nowhere
    for error in (InvalidArgument("a"), TooLate("b"), TooLarge("c")):
        adds.answers = [GONE, error]
        same(await alone.raises(type(error), of.add(ONE)), error)
    raised = await alone.raises(InvalidArgument, of.add(block(1, min_time=0)))
    same(str(raised), "min_time 0 and max_time 2000 are no range of times after 0")
    same(writer.USUAL, writer.Options(10_000, 500, 5))


async def a_writer_does_not_wait_once_its_time_is_over(alone: Alone) -> None:
    adds = Adds(GONE, GONE, GONE)
    of, began = Writer(alone.world, adds, OPTIONS._replace(retry_ms=800)), alone.now
    same((await of.add(ONE), alone.now - began, len(adds.answers)), ("kept", 800, 0))


async def a_letter_is_put_again_after_an_error(alone: Alone) -> None:
    of = Writer(alone.world, Adds(), OPTIONS)
    for how in (LOST, OutcomeUnknown, Unavailable):
        alone.fails("create", "dlq/", how, 2)
        began = alone.now
        await of.leave(ONE)
        same(((await alone.real.get(KEY)).body, alone.now - began), (BODY, 400 if how == LOST else 800))
        await alone.real.delete(KEY)
    alone.faults = []
    for error in (OutcomeUnknown, Unavailable):
        alone.fails("create", "dlq/", error, 3)
        alone.sent()
        await alone.raises(error, of.leave(ONE))
        same(alone.sent(), ["create meta.pb"] * 3)


async def a_letter_of_another_block_is_not_overwritten(alone: Alone) -> None:
    of = Writer(alone.world, Adds(), OPTIONS)
    await alone.real.put(KEY, BODY)
    await of.leave(ONE)
    await alone.real.put(KEY, b"another's")
    raised = await alone.raises(LetterTaken, of.leave(ONE))
    same(str(raised), f"{KEY!r} has another block's metadata: give each block a ULID of its own")
    same((await alone.real.get(KEY)).body, b"another's")
    alone.fails("get", "dlq/", lambda: alone.real.delete(KEY))
    await of.leave(ONE)
    same((await alone.real.get(KEY)).body, BODY)

    async def taken() -> None:
        await alone.real.put(KEY, b"another's")

    await alone.real.delete(KEY)
    alone.fails("create", "dlq/", taken, 3)
    alone.fails("get", "dlq/", lambda: alone.real.delete(KEY), 3)
    raised = await alone.raises(OutcomeUnknown, of.leave(ONE))
    same(str(raised), f"{KEY!r} could not be put, 3 times over: each time a sweeper had just taken the letter")
    await alone.real.put(KEY, BODY)
    alone.fails("get", "dlq/", Unavailable)
    await of.leave(ONE)  # the next try reads it
    alone.fails("get", "dlq/", Unavailable, 3)
    await alone.raises(OutcomeUnknown, of.leave(ONE))
    await alone.real.put(KEY, b"another's")
    await alone.raises(OutcomeUnknown, of.leave(ONE, doubt=True))  # the index may have the block
    await alone.real.delete(KEY)
    alone.fails("create", "dlq/", Unavailable, 3)
    await alone.raises(Unavailable, of.leave(ONE))
    alone.fails("create", "dlq/", Unavailable, 3)
    await alone.raises(OutcomeUnknown, of.leave(ONE, doubt=True))


# --- sweepers

def swept(alone: Alone, adds: Adds, leads: bool = True) -> Sweeper:
    return Sweeper(alone.world, adds, lambda: leads, sweeper.Options(period_ms=100, at_once=2))


async def settled(alone: Alone, of: Sweeper) -> None:
    """Settle each letter, one after the other: tasks of a script take no step."""
    for entry in (await alone.real.list_page("dlq/")).entries:
        await of.one(entry)


async def a_letter_is_deleted_once_its_block_is_added(alone: Alone) -> None:
    await alone.real.put(KEY, BODY)
    adds = Adds(LeadershipLost("lost"))
    of = swept(alone, adds)
    await settled(alone, of)
    same((await keys(alone), alone.counted, alone.warnings), ([KEY], ["dead_letters_left"], [
        f"{KEY} stays for the next sweep: lost"]))
    await settled(alone, of)
    same((await keys(alone), adds.added, alone.counted), ([], [ulid(1)], ["dead_letters_left", "dead_letters_added"]))
    same(alone.sent(), ["get meta.pb", "get meta.pb", "delete meta.pb"])
    for error in (GONE, NotRunning("stopped")):
        await alone.real.put(KEY, BODY)
        adds.answers = [error]
        await alone.raises(type(error), settled(alone, of))
        same((await keys(alone), len(alone.counted)), ([KEY], 2))


async def a_letter_that_cannot_be_added_is_moved(alone: Alone) -> None:
    rejected, aside = KEY.replace("dlq/", "dlq-rejected/"), KEY.replace("dlq/", "dlq-aside/")
    for error, place in ((InvalidArgument("a"), rejected), (OverLimit("b"), rejected), (TooLarge("c"), rejected),
                         (TooLate("d"), aside)):
        await alone.real.put(KEY, BODY)
        alone.counted, alone.warnings = [], []
        await settled(alone, swept(alone, Adds(error)))
        same((await keys(alone), (await alone.real.get(place)).body), ([place], BODY))
        same((alone.counted, alone.warnings), ([f"dead_letters_{'aside' if place == aside else 'rejected'}"],
                                               [f"{KEY} is moved to {place}: {error}"]))
        await alone.real.delete(place)
    await alone.real.put(KEY, b"\x08")
    await alone.real.put(rejected, b"an earlier one")
    await settled(alone, swept(alone, Adds()))
    other = f"{rejected}.{sha256(bytes([8])).hexdigest()[:16]}"
    same((await keys(alone), (await alone.real.get(other)).body), ([rejected, other], b"\x08"))
    await alone.real.put(KEY, b"\x08")
    await settled(alone, swept(alone, Adds()))
    same(await keys(alone), [rejected, other])
    await alone.real.put(other, b"in the way, too")
    raised = await alone.raises(AlreadyExists, swept(alone, Adds()).copy(KEY, "dlq-rejected/", b"\x08", "why"))
    same(str(raised), rejected)


async def a_letter_stays_until_its_copy_is_there(alone: Alone) -> None:
    for op, how in (("create", Unavailable), ("create", OutcomeUnknown), ("delete", Unavailable), ("get", Unavailable)):
        await alone.real.put(KEY, BODY)
        alone.fails(op, "dlq", how)
        await settled(alone, swept(alone, Adds(TooLate("old"))))
        check(KEY in await keys(alone), "the letter stays")
        same(alone.counted[-1], "dead_letters_left")
    alone.fails("get", "dlq", lambda: alone.real.delete(KEY))
    left = alone.counted.count("dead_letters_left")
    await settled(alone, swept(alone, Adds()))
    same(alone.counted.count("dead_letters_left"), left)


async def a_letter_that_is_too_long_is_not_read(alone: Alone) -> None:
    await alone.real.put(KEY, bytes(4 << 20))
    await settled(alone, swept(alone, Adds()))
    same((alone.sent(), (await keys(alone))[0].rpartition("/")[2]), (["get meta.pb", "create meta.pb",
                                                                                        "delete meta.pb"], "meta.pb"))
    await alone.real.put(KEY, bytes((4 << 20) + 1))
    await settled(alone, swept(alone, Adds()))
    same((alone.sent(), alone.warnings[-1]), ([],
                                              f"{KEY} stays for the next sweep: it has 4,194,305 bytes, and no letter has more "
                                                  "than 4,194,304; move it elsewhere"))


async def a_letter_that_stays_is_tried_again_after_pauses(alone: Alone) -> None:
    await alone.real.put(KEY, bytes((4 << 20) + 1))
    of, tried = swept(alone, Adds()), list[int]()
    began = alone.now
    for _ in range(40):
        left = len(alone.counted)
        await settled(alone, of)
        tried += [alone.now - began] * (len(alone.counted) - left)
        alone.now += 100
    same((tried, len(alone.warnings)), ([0, 100, 300, 700, 1_500, 3_100], 1))
    await alone.real.put(KEY, b"\x08")  # another object
    rejected = KEY.replace("dlq/", "dlq-rejected/")
    alone.fails("create", "dlq", Unavailable, 2)
    await settled(alone, of)
    await settled(alone, of)
    said = f"{KEY} stays for the next sweep: as the script says: cre"
    same((len(alone.warnings), alone.warnings[1][:len(said)]), (2, said))
    alone.now += 1_000
    await settled(alone, of)
    same((await keys(alone), alone.counted[-1], of.stuck), ([rejected], "dead_letters_rejected", {}))
    await alone.real.put(KEY, BODY)
    await settled(alone, swept(alone, Adds(ValueError("no key"))))  # pyright: ignore[reportArgumentType]
    same(alone.warnings[-1], f"{KEY} stays for the next sweep: ValueError: no key")
    few = Sweeper(alone.world, Adds(*[LeadershipLost("lost")] * 3), lambda: True, sweeper.Options(stuck=2))
    for number in range(3):
        await alone.real.put(letter.key_of(block(number, tenant="t")), encode(block(number, tenant="t")))
    await settled(alone, few)
    same([key[-15:-8] for key in few.stuck], [ulid(number)[-7:] for number in (1, 2)])
    same(sweeper.MOST_STUCK_MS, 3_600_000)


class AtOnce:
    """A task of a script that runs to its end when it is awaited. What it has raised it raises again."""

    def __init__(self, work: Any):
        self.work, self.cancelled, self.error = work, False, None

    def cancel(self) -> None:
        self.cancelled = True

    def __await__(self) -> Any:
        return self.ended().__await__()

    async def ended(self) -> None:
        work, self.work = self.work, None
        try:
            if work is not None:
                await work
        except StoreError as error:
            self.error = error.with_traceback(None)
        if self.error is not None:
            raise self.error


async def a_sweep_takes_all_pages(alone: Alone) -> None:
    for number in range(1_003):
        await alone.real.put(letter.key_of(block(number)), encode(block(number)))
    tasks: list[AtOnce] = []

    def spawn(work: Any, name: str) -> Any:
        tasks.append(AtOnce(work))
        same(name, f"letters {(len(tasks) - 1) % 2}")
        return tasks[-1]

    alone.spawn = spawn  # pyright: ignore[reportAttributeAccessIssue]
    adds = Adds(*[LeadershipLost("lost")] * 1_003)
    await swept(alone, adds).sweep()
    same((alone.counted, adds.answers, alone.sent().count("list dlq")), (["dead_letters_left"] * 1_003, [], 2))
    tasks.clear()
    await swept(alone, adds).sweep()
    same((adds.added, await keys(alone)), ([ulid(number) for number in range(1_003)], []))
    same((alone.sent().count("list dlq"), [task.cancelled for task in tasks]), (2, [False] * 4))
    await alone.real.put(KEY, BODY)
    adds.answers, tasks[:] = [GONE], []
    await alone.raises(NotLeader, swept(alone, adds).sweep())
    same(([task.cancelled for task in tasks], await keys(alone)), ([True, True], [KEY]))


async def only_who_leads_sweeps(alone: Alone) -> None:
    sweeps: list[int] = []

    class Counted(Sweeper):
        async def sweep(self) -> None:
            sweeps.append(alone.now)
            raise (GONE, KeyError("Size"), Unavailable("down"), Cancelled())[len(sweeps) - 1]

    began, turns = alone.now, iter((False, True, True, False, True, True))
    of = Counted(alone.world, Adds(), lambda: next(turns), sweeper.Options(period_ms=100))
    await alone.raises(Cancelled, of.run())
    said = [f"the sweep of the dead letters ended: {why}" for why in (GONE, "KeyError: 'Size'", "down")]
    same(([now - began for now in sweeps], alone.warnings), ([200, 300, 600, 700], said))
    same(alone.counted, ["dead_letter_sweeps_failed"] * 3)
    same(sweeper.USUAL, sweeper.Options(15_000, 16, 10_000))


# --- what an operator sees

async def letters_are_shown(alone: Alone) -> None:
    aside = KEY.replace("dlq/", "dlq-aside/")
    rejected = f"dlq-rejected/1/t/{ulid(2)}/meta.pb"
    for key, body in ((KEY, BODY), (aside, BODY), (rejected, BODY), ("dlq/x", bytes((4 << 20) + 1))):
        await alone.real.put(key, body)
    there = {entry.key: entry for entry in (await alone.real.list_page("dlq")).entries}
    same(await kept.letters(alone.world.store), [
        Letter(KEY, "waits", len(BODY), there[KEY].last_modified_ms, ulid(1), ""),
        Letter("dlq/x", "waits", (4 << 20) + 1, there["dlq/x"].last_modified_ms, "", "no letter has more than 4,194,304 bytes"),
        Letter(rejected, "rejected", len(BODY), there[rejected].last_modified_ms, "",
               f"byte 0, letter: it has the block of {KEY!r}"),
        Letter(aside, "aside", len(BODY), there[aside].last_modified_ms, ulid(1), "")])
    await alone.real.put("dlq/x", bytes(4 << 20))
    long = (await kept.letters(alone.world.store))[1]
    check(long.wrong.startswith("byte 0, letter:"), "a letter of the longest length is read")
    alone.fails("get", KEY, lambda: alone.real.delete(KEY))
    same([one.key for one in await kept.letters(alone.world.store)], ["dlq/x", rejected, aside])


async def an_operator_adds_a_letter_again(alone: Alone) -> None:
    aside, adds = KEY.replace("dlq/", "dlq-aside/"), Adds(TooLate("old"))
    await alone.real.put(aside, BODY)
    await alone.raises(TooLate, kept.add_again(alone.world.store, aside, adds))
    same((await keys(alone), await kept.add_again(alone.world.store, aside, adds), await keys(alone), adds.added),
         ([aside], ulid(1), [], [ulid(1)]))
    raised = await alone.raises(ValueError, kept.add_again(alone.world.store, "blocks/1", adds))
    same(str(raised), "'blocks/1' is no letter: its key begins with one of dlq/, dlq-rejected/, dlq-aside/")
    await alone.raises(NotFound, kept.add_again(alone.world.store, KEY, adds))
    await alone.real.put(KEY, b"\x08")
    await alone.raises(InvalidLetter, kept.add_again(alone.world.store, KEY, adds))
    same(await keys(alone), [KEY])


SCRIPTS: tuple[Script, ...] = (
    a_letter_has_the_block_of_its_key, a_writer_adds_for_a_while_and_leaves_a_letter,
    a_writer_does_not_wait_once_its_time_is_over, a_letter_is_put_again_after_an_error,
    a_letter_of_another_block_is_not_overwritten, a_letter_is_deleted_once_its_block_is_added,
    a_letter_that_cannot_be_added_is_moved, a_letter_that_stays_is_tried_again_after_pauses,
    a_letter_stays_until_its_copy_is_there, a_letter_that_is_too_long_is_not_read,
    a_sweep_takes_all_pages, only_who_leads_sweeps, letters_are_shown, an_operator_adds_a_letter_again)
