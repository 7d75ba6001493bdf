"""Scripts of nodes of impl/raft whose group is raised to a higher level, and of such as do not know it."""

from collections.abc import Callable, Coroutine
from typing import Any

from highwater.dst.script import Alone, Script, check, fails_with, forever, same
from highwater.dst.scripts.replicated.disks import ScriptDisk
from highwater.dst.scripts.replicated.node import MACHINE, OPTIONS, Posted, leading, opened, proposed, write
from highwater.dst.scripts.replicated.servers import ABC, after, leader, logged, sent
from highwater.impl import level
from highwater.impl.level import ANY_MACHINE, FIRST, FORMS, Level, common
from highwater.impl.node_world import Message
from highwater.impl.raft import levels, members, records, snapshots, wire
from highwater.impl.raft.entries import COMMAND, LEVEL, MEMBERS, NOOP, Entry, last_index, made
from highwater.impl.raft.faults import Altered, Damaged, LevelTooLow, NotRunning, OtherVersion, TooLarge
from highwater.impl.raft.fetch import Chunk, Fetched
from highwater.impl.raft.log import body_of, open_log
from highwater.impl.raft.members import Members
from highwater.impl.raft.messages import Append, InstallSnapshot
from highwater.impl.raft.node import Done, Node, Options
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.state import LEADER, Accepted, Config, Propose, Received, Save, Synced, Tick
from highwater.impl.raft.waiters import Waiter

NEWER = MACHINE._replace(level=2, level_of=lambda body: 2 if body.startswith(b"new") else 1)
KNOWS = OPTIONS._replace(forms=3)
RAISED = Level(3, 2)
LEVEL_ENTRY = made(1, LEVEL, level.encoded(RAISED))


def contents(disk: ScriptDisk) -> dict[str, bytes]:
    return {name: file.now for name, file in disk.files.items()}


async def newer(alone: Alone, disk: ScriptDisk, options: Options = KNOWS) -> Node:
    """Return a leading node that knows level 3.2."""
    return await leading(alone, disk, options, NEWER)


async def raised(alone: Alone, disk: ScriptDisk, options: Options = KNOWS) -> Node:
    """Return a leading node whose group has level 3.2."""
    node = await newer(alone, disk, options)
    waiter = Waiter(node.world.signals)
    node._step(Propose((level.encoded(RAISED),), LEVEL), waiter)
    await write(node)
    same((await waiter.wait(), node.level), (Done(2, None), RAISED))
    return node


async def levels_are_compared(alone: Alone) -> None:
    same((FIRST, ANY_MACHINE, str(RAISED)), (Level(1, 1), Level(FORMS, 65535), "3.2"))
    for known, covers in (((2, 2), True), ((3, 2), True), ((2, 3), True), ((1, 9), False), ((9, 1), False)):
        same(Level(*known).covers(Level(2, 2)), covers)
    same(Level(3, 1).raised(Level(2, 5)), Level(3, 5))
    same(common([Level(3, 1), Level(2, 5), Level(4, 4)]), Level(2, 1))
    same((level.encoded(Level(1, 515)).hex(), level.decoded(b"\0\1\2\3")), ("00010203", Level(1, 515)))


async def entries_of_other_kinds_are_refused(alone: Alone) -> None:
    known = [Entry(1, NOOP, b""), Entry(1, COMMAND, b""), Entry(1, MEMBERS, members.encoded(Members(("a",))))]
    levels.check(1, [*known, LEVEL_ENTRY], RAISED)
    for entry, what in ((Entry(1, 4, b""), "entry 1,003 is of kind 4, and this highwater, which knows levels up to 2.2, knows "
                                           "kinds 0 to 3: start"),
                        (LEVEL_ENTRY, "entry 1,003 raises the cluster to level 3.2, and this node knows levels up to 2.2: "),
                        (Entry(1, MEMBERS, b""), "an entry with members of version none, and this highwater reads version 1: "),
                        (Entry(1, LEVEL, b"\0\1\0"), "entry 1,003 raises the level in a form of 3 bytes, and this highwater "
                                                     "reads 4: start")):
        try:
            levels.check(1_000, [*known, entry], Level(2, 2))
        except OtherVersion as error:
            check(str(error).startswith(what), f"both versions are named: {error}")
        else:
            check(False, f"{entry} is refused")


