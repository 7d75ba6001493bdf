"""Scripts of servers of impl/raft: changes of the members, and who counts."""

from highwater.dst.script import Alone, Script, fails_with, same
from highwater.dst.scripts.replicated.servers import CAREFUL, EMPTY, PLAIN, after, got, leader, logged, sent, server
from highwater.impl.raft import core, members
from highwater.impl.raft.entries import MEMBERS, Entry, Log, last_index, made
from highwater.impl.raft.faults import OtherVersion
from highwater.impl.raft.members import Configuration, Members
from highwater.impl.raft.messages import (
    Append,
    Appended,
    HeartbeatReply,
    InstallSnapshot,
    RequestVote,
    TimeoutNow,
    Vote,
)
from highwater.impl.raft.state import (
    CHANGE_UNDER_WAY,
    FOLLOWER,
    HANDING_OVER,
    LAST_VOTER,
    LEADER,
    LEARN,
    LEFT,
    NO_CHANGE,
    NO_LEARNER,
    NOT_CAUGHT_UP,
    NOT_LEADER,
    OWN_TERM_UNCOMMITTED,
    PROMOTE,
    REMOVE,
    Accepted,
    Campaign,
    Change,
    Compact,
    Installed,
    Propose,
    Read,
    ReadReady,
    Refused,
    Restart,
    State,
    Synced,
    Tick,
    TransferTo,
)

ABC = Members(("a", "b", "c"))
WITH_D = Members(("a", "b", "c"), ("d",), (("d", "there:4"),))


def entry(of: Members, term: int = 5) -> Entry:
    return made(term, MEMBERS, members.encoded(of))


def settled_leader() -> State:
    """Return a leader of term 5 that has committed the entry with which it began."""
    return after(leader(), got("b", Appended(5, 1)))[0]


def learning(led: State | None = None) -> State:
    """Return a leader with the learner d, which is committed, and has all."""
    led, _ = after(led or settled_leader(), Change(LEARN, "d", "there:4"), Synced(3), got("b", Appended(5, 2)))
    return after(led, got("d", Appended(5, 2)))[0]


def refused(led: State, change: Change) -> str:
    same_state, (output,) = after(led, change)
    same(same_state, led)
    assert isinstance(output, Refused)
    return output.why


async def members_are_written_and_read(alone: Alone) -> None:
    for of in (ABC, WITH_D, Members((), ("x",)), Members(("é" * 40,), (), (("é" * 40, "h:1"),))):
        same(members.decoded(members.encoded(of)), of)
    data = members.encoded(WITH_D)
    same(data[:5].hex(), "0100040100")
    for other in (b"", b"\2" + data[1:], data[:-1], data[:2], data[:3] + b"\7" + data[4:], b"\1\0\1\1\0\1\xff\0\0"):
        fails_with(OtherVersion, lambda other=other: members.decoded(other))


async def a_learner_may_be_removed(alone: Alone) -> None:
    same(members.without(WITH_D, "d"), ABC)
    led, _ = after(learning(), Change(REMOVE, "d"))
    same((led.voters, led.learners), (("a", "b", "c"), ()))


async def a_server_joins_as_a_learner_and_counts_once_it_is_promoted(alone: Alone) -> None:
    led, outputs = after(settled_leader(), Change(LEARN, "d", "there:4"))
    same([output for output in outputs if isinstance(output, Accepted)], [Accepted(5, 2)])
    same((led.voters, led.learners), (("a", "b", "c"), ("d",)))
    same([to for to, message in sent(outputs) if isinstance(message, Append)], ["b", "d"])
    led, _ = after(led, Synced(3), got("d", Appended(5, 2)))
    same(led.commit, 1)
    led, _ = after(led, got("b", Appended(5, 2)))
    same(led.commit, 2)
    led, _ = after(led, Change(PROMOTE, "d"), Synced(4), got("b", Appended(5, 3)))
    same((led.voters, led.learners, led.commit), (("a", "b", "c", "d"), (), 2))
    same(after(led, got("d", Appended(5, 3)))[0].commit, 3)
    same(led.configurations[-1].members.addresses, (("d", "there:4"),))


