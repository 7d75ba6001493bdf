"""Scripts of leaders of impl/raft: replication, reads, transfer, and snapshots."""

from highwater.dst.script import Alone, Script, check, same
from highwater.dst.scripts.replicated.servers import CAREFUL, PLAIN, after, got, leader, logged, progress, sent, server
from highwater.impl.raft.entries import COMMAND, Log, entry_at, made, term_at
from highwater.impl.raft.messages import (
    Append,
    Appended,
    Conflict,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    ReadIndex,
    ReadIndexReply,
    RequestVote,
    TimeoutNow,
    Vote,
)
from highwater.impl.raft.state import (
    CANDIDATE,
    FOLLOWER,
    HANDING_OVER,
    NO_VOTER,
    NOT_LEADER,
    PROBE,
    QUEUE_FULL,
    REPLICATE,
    SNAPSHOT,
    TOO_LARGE,
    Accepted,
    Campaign,
    Compact,
    FetchFailed,
    FetchSnapshot,
    Installed,
    Propose,
    Read,
    ReadReady,
    ReadRefused,
    Refused,
    Restore,
    Save,
    Synced,
    Tick,
    TransferTo,
)


async def a_leader_does_not_wait_for_its_own_disk_but_counts_it_only_then(alone: Alone) -> None:
    led, outputs = after(leader(), got("b", Appended(5, 1)), Propose((b"x",)))
    check(
        ("b", Append(5, 1, 5, (made(5, COMMAND, b"x"),), 1)) in sent(outputs),
        "a leader does not wait for its own disk but counts it only then",
    )
    same(outputs[0], Save(3, 5, "a", 2, (made(5, COMMAND, b"x"),)))
    check(Accepted(5, 2) in outputs, "a leader does not wait for its own disk but counts it only then")
    same(led.commit, 1)
    same(after(led, Synced(3))[0].commit, 1)
    same(after(led, got("b", Appended(5, 2)))[0].commit, 1)
    same(after(led, got("b", Appended(5, 2)), got("c", Appended(5, 2)))[0].commit, 2)
    same(after(led, got("b", Appended(5, 2)), Synced(3))[0].commit, 2)


async def followers_hear_of_a_commit_at_once(alone: Alone) -> None:
    _, outputs = after(leader(), got("b", Appended(5, 1)))
    check(("b", Append(5, 1, 5, (), 1)) in sent(outputs), "followers hear of a commit at once")


async def an_entry_of_an_earlier_term_is_committed_by_one_of_the_own(alone: Alone) -> None:
    led = leader(log=logged(2, 2))
    same(after(led, got("b", Appended(5, 2)))[0].commit, 0)
    same(after(led, got("b", Appended(5, 3)))[0].commit, 3)


async def a_window_bounds_what_is_under_way(alone: Alone) -> None:
    led, _ = after(leader(PLAIN._replace(max_inflight=2)), got("b", Appended(5, 1)))
    for _ in range(2):
        led, outputs = after(led, Propose((b"x",)))
        check(any((to == "b" for to, _ in sent(outputs))), "a window bounds what is under way")
    led, outputs = after(led, Propose((b"x",)), Propose((b"x",)))
    check(not [to for to, _ in sent(outputs) if to == "b"], "a window bounds what is under way")
    same(progress(led).inflight, (2, 3))
    led, outputs = after(led, got("b", Appended(5, 2)))
    same(sent(outputs), [("b", Append(5, 3, 5, led.log.entries[3:], 1))])


async def a_size_bounds_one_append(alone: Alone) -> None:
    led, _ = after(leader(PLAIN._replace(max_append_bytes=4)), got("b", Appended(5, 1)))
    _, outputs = after(led, Propose((b"xx", b"xx", b"x", b"xxxxxx", b"x")))
    same([len(message.entries) for to, message in sent(outputs) if to == "b"], [2, 1, 1, 1])