async def the_leader_takes_an_entry_that_raises_the_level(alone: Alone) -> None:
    led, outputs = after(leader(), Propose((b"1234",), LEVEL))
    same((led.log.entries[-1], led.uncommitted_bytes), (made(5, LEVEL, b"1234"), 4))
    same([output for output in outputs if isinstance(output, Accepted)], [Accepted(5, 2)])
    same([message.entries for _, message in sent(outputs) if isinstance(message, Append) and message.entries], [])  # probing
    same(after(led, Propose((b"x",)))[0].log.entries[-1], made(5, COMMAND, b"x"))


async def a_command_of_a_later_level_waits_for_it(alone: Alone) -> None:
    """A newer command is refused before the level is raised, and taken after it, also after a restart."""
    disk = ScriptDisk()
    node = await newer(alone, disk)
    same((node.known, node.level), (RAISED, FIRST))
    before = contents(disk)
    error = await alone.raises(LevelTooLow, node.propose(b"new"))
    check("needs level 2 of the machine, and the cluster is at level 1: upgrade all nodes" in str(error), "both are named")
    same((contents(disk), node.saves, last_index(node.state.log)), (before, [], 1))
    disk = ScriptDisk()
    node = await raised(alone, disk)
    same(await proposed(node, b"new"), Done(3, 0))
    node = await newer(alone, disk)
    same((node.level, node.value), (RAISED, (b"new",)))


async def a_new_leader_takes_what_its_log_allows(alone: Alone) -> None:
    """A new leader has the entry that raised the level, and does not know yet that it is committed."""
    disk = ScriptDisk()
    await raised(alone, disk)
    node = await opened_newer(alone, disk)
    while node.state.role != LEADER:
        await node._give(Tick())
        saves, node.saves = node.saves, []
        if saves and node.log is not None:
            await node.log.write(saves)
            await node._give(Synced(saves[-1].number))
    same((node.level, node.applied), (FIRST, 0))
    call = node.propose(b"new")
    call.send(None)  # it waits until the entry is committed
    same([entry.kind for entry in node.state.log.entries], [NOOP, LEVEL, NOOP, COMMAND])
    await write(node)
    same((node.level, node.value), (RAISED, (b"new",)))
    call.close()


async def calls_that_raise_the_level(alone: Alone) -> None:
    node = await newer(alone, ScriptDisk(), KNOWS._replace(config=Config(election_ticks=2, max_entry_bytes=3)))
    check("an entry of 4 bytes" in str(await alone.raises(TooLarge, node.raise_level(RAISED))), "the size is told")
    await node.close()
    await alone.raises(NotRunning, node.raise_level(RAISED))
    node = await newer(alone, ScriptDisk())
    call = node.raise_level(RAISED)
    call.send(None)  # it waits until the entry is committed
    same(node.state.log.entries[-1], LEVEL_ENTRY)
    call.close()


async def snapshots_have_the_level(alone: Alone) -> None:
    disk = ScriptDisk()
    node = await raised(alone, disk)
    await proposed(node, b"new")
    await proposed(node, b"y")
    same((node.snapshot.index, node.snapshot.level, node.snapshot.members), (3, RAISED, None))
    same(disk.files[snapshots.name_of(3, 1)].now[8:10], b"\0\3")
    node = await opened_newer(alone, disk)
    same((node.level, node.applied), (RAISED, 3))
    of = Members(("a", "b"), ("c",), (("c", "here:1"),))
    for snapshot in (Snapshot(3, 1, ("a", "b"), b"content", None, RAISED), Snapshot(3, 1, ("a", "b"), b"content", of, RAISED),
                     Snapshot(3, 1, ("a", "b"), b"content", of)):
        data = snapshots.encoded(snapshot)
        same(snapshots.decoded("x", data), snapshot)
        fails_with(Damaged, lambda data=data: snapshots.decoded("x", data[:-5]))
    same(snapshots.encoded(Snapshot(3, 1, ("a",), b"x", None, RAISED))[26:].hex()[:32], "00090100010100016100000000030002")


async def opened_newer(alone: Alone, disk: ScriptDisk) -> Node:
    return await opened(alone, disk, options=KNOWS, machine=NEWER)