async def a_learner_takes_entries_and_does_not_stand_for_election(alone: Alone) -> None:
    fresh = core.step(core.server("d", (), PLAIN), Restart(0, "", EMPTY, 0, 7))[0]
    waits, _ = after(fresh, *[Tick()] * 20, Campaign(), got("a", TimeoutNow(0)))
    same(waits._replace(elapsed=0, since_leap=fresh.since_leap), fresh)
    learner, _ = after(fresh, got("a", Append(5, 0, 0, (*logged(5).entries, entry(WITH_D)), 2)))
    same((learner.voters, learner.learners, learner.commit), (ABC.voters, ("d",), 2))
    same(after(learner, *[Tick()] * 20, Campaign())[0].role, FOLLOWER)
    voter, _ = after(learner, got("b", RequestVote(6, 2, 5)))
    same(voter.vote, "b")


async def a_learner_confirms_no_read_and_keeps_no_leader(alone: Alone) -> None:
    led, _ = after(learning(), Read("r"))
    led, outputs = after(led, got("d", HeartbeatReply(5, led.round)))
    same([output for output in outputs if isinstance(output, ReadReady)], [])
    _, outputs = after(led, got("b", HeartbeatReply(5, led.round)))
    same([output for output in outputs if isinstance(output, ReadReady)], [ReadReady("r", 2)])
    careful, _ = after(learning()._replace(config=CAREFUL), *[Tick()] * 8)
    same(careful.role, FOLLOWER)
    led = learning()._replace(config=CAREFUL)
    for _ in range(12):
        led, _ = after(led, Tick(), got("d", HeartbeatReply(5, 0)))
    same(led.role, FOLLOWER)


async def a_change_is_refused(alone: Alone) -> None:
    settled = settled_leader()
    same(refused(server(), Change(LEARN, "d")), NOT_LEADER)
    same(refused(leader(), Change(LEARN, "d")), OWN_TERM_UNCOMMITTED)
    same(refused(after(settled, TransferTo("c"))[0], Change(LEARN, "d")), HANDING_OVER)
    same(refused(after(settled, Change(LEARN, "d"))[0], Change(REMOVE, "c")), CHANGE_UNDER_WAY)
    same(refused(settled, Change(LEARN, "b")), NO_CHANGE)
    same(refused(settled, Change(REMOVE, "d")), NO_CHANGE)
    same(refused(settled, Change(PROMOTE, "d")), NO_LEARNER)
    same(refused(settled, Change(PROMOTE, "b")), NO_CHANGE)
    same(refused(learning(), Change(LEARN, "d", "there:4")), NO_CHANGE)
    single, _ = after(server(voters=("a",)), Campaign(), Synced(1), Synced(2))
    same(refused(single, Change(REMOVE, "a")), LAST_VOTER)


async def a_name_that_left_comes_back_in_a_later_term(alone: Alone) -> None:
    led, _ = after(settled_leader(), Change(REMOVE, "c"), Synced(3), got("b", Appended(5, 2)), Tick())
    same((led.voters, led.left, refused(led, Change(LEARN, "c", "there:3"))), (("a", "b"), {"c"}, LEFT))
    same(after(led, Change(LEARN, "d"))[0].learners, ("d",))
    later, _ = after(led, got("b", Vote(6, False)), Campaign(), Synced(4), Synced(5), got("b", Vote(7, True)), Synced(6),
                     got("b", Appended(7, 3)))
    same((later.role, later.term, later.left), (LEADER, 7, frozenset()))
    same(after(later, Change(LEARN, "c", "there:3"))[0].learners, ("c",))
    learner, _ = after(learning(), Change(REMOVE, "d"), Synced(4), got("b", Appended(5, 3)), Tick(), Change(LEARN, "d"))
    same(learner.learners, ("d",))


async def a_server_that_joins_votes_once_it_has_an_entry(alone: Alone) -> None:
    fresh = core.step(core.server("d", (), PLAIN), Restart(0, "", EMPTY, 0, 7))[0]
    silent, outputs = after(fresh, got("b", RequestVote(6, 2, 5)), Synced(1))
    same((silent.term, silent.vote, sent(outputs)), (6, "", [("b", Vote(6, False))]))
    voter, _ = after(silent, got("a", Append(7, 0, 0, logged(7).entries, 0)), Synced(2), got("b", RequestVote(8, 1, 7)))
    same((voter.term, voter.vote), (8, "b"))