async def a_lost_append_is_found_by_a_heartbeat_and_sent_again(alone: Alone) -> None:
    led, _ = after(leader(), got("b", Appended(5, 1)), Propose((b"x",)))
    led, outputs = after(led, got("b", HeartbeatReply(5, 0)))
    same(sent(outputs), [("b", Append(5, 2, 5, (), 1))])
    led, outputs = after(led, got("b", Conflict(5, 2, 1, 5)))
    same(sent(outputs), [("b", Append(5, 1, 5, (made(5, COMMAND, b"x"),), 1))])
    same(progress(led).mode, PROBE)
    same(progress(after(led, got("b", Appended(5, 2)))[0]).mode, REPLICATE)


async def a_full_window_whose_answers_are_lost_opens_again(alone: Alone) -> None:
    led, _ = after(leader(PLAIN._replace(max_inflight=1)), got("b", Appended(5, 1)), Propose((b"x",)), Propose((b"y",)))
    _, outputs = after(led, got("b", HeartbeatReply(5, 0)))
    same([to for to, _ in sent(outputs)], ["b"])
    led, _ = after(leader(PLAIN._replace(max_inflight=2)), got("b", Appended(5, 1)), Propose((b"x",)))
    same(progress(after(led, got("b", HeartbeatReply(5, 0)))[0]).inflight, (2,))  # it is not full


async def a_refusal_ends_what_is_under_way(alone: Alone) -> None:
    """All that the window holds was behind the missing entry, and is refused, too."""
    led, _ = after(leader(PLAIN._replace(max_inflight=2)), got("b", Appended(5, 1)), *[Propose((b"x",))] * 3)
    led, outputs = after(led, got("b", Conflict(5, 2, 1, 5)))
    same(sent(outputs), [("b", Append(5, 1, 5, led.log.entries[1:], 1))])
    same((progress(led).inflight, progress(led).paused), ((), True))


async def a_leader_goes_back_a_term_at_a_time(alone: Alone) -> None:
    led = leader(log=logged(1, 1, 3, 3, 3, 3, 3))
    led, outputs = after(led, got("b", Conflict(5, 7, 7, 2)))
    same([message.prev_index for _, message in sent(outputs)], [2])
    same(after(led, got("b", Conflict(5, 7, 7, 2)))[1], ())


async def a_refusal_acknowledges_nothing(alone: Alone) -> None:
    """The follower names a place where the logs may agree. It may have another entry there, or not have it on its disk."""
    led, _ = after(leader(log=logged(1, 1, 3, 3, 3, 3, 3)), got("b", Conflict(5, 7, 7, 2)))
    same((progress(led).match_index, progress(led).next_index), (0, 3))
    _, outputs = after(led, got("c", Appended(5, 8)), Tick())
    same(sent(outputs), [("b", Heartbeat(5, 0, 0)), ("c", Heartbeat(5, 8, 0))])


async def late_answers_change_nothing(alone: Alone) -> None:
    led, _ = after(leader(log=logged(1, 1)), got("b", Appended(5, 3)))
    for message in (Appended(5, 1), Conflict(5, 2, 1, 1)):
        later, outputs = after(led, got("b", message))
        same(outputs, ())
        same(progress(later), progress(led))


async def proposals_are_taken_or_refused_as_a_whole(alone: Alone) -> None:
    small = PLAIN._replace(max_entry_bytes=4, max_uncommitted_bytes=6)
    led = leader(small)
    same(after(led, Propose((b"x", b"xxxxx")))[1], (Refused(TOO_LARGE, "a"),))
    led, outputs = after(led, Propose((b"xxxx",)))
    check(Accepted(5, 2) in outputs, "proposals are taken or refused as a whole")
    same(after(led, Propose((b"xxx",)))[1], (Refused(QUEUE_FULL, "a"),))
    led, _ = after(led, got("b", Appended(5, 2)), Synced(3))
    same(led.uncommitted_bytes, 0)
    check(Accepted(5, 3) in after(led, Propose((b"xxxx", b"xxxx")))[1], "one proposal is taken when nothing else waits")
    check(Accepted(5, 3) in after(led, Propose((b"xxx", b"xxx")))[1], "proposals are taken or refused as a whole")
    same(after(server(), Propose((b"x",)))[1], (Refused(NOT_LEADER),))
    same(after(server(term=5), got("b", Heartbeat(5, 0, 0)), Propose((b"x",)))[1], (Refused(NOT_LEADER, "b"),))