async def an_older_node_does_not_open_the_folder(alone: Alone) -> None:
    """A node that does not know the level of its folder names both, and changes nothing; a newer one goes on."""
    for entries, where in ((10, "entry 2 raises the cluster to"), (1, "the snapshot in the folder is of a cluster raised to")):
        disk = ScriptDisk()
        options = KNOWS._replace(snapshot_entries=entries, keep_entries=0, segment_bytes=1)
        await proposed(await raised(alone, disk, options), b"x")
        name = max(name for name in disk.files if name.startswith("log-"))
        disk.files[name].now += b"torn"
        before = contents(disk)
        for options, machine, known in ((OPTIONS, NEWER, "2.2"), (KNOWS, MACHINE, "3.1")):
            error = await alone.raises(OtherVersion, opened(alone, disk, options=options, machine=machine))
            check(f"{where} level 3.2, and this node knows levels up to {known}: start the version" in str(error), str(error))
            same(contents(disk), before)
        same((await opened_newer(alone, disk)).state.log.base_index + 1 > 0, True)


async def logs_of_other_kinds_are_refused(alone: Alone) -> None:
    disk = ScriptDisk()
    log, _ = await open_log(disk, "a", (0, 0))  # pyright: ignore[reportArgumentType]
    await log.write([Save(1, 1, "", 1, (*logged(1).entries, Entry(1, 9, b"?")))])
    before = contents(disk)
    error = await alone.raises(OtherVersion, open_log(disk, "a", (0, 0)))  # pyright: ignore[reportArgumentType]
    check(f"entry 2 is of kind 9, and this highwater, which knows levels up to {ANY_MACHINE}" in str(error), str(error))
    same(contents(disk), before)


async def a_node_stops_at_what_it_does_not_know(alone: Alone) -> None:
    """A message of another version, or with an entry of another kind, ends the node if a member sent it that has said that it
    knows more. Of anyone else it ends a connection. Nothing of it is kept."""
    entries = (Entry(1, COMMAND, b"x"), LEVEL_ENTRY)
    for body, what in ((wire.encoded(Append(1, 0, 0, entries, 0)), "entry 2 raises the cluster to level 3.2, and this node"),
                       (b"\7\1" + bytes(8), "a message of version 7 and kind 1, and this highwater reads version 1, kinds"),
                       (b"\1\x63" + bytes(8), "a message of version 1 and kind 99, and this highwater reads version 1")):
        for sender, known, ends in (("b", Level(3, 2), True), ("b", Level(FORMS, 1), False), ("b", None, False),
                                    ("nobody", Level(3, 2), False)):
            node = await opened(alone, ScriptDisk(), ABC)
            net = node.world.net
            assert isinstance(net, Posted)
            net.known = {sender: known} if known else {}
            net.receive = one_message(sender, body)  # pyright: ignore[reportAttributeAccessIssue]
            if ends:
                error = await alone.raises(OtherVersion, node._receive_on())
                check(str(error).startswith(f"from 'b': {what}"), str(error))
            else:
                await alone.cancels(node._receive_on())
            same((node.saves, last_index(node.state.log), node.state.term), ([], 0, 0))
            same(net.ended, [] if ends else [sender])


def one_message(sender: str, body: bytes) -> Callable[[int], Coroutine[Any, Any, Message]]:
    """Return a `receive` that returns one message, and then never again."""
    bodies = [body]

    async def receive(timeout_ms: int) -> Message:
        if not bodies:
            await forever()
        return Message(sender, bodies.pop())
    return receive


async def entries_keep_their_checksums(alone: Alone) -> None:
    """From level 2 on, messages and the log have the checksum that the leader gave an entry."""
    entry, older = made(1, COMMAND, b"body"), Entry(1, COMMAND, b"older")
    message = Append(1, 7, 1, (entry, older), 0)
    same(wire.decoded(wire.encoded(message)).entries, (Entry(*entry[:3]), older))  # pyright: ignore
    data = wire.encoded(message, 2)
    same(wire.decoded(data), message._replace(entries=(entry, made(*older[:3]))))
    for at in (b"body", b"older"):
        place = data.index(at)
        fails_with(wire.Malformed, lambda place=place: wire.decoded(data[:place] + b"?" + data[place + 1:]))
    disk = ScriptDisk()
    log, _ = await open_log(disk, "a", (0, 0))  # pyright: ignore[reportArgumentType]
    await log.write([Save(1, 1, "", 1, (entry,))])
    log.checksums = True
    await log.write([Save(2, 1, "", 2, (entry, older))])
    _, recovered = await open_log(disk, "a", (0, 0))  # pyright: ignore[reportArgumentType]
    same(recovered.log.entries, (Entry(*entry[:3]), entry, made(*older[:3])))