async def a_voter_that_lost_its_folder_elects_no_second_leader(alone: Alone) -> None:
    """The voter x votes for a, leaves, loses its folder and comes back. The candidate b has two votes of that term, and asks x
    late."""
    five = ("a", "b", "c", "d", "x")
    first, _ = after(server(voters=five), Campaign(), Synced(1), got("c", Vote(1, True)), got("x", Vote(1, True)), Synced(2),
                     got("c", Appended(1, 1)), got("d", Appended(1, 1)))
    left, _ = after(first, Change(REMOVE, "x"), Synced(3), got("c", Appended(1, 2)), got("d", Appended(1, 2)), Tick())
    same((left.role, left.commit, left.voters, refused(left, Change(LEARN, "x", "there:5"))), (LEADER, 2, five[:4], LEFT))
    second = core.step(core.server("b", five, PLAIN), Restart(0, "", EMPTY, 0, 7))[0]
    second, outputs = after(second, Campaign(), Synced(1), got("d", Vote(1, True)))
    same((second.role, second.granted), ("candidate", {"b", "d"}))
    fresh = core.step(core.server("x", (), PLAIN), Restart(0, "", EMPTY, 0, 7))[0]
    fresh, outputs = after(fresh, got("b", RequestVote(1, 0, 0)), Synced(1))
    for to, answer in sent(outputs):
        second, _ = after(second, got(fresh.me, answer))
        same(to, "b")
    same(second.role, "candidate")


async def a_learner_is_promoted_once_it_has_caught_up(alone: Alone) -> None:
    led, _ = after(settled_leader(), Change(LEARN, "d"), Synced(3), got("b", Appended(5, 2)))
    same(refused(led, Change(PROMOTE, "d")), NOT_CAUGHT_UP)
    behind = led._replace(log=Log(0, 0, (*led.log.entries, *logged(*[5] * 100).entries)))
    heard, _ = after(behind, got("d", Appended(5, 1)))
    same(refused(heard, Change(PROMOTE, "d")), NOT_CAUGHT_UP)
    heard, _ = after(behind, got("d", Appended(5, 2)))
    same(after(heard, Change(PROMOTE, "d"))[0].voters, ("a", "b", "c", "d"))


async def a_learner_that_is_not_heard_does_not_become_a_voter(alone: Alone) -> None:
    """It had caught up, and is down now: as a voter it would only be missed."""
    led = learning()._replace(config=CAREFUL)
    for _ in range(8):
        led, _ = after(led, Tick(), got("b", HeartbeatReply(5, 0)))
    same(refused(led, Change(PROMOTE, "d")), NOT_CAUGHT_UP)
    led, _ = after(led, got("d", HeartbeatReply(5, 0)), Change(PROMOTE, "d"))
    same(led.voters, ("a", "b", "c", "d"))


async def a_change_waits_among_the_entries_that_are_not_committed(alone: Alone) -> None:
    led, _ = after(settled_leader(), Change(LEARN, "d", "there:4"))
    same(led.uncommitted_bytes, len(members.encoded(WITH_D)))
    same([(one.name, one.match_index) for one in led.followers], [("b", 1), ("c", 0), ("d", 0)])
    same(learning().uncommitted_bytes, 0)


async def a_change_of_an_address_moves_a_member(alone: Alone) -> None:
    led, _ = after(learning(), Change(LEARN, "d", "elsewhere:4"))
    same(led.configurations[-1], Configuration(3, WITH_D._replace(addresses=(("d", "elsewhere:4"),))))
    led, _ = after(settled_leader(), Change(LEARN, "b", "elsewhere:2"))
    same(led.configurations[-1], Configuration(2, ABC._replace(addresses=(("b", "elsewhere:2"),))))


async def a_change_is_undone_where_the_log_is_cut(alone: Alone) -> None:
    follower, _ = after(server(term=5), got("b", Append(5, 0, 0, (*logged(5).entries, entry(Members(("a", "b")))), 0)))
    same(follower.voters, ("a", "b"))
    follower, _ = after(follower, got("c", Append(6, 1, 5, logged(6).entries, 0)))
    same((follower.voters, follower.configurations), (("a", "b", "c"), (Configuration(0, ABC),)))
    follower, _ = after(server(term=5), got("b", Append(5, 0, 0, (*logged(5).entries, entry(Members(("a", "b")))), 0)))
    later = (*logged(6).entries, entry(WITH_D, 6))
    follower, _ = after(follower, got("c", Append(6, 1, 5, later, 0)))
    same(follower.configurations, (Configuration(0, ABC), Configuration(3, WITH_D)))