async def a_new_leader_tells_no_commit_before_it_knows_the_logs(alone: Alone) -> None:
    """A follower may have entries of an earlier leader in the place of those that the new one knows to be committed."""
    led, _ = after(leader(log=logged(1, 1), commit=2), Tick())
    same([(one.match_index, one.next_index) for one in led.followers], [(0, 3), (0, 3)])
    same(sent(after(led, Tick())[1]), [("b", Heartbeat(5, 0, 0)), ("c", Heartbeat(5, 0, 0))])


async def a_new_leader_counts_the_uncommitted_bytes_it_found(alone: Alone) -> None:
    same(leader(log=logged(1, 2, 2), commit=1).uncommitted_bytes, 2)


async def a_read_waits_for_a_round_that_began_after_it(alone: Alone) -> None:
    led, _ = after(leader(), got("b", Appended(5, 1)), got("b", HeartbeatReply(5, 0)))
    led, outputs = after(led, Read("r"))
    same([(to, message.round) for to, message in sent(outputs)], [("b", 1), ("c", 1)])
    check(
        ReadReady("r", 1) not in after(led, got("b", HeartbeatReply(5, 0)))[1], "a read waits for a round that began after it"
    )
    check(ReadReady("r", 1) in after(led, got("b", HeartbeatReply(5, 1)))[1], "a read waits for a round that began after it")
    check(not after(led, got("b", HeartbeatReply(5, 1)))[0].reads, "a read waits for a round that began after it")


async def a_new_leaders_read_waits_for_an_entry_of_its_term(alone: Alone) -> None:
    led, outputs = after(leader(log=logged(2), commit=1), Read("r"))
    same(outputs, ())
    led, outputs = after(led, got("b", Appended(5, 2)))
    same([message for _, message in sent(outputs) if isinstance(message, Heartbeat)], [Heartbeat(5, 2, 1), Heartbeat(5, 0, 1)])
    check(
        ReadReady("r", 2) in after(led, got("b", HeartbeatReply(5, 1)))[1], "a new leaders read waits for an entry of its term"
    )


async def a_leader_that_steps_down_answers_no_read(alone: Alone) -> None:
    led, _ = after(leader(), got("b", Appended(5, 1)), Read("r"), got("c", ReadIndex(5, "s")))
    left, outputs = after(led, got("b", Heartbeat(6, 0, 0)))
    check(ReadRefused("r", "b") in outputs, "a leader that steps down answers no read")
    check(not left.reads, "a leader that steps down answers no read")
    check(("c", ReadIndexReply(5, "s", -1)) in sent(outputs), "a leader that steps down answers no read")


async def a_leader_that_hears_of_no_quorum_refuses_its_reads(alone: Alone) -> None:
    """It steps down without another leader, and who reads need not wait until it asks again."""
    led, _ = after(leader(CAREFUL), got("b", Appended(5, 1)), Read("r"), got("c", ReadIndex(5, "s")))
    left, outputs = after(led, *[Tick()] * 8)
    same((left.role, left.term, left.reads), (FOLLOWER, 5, ()))
    check(ReadRefused("r") in outputs, "a leader that hears of no quorum refuses its reads")
    check(("c", ReadIndexReply(5, "s", -1)) in sent(outputs), "the server that asked hears of it")


async def an_answer_that_is_late_takes_no_round_back(alone: Alone) -> None:
    five, _ = after(server(voters=("a", "b", "c", "d", "e")), Campaign(), Synced(1), got("b", Vote(1, True)),
                    got("c", Vote(1, True)), Synced(2), got("b", Appended(1, 1)), got("c", Appended(1, 1)))
    waits, _ = after(five, Read("r"), Read("s"), got("b", HeartbeatReply(1, 2)), got("b", HeartbeatReply(1, 1)))
    same([one.read for one in waits.reads], ["r", "s"])
    read, outputs = after(waits, got("c", HeartbeatReply(1, 2)))
    same([output for output in outputs if isinstance(output, ReadReady)], [ReadReady("r", 1), ReadReady("s", 1)])
    same(read.reads, ())