async def an_altered_entry_is_not_written(alone: Alone) -> None:
    """An entry that was altered in memory stops its node before it is written; in a record that is as it was written, it is
    damage."""
    altered = made(1, COMMAND, b"body")._replace(body=b"b0dy")
    disk = ScriptDisk()
    log, _ = await open_log(disk, "a", (0, 0))  # pyright: ignore[reportArgumentType]
    before = contents(disk)
    error = await alone.raises(Altered, log.write([Save(1, 1, "", 1, (made(1, COMMAND, b"x"), altered))]))
    check(str(error).startswith("entry 2 of term 1 does not have the checksum that its leader gave it"), str(error))
    same(contents(disk), before)
    await log._write([records.Record(records.SUMMED, 1, 1, 0, body_of(altered, True))])
    error = await alone.raises(Damaged, open_log(disk, "a", (0, 0)))  # pyright: ignore[reportArgumentType]
    check("entry 1 is not as its leader made it, by its checksum" in str(error), str(error))


async def a_raised_group_uses_checksums(alone: Alone) -> None:
    node = await raised(alone, ScriptDisk())
    await proposed(node, b"new")
    assert node.log is not None
    check(node.log.checksums, "the log is written with checksums")


async def an_installed_snapshot_raises_the_level(alone: Alone) -> None:
    """The entry that raised the level is in the snapshot, and not in the log any more."""
    node = await opened(alone, ScriptDisk(), ABC, KNOWS, NEWER)
    offer = Received("b", InstallSnapshot(1, 7, 1))
    await node._give(offer)
    await write(node)
    await node._give(offer)
    fetched, data = node.fetching, snapshots.encoded(Snapshot(7, 1, ABC, b"new", None, RAISED))
    check(fetched is not None and fetched.take("b", Chunk(7, 1, 0, len(data), data)), "the snapshot is fetched")
    assert fetched is not None
    node.fetched_more.ring()
    await node._fetch(fetched)
    same((node.level, node.applied, node.value), (RAISED, 7, (b"new",)))


async def a_fetched_snapshot_of_a_later_level_is_not_kept(alone: Alone) -> None:
    """A snapshot of a level, or of a version, that the node does not know ends it before it is stored."""
    data = snapshots.encoded(Snapshot(3, 1, ("a",), b"x", None, RAISED))
    for body, options, what in ((data, OPTIONS, "the snapshot of 'b' is of a cluster raised to level 3.2, and this node knows "
                                                "levels up to 2.1: start"),
                                (data[:9] + b"\7" + data[10:], KNOWS, "the snapshot from b: a snapshot of version 7, ")):
        disk = ScriptDisk()
        node = await opened(alone, disk, ABC, options)
        known = Level(9, 9)
        node.world.net.known = {"b": known}  # pyright: ignore[reportAttributeAccessIssue]
        node.fetching = Fetched("b", 3, 1)
        node.fetching.take("b", Chunk(3, 1, 0, len(body), body))
        node.fetched_more.ring()
        before = contents(disk)
        error = await alone.raises(OtherVersion, node._fetch(node.fetching))
        check(str(error).startswith("from 'b': " + what), str(error))
        node.world.net.known = {}  # pyright: ignore[reportAttributeAccessIssue]
        node.fetched_more.ring()
        await node._fetch(node.fetching)
        same((contents(disk), node.level, node.snapshot, node.world.net.ended),  # pyright: ignore[reportAttributeAccessIssue]
             (before, FIRST, snapshots.EMPTY, ["b"]))


SCRIPTS: tuple[Script, ...] = (
    levels_are_compared, entries_of_other_kinds_are_refused, the_leader_takes_an_entry_that_raises_the_level,
    a_command_of_a_later_level_waits_for_it, a_new_leader_takes_what_its_log_allows, calls_that_raise_the_level,
    snapshots_have_the_level,
    an_older_node_does_not_open_the_folder, logs_of_other_kinds_are_refused, a_node_stops_at_what_it_does_not_know,
    entries_keep_their_checksums, an_altered_entry_is_not_written, a_raised_group_uses_checksums,
    an_installed_snapshot_raises_the_level, a_fetched_snapshot_of_a_later_level_is_not_kept,
)