async def a_change_is_in_force_after_a_restart(alone: Alone) -> None:
    log = Log(0, 0, (*logged(5).entries, entry(WITH_D), entry(Members(("a", "b")))))
    fresh = core.server("a", ABC.voters, PLAIN)
    again, _ = core.step(fresh, Restart(5, "", log, 0, 7))
    same([one.index for one in again.configurations], [0, 2, 3])
    same(again.voters, ("a", "b"))
    again, _ = core.step(fresh, Restart(5, "", log, 2, 7, WITH_D))
    same([one.index for one in again.configurations], [2, 3])
    again, _ = core.step(fresh, Restart(5, "", Log(3, 5), 3, 7, Members(("a", "b"))))
    same(again.configurations, (Configuration(3, Members(("a", "b"))),))


async def a_snapshot_carries_the_members(alone: Alone) -> None:
    fresh = core.step(core.server("d", (), PLAIN), Restart(0, "", EMPTY, 0, 7))[0]
    offered, _ = after(fresh, got("a", InstallSnapshot(5, 9, 5)), Synced(1), got("a", InstallSnapshot(5, 9, 5)))
    got_it, _ = after(offered, Installed(9, 5, WITH_D))
    same((got_it.voters, got_it.learners), (ABC.voters, ("d",)))
    undone, _ = after(server(term=5), got("b", Append(5, 0, 0, (*logged(5).entries, entry(Members(("a", "b")))), 0)), Synced(1))
    offer = got("c", InstallSnapshot(6, 3, 6))
    undone, _ = after(undone, offer, Synced(2), offer, Installed(3, 6))
    same((undone.configurations, undone.voters), ((Configuration(0, ABC),), ABC.voters))
    led = learning()
    short, _ = after(led, Compact(2, 2))
    same(short.configurations, (Configuration(2, WITH_D),))
    same(after(led, Compact(1, 1))[0].configurations, led.configurations)


async def a_log_that_begins_anew_keeps_no_change(alone: Alone) -> None:
    """The change stood behind the snapshot's last entry. The log had another entry there, so the change was never committed."""
    for at in (2, 3, 4):
        log = (*logged(*[5] * (at - 1)).entries, entry(Members(("a", "b"))))
        undone, _ = after(server(term=5), got("b", Append(5, 0, 0, log, 0)), Synced(1))
        same(undone.voters, ("a", "b"))
        offer = got("c", InstallSnapshot(6, 3, 6))
        undone, _ = after(undone, offer, Synced(2), offer, Installed(3, 6))
        same((undone.log, undone.configurations, undone.voters), (Log(3, 6), (Configuration(0, ABC),), ABC.voters))


async def who_is_removed_hears_that_it_is_committed_and_nothing_more(alone: Alone) -> None:
    led, outputs = after(settled_leader(), Change(REMOVE, "c"))
    led, _ = after(led, got("c", Appended(5, 2)))
    same((led.voters, led.commit, [follower.name for follower in led.followers]), (("a", "b"), 1, ["b", "c"]))
    led, _ = after(led, Synced(3))
    same(led.commit, 1)
    led, outputs = after(led, got("b", Appended(5, 2)))
    same([to for to, message in sent(outputs) if isinstance(message, Append) and message.commit == 2], ["b", "c"])
    led, _ = after(led, Tick())
    same([follower.name for follower in led.followers], ["b"])


async def a_leader_that_removes_itself_leads_until_that_is_committed(alone: Alone) -> None:
    led, _ = after(settled_leader(), Change(REMOVE, "a"), Synced(3), got("b", Appended(5, 2)), Tick())
    same((led.role, led.commit), (LEADER, 1))
    led, _ = after(led, got("c", Appended(5, 2)))
    same((led.role, led.commit), (LEADER, 2))
    same(refused(led, Change(LEARN, "a")), NOT_LEADER)
    left, _ = after(led, Tick())
    same(left.role, FOLLOWER)
    same(after(left, *[Tick()] * 20)[0].role, FOLLOWER)