async def a_follower_asks_the_leader(alone: Alone) -> None:
    follower, outputs = after(server(term=5), got("b", Heartbeat(5, 0, 0)), Read("r"))
    same(sent(outputs), [("b", ReadIndex(5, "r"))])
    same(after(follower, got("b", ReadIndexReply(5, "r", 7)))[1], (ReadReady("r", 7),))
    same(after(follower, got("b", ReadIndexReply(5, "r", -1)))[1], (ReadRefused("r", "b"),))
    same(after(server(), Read("r"))[1], (ReadRefused("r"),))
    same(sent(after(follower, got("c", ReadIndex(5, "s")))[1]), [("c", ReadIndexReply(5, "s", -1))])


async def a_leader_answers_a_followers_read(alone: Alone) -> None:
    led, _ = after(leader(), got("b", Appended(5, 1)), got("c", ReadIndex(5, "r")))
    check(
        ("c", ReadIndexReply(5, "r", 1)) in sent(after(led, got("b", HeartbeatReply(5, 1)))[1]),
        "a leader answers a followers read",
    )


async def a_server_that_is_behind_is_answered_and_learns_the_term(alone: Alone) -> None:
    same(sent(after(server(term=5), got("c", ReadIndex(4, "r")))[1]), [("c", ReadIndexReply(5, "r", -1))])
    led, _ = after(leader(), got("b", Appended(5, 1)), got("c", ReadIndex(4, "r")))
    check(
        ("c", ReadIndexReply(5, "r", 1)) in sent(after(led, got("b", HeartbeatReply(5, 1)))[1]),
        "a server that is behind is answered and learns the term",
    )
    behind, outputs = after(server(term=4), got("b", ReadIndexReply(5, "r", 1)))
    same(behind.term, 5)
    check(ReadReady("r", 1) in outputs, "a server that is behind is answered and learns the term")


async def a_single_server_reads_at_once(alone: Alone) -> None:
    single, _ = after(server(voters=("a",)), Campaign(), Synced(1), Synced(2))
    same(after(single, Read("r"))[1], (ReadReady("r", 1),))
    early, outputs = after(server(voters=("a",)), Campaign(), Synced(1), Read("r"))
    same(outputs, ())
    same(after(early, Synced(2))[1], (ReadReady("r", 1),))


async def a_heartbeat_tells_no_commit_that_the_follower_may_lack(alone: Alone) -> None:
    _, outputs = after(leader(), got("b", Appended(5, 1)), Tick())
    same(sent(outputs), [("b", Heartbeat(5, 1, 0)), ("c", Heartbeat(5, 0, 0))])


async def a_transfer_waits_until_the_target_has_all(alone: Alone) -> None:
    led, outputs = after(leader(), TransferTo("b"))
    same(outputs, ())
    same(after(led, Propose((b"x",)))[1], (Refused(HANDING_OVER, "a"),))
    led, outputs = after(led, got("b", Appended(5, 1)))
    check(("b", TimeoutNow(5)) in sent(outputs), "a transfer waits until the target has all")
    check(
        ("b", TimeoutNow(5)) not in sent(after(led, got("b", Appended(5, 1)))[1]), "a transfer waits until the target has all"
    )
    same(after(led, TransferTo("b")), (led, ()))
    check(after(led, *[Tick()] * 4)[0].transfer is None, "a transfer waits until the target has all")


async def a_transfer_is_refused(alone: Alone) -> None:
    same(after(leader(), TransferTo("x"))[1], (Refused(NO_VOTER, "a"),))
    same(after(server(), TransferTo("b"))[1], (Refused(NOT_LEADER),))
    check(after(leader(), TransferTo("b"), TransferTo("a"))[0].transfer is None, "a transfer is refused")


async def the_target_campaigns_at_once(alone: Alone) -> None:
    target, _ = after(server(CAREFUL, 5), got("b", Heartbeat(5, 0, 0)), got("b", TimeoutNow(5)))
    same((target.role, target.term), (CANDIDATE, 6))
    same(sent(after(target, Synced(1))[1]), [(name, RequestVote(6, 0, 0, True)) for name in "bc"])


async def compaction_keeps_a_tail_and_never_goes_back(alone: Alone) -> None:
    whole = server(term=5, log=logged(1, 2, 3, 4), commit=3)
    cut, outputs = after(whole, Compact(3, 2))
    same(outputs, ())
    same(cut.log, logged(3, 4, base=(2, 2)))
    same(cut.snapshot, (3, 3))
    same(after(cut, Compact(2, 1))[0], cut)
    same(term_at(cut.log, 2), 2)
    check(term_at(cut.log, 1) is None, "compaction keeps a tail and never goes back")
    same(entry_at(cut.log, 3).term, 3)


async def who_lacks_compacted_entries_is_offered_a_snapshot(alone: Alone) -> None:
    led = leader(log=logged(1, 1, 1, 1), commit=4)
    led, _ = after(led, Compact(4, 3), got("b", Conflict(5, 4, 1, 1)))
    same(progress(led).mode, SNAPSHOT)
    led, outputs = after(led, got("b", HeartbeatReply(5, 0)))
    same(sent(outputs), [("b", InstallSnapshot(5, 4, 1))])
    same(progress(after(led, got("b", Appended(5, led.log.base_index)))[0]).mode, REPLICATE)  # all that it lacks is there
    led, outputs = after(led, got("b", Appended(5, 4)))
    same(progress(led).mode, REPLICATE)
    same(sent(outputs), [("b", Append(5, 4, 1, led.log.entries[-1:], 4))])


async def a_snapshot_is_offered_with_the_term_of_its_last_entry(alone: Alone) -> None:
    """The node that has it serves it under this name alone. The log may begin before it, with entries of an earlier term."""
    led = leader(log=logged(2, 3, base=(4, 1)), commit=6)
    same(led.snapshot, (6, 3))
    _, outputs = after(led, got("b", Conflict(5, 6, 2, 1)))
    same(sent(outputs), [("b", InstallSnapshot(5, 6, 3))])


async def an_offered_snapshot_is_fetched_once_and_installed(alone: Alone) -> None:
    offer = got("b", InstallSnapshot(5, 7, 3))
    follower, outputs = after(server(term=5, log=logged(1, 2)), offer)
    same(outputs, (FetchSnapshot("b", 7, 3),))
    same(after(follower, offer)[1], ())
    same(after(follower, FetchFailed(), offer)[1], (FetchSnapshot("b", 7, 3),))
    follower, outputs = after(follower, Installed(7, 3))
    same(outputs, (Save(1, 5, "", 8, (), (7, 3)), Restore(7)))
    same(follower.log, Log(7, 3))
    same(follower.commit, 7)
    same(sent(after(follower, Synced(1))[1]), [("b", Appended(5, 7))])
    same(follower.snapshot, (7, 3))


async def a_log_that_has_the_snapshots_last_entry_stays(alone: Alone) -> None:
    follower, outputs = after(server(term=5, log=logged(1, 2, 3)), got("b", InstallSnapshot(5, 2, 2)), Installed(2, 2))
    same(follower.log, logged(1, 2, 3))
    same(follower.commit, 2)
    check(not any(isinstance(o, Save) for o in outputs), "a log that has the snapshots last entry stays")


async def a_long_log_does_not_decline_a_snapshot(alone: Alone) -> None:
    """Its entries there may be an earlier leader's, and its leader has no more of those that it needs."""
    offer = got("b", InstallSnapshot(5, 3, 3))
    same(after(server(term=5, log=logged(1, 2, 2, 2, 2)), offer)[1], (FetchSnapshot("b", 3, 3),))
    same(sent(after(server(term=5, log=logged(1, 2, 3, 3), commit=3), offer)[1]), [("b", Appended(5, 3))])


async def an_installed_snapshot_acknowledges_no_entry_behind_it(alone: Alone) -> None:
    """The log stays, since it has the snapshot's last entry. What follows there may be an earlier leader's."""
    _, outputs = after(server(term=5, log=logged(1, 2, 3)), got("b", InstallSnapshot(5, 2, 2)), Installed(2, 2))
    same(sent(outputs), [("b", Appended(5, 2))])


async def an_older_snapshot_is_not_installed(alone: Alone) -> None:
    follower = server(term=5, log=logged(1, 2, 3), commit=3)
    same(sent(after(follower, got("b", InstallSnapshot(5, 2, 2)))[1]), [("b", Appended(5, 3))])
    kept, outputs = after(follower, Installed(2, 2))
    same((kept, outputs), (follower, ()))