async def who_may_be_removed_stands_and_does_not_count_itself(alone: Alone) -> None:
    """The change may be in its log alone, and then nobody else is elected."""
    log = Log(0, 0, (*logged(4).entries, entry(Members(("b",)), 4)))
    left, outputs = after(core.step(core.server("a", ("a", "b"), PLAIN), Restart(4, "", log, 0, 7))[0], Campaign(), Synced(1))
    same((left.role, [to for to, _ in sent(outputs)]), ("candidate", ["b"]))
    left, _ = after(left, got("b", Vote(5, True)), Synced(2), got("b", Appended(5, 3)), Tick())
    same((left.commit, left.role), (3, FOLLOWER))
    known, _ = after(core.step(core.server("a", ("a", "b"), PLAIN), Restart(4, "", log, 2, 7, Members(("b",))))[0], Campaign())
    same(known.role, FOLLOWER)


async def fewer_voters_commit_more(alone: Alone) -> None:
    pair, _ = after(server(voters=("a", "b")), Campaign(), Synced(1), got("b", Vote(1, True)), Synced(2))
    more, _ = after(pair, got("b", Appended(1, 1)), Propose((b"x",)), Synced(3))
    same(more.commit, 1)
    same(after(more, Change(REMOVE, "b"))[0].commit, 2)


async def fewer_voters_confirm_a_read(alone: Alone) -> None:
    """The server that is removed is down, and nobody else answers any more."""
    pair, _ = after(server(voters=("a", "b")), Campaign(), Synced(1), got("b", Vote(1, True)), Synced(2))
    waits, _ = after(pair, got("b", Appended(1, 1)), Read("r"))
    same([one.read for one in waits.reads], ["r"])
    alone_now, outputs = after(waits, Change(REMOVE, "b"))
    same(([output for output in outputs if isinstance(output, ReadReady)], alone_now.reads), ([ReadReady("r", 1)], ()))


async def a_new_leader_knows_a_change_that_it_found(alone: Alone) -> None:
    log = Log(0, 0, (*logged(4).entries, entry(Members(("a", "b", "c", "d")), 4)))
    led, _ = after(server(term=4, log=log, commit=0), Campaign(), Synced(1), got("b", Vote(5, True)))
    same(led.role, "candidate")
    led, _ = after(led, got("d", Vote(5, True)))
    same([follower.name for follower in led.followers], ["b", "c", "d"])
    shrunk = Log(0, 0, (*logged(4).entries, entry(Members(("a", "b")), 4)))
    led, _ = after(server(term=4, log=shrunk, commit=0), Campaign(), Synced(1), got("b", Vote(5, True)))
    same([follower.name for follower in led.followers], ["b", "c"])
    same(last_index(led.log), 3)


async def votes_of_those_who_do_not_count_elect_nobody(alone: Alone) -> None:
    log = Log(0, 0, (*logged(4).entries, entry(WITH_D, 4)))
    candidate, outputs = after(server(term=4, log=log), Campaign(), Synced(1))
    same([to for to, _ in sent(outputs)], ["b", "c"])
    candidate, _ = after(candidate, got("d", Vote(5, True)), got("d", Vote(5, False)))
    same(candidate.role, "candidate")
    same(after(candidate, got("b", Vote(5, True)))[0].role, LEADER)


SCRIPTS: tuple[Script, ...] = (
    members_are_written_and_read,
    a_learner_may_be_removed,
    a_server_joins_as_a_learner_and_counts_once_it_is_promoted,
    a_learner_takes_entries_and_does_not_stand_for_election,
    a_learner_confirms_no_read_and_keeps_no_leader,
    a_change_is_refused,
    a_name_that_left_comes_back_in_a_later_term,
    a_server_that_joins_votes_once_it_has_an_entry,
    a_voter_that_lost_its_folder_elects_no_second_leader,
    a_learner_is_promoted_once_it_has_caught_up,
    a_learner_that_is_not_heard_does_not_become_a_voter,
    a_change_waits_among_the_entries_that_are_not_committed,
    a_change_of_an_address_moves_a_member,
    a_change_is_undone_where_the_log_is_cut,
    a_change_is_in_force_after_a_restart,
    a_snapshot_carries_the_members,
    a_log_that_begins_anew_keeps_no_change,
    who_is_removed_hears_that_it_is_committed_and_nothing_more,
    a_leader_that_removes_itself_leads_until_that_is_committed,
    who_may_be_removed_stands_and_does_not_count_itself,
    fewer_voters_commit_more,
    fewer_voters_confirm_a_read,
    a_new_leader_knows_a_change_that_it_found,
    votes_of_those_who_do_not_count_elect_nobody,
)