async def a_leader_learns_from_a_snapshot_what_is_committed_and_keeps_its_log(alone: Alone) -> None:
    """It fetched the snapshot as a follower. Then it may be compacted as at any server."""
    led = leader(log=logged(1, 1))
    knows, outputs = after(led, Installed(2, 1))
    same(outputs, (Restore(2),))
    same((knows.commit, knows.snapshot, knows.log), (2, (2, 1), led.log))
    same(led.uncommitted_bytes - knows.uncommitted_bytes, 2)
    same(after(knows, Compact(2, 1))[0].log.base_index, 1)


async def a_candidate_that_lacks_what_a_snapshot_has_is_none_any_more(alone: Alone) -> None:
    candidate, _ = after(server(term=5, log=logged(1)), got("b", InstallSnapshot(5, 3, 2)), Campaign())
    same(candidate.role, CANDIDATE)
    follower, outputs = after(candidate, Installed(3, 2))
    same((follower.role, follower.term, follower.vote, follower.log), (FOLLOWER, 6, "a", Log(3, 2)))
    same(outputs, (Save(2, 6, "a", 4, (), (3, 2)), Restore(3)))


async def a_snapshot_is_fetched_once_its_leaders_term_is_durable(alone: Alone) -> None:
    """Otherwise a restart could find it beside an earlier term, whose leader may have other entries there."""
    offer = got("b", InstallSnapshot(5, 3, 2))
    follower, outputs = after(server(term=3, log=logged(1, 3)), offer)
    same(outputs, (Save(1, 5, "", 3, ()),))
    check(follower.fetching is None, "a snapshot is fetched once its leaders term is durable")
    same(after(follower, Synced(1), offer)[1], (FetchSnapshot("b", 3, 2),))


SCRIPTS: tuple[Script, ...] = (
    a_leader_does_not_wait_for_its_own_disk_but_counts_it_only_then,
    followers_hear_of_a_commit_at_once,
    an_entry_of_an_earlier_term_is_committed_by_one_of_the_own,
    a_window_bounds_what_is_under_way,
    a_size_bounds_one_append,
    a_lost_append_is_found_by_a_heartbeat_and_sent_again,
    a_full_window_whose_answers_are_lost_opens_again,
    a_refusal_ends_what_is_under_way,
    a_leader_goes_back_a_term_at_a_time,
    a_refusal_acknowledges_nothing,
    late_answers_change_nothing,
    proposals_are_taken_or_refused_as_a_whole,
    a_new_leader_tells_no_commit_before_it_knows_the_logs,
    a_new_leader_counts_the_uncommitted_bytes_it_found,
    a_read_waits_for_a_round_that_began_after_it,
    a_new_leaders_read_waits_for_an_entry_of_its_term,
    a_leader_that_steps_down_answers_no_read,
    a_leader_that_hears_of_no_quorum_refuses_its_reads,
    an_answer_that_is_late_takes_no_round_back,
    a_follower_asks_the_leader,
    a_leader_answers_a_followers_read,
    a_server_that_is_behind_is_answered_and_learns_the_term,
    a_single_server_reads_at_once,
    a_heartbeat_tells_no_commit_that_the_follower_may_lack,
    a_transfer_waits_until_the_target_has_all,
    a_transfer_is_refused,
    the_target_campaigns_at_once,
    compaction_keeps_a_tail_and_never_goes_back,
    who_lacks_compacted_entries_is_offered_a_snapshot,
    a_snapshot_is_offered_with_the_term_of_its_last_entry,
    an_offered_snapshot_is_fetched_once_and_installed,
    a_log_that_has_the_snapshots_last_entry_stays,
    a_long_log_does_not_decline_a_snapshot,
    an_installed_snapshot_acknowledges_no_entry_behind_it,
    an_older_snapshot_is_not_installed,
    a_leader_learns_from_a_snapshot_what_is_committed_and_keeps_its_log,
    a_candidate_that_lacks_what_a_snapshot_has_is_none_any_more,
    a_snapshot_is_fetched_once_its_leaders_term_is_durable,
)
