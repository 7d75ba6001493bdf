"""The rules of Raft, one after the other, on pure servers; and what breaks without those that a random walk seldom needs."""

import pytest

from highwater.impl.raft import core, effects, elections, following, replication, state, terms
from highwater.impl.raft.entries import COMMAND, NOOP, Entry, Log, entry_at, term_at
from highwater.impl.raft.following import Contradiction
from highwater.impl.raft.messages import (
    Append,
    Appended,
    Conflict,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    PreVote,
    PreVoteReply,
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
    LEADER,
    NO_VOTER,
    NOT_LEADER,
    PRE_CANDIDATE,
    PROBE,
    QUEUE_FULL,
    REPLICATE,
    SNAPSHOT,
    TOO_LARGE,
    Accepted,
    Campaign,
    Compact,
    Config,
    FetchFailed,
    FetchSnapshot,
    Installed,
    Lead,
    Propose,
    Read,
    ReadReady,
    ReadRefused,
    Received,
    Refused,
    Restart,
    Restore,
    Save,
    Send,
    State,
    StepDown,
    Synced,
    Tick,
    TransferTo,
)
from tests.impl.raft.cluster import Broken, Cluster

PLAIN = Config(election_ticks=4, pre_vote=False, check_quorum=False)
CAREFUL = Config(election_ticks=4)
ABC = ("a", "b", "c")
EMPTY = Log()


def server(config: Config = PLAIN, term: int = 0, vote: str = "", log: Log = EMPTY, commit: int = 0, voters=ABC) -> State:
    return core.step(core.server("a", voters, config), Restart(term, vote, log, commit, 7))[0]


def logged(*terms_: int, base: tuple[int, int] = (0, 0)) -> Log:
    return Log(*base, tuple(Entry(term, COMMAND, b"x") for term in terms_))


def after(server: State, *inputs) -> tuple[State, tuple]:
    """Return the state after some inputs, and what the last one put out."""
    outputs = ()
    for given in inputs:
        server, outputs = core.step(server, given)
    return server, outputs


def got(sender: str, message) -> Received:
    return Received(sender, message)


def sent(outputs: tuple) -> list:
    return [(output.to, output.message) for output in outputs if isinstance(output, Send)]


def leader(config: Config = PLAIN, log: Log = EMPTY, commit: int = 0) -> State:
    """Return a leader of term 5 whose log ends with its own entry, durably."""
    led, _ = after(server(config, 4, "", log, commit), Campaign(), got("b", PreVoteReply(5, True)), Synced(1),
                   got("b", Vote(5, True)), Synced(2))
    assert led.role == LEADER and led.term == 5
    return led


# --- elections


def test_an_election_begins_between_one_and_two_timeouts_and_later_ones_differ():
    timeouts = set()
    for seed in range(40):
        fresh, _ = core.step(core.server("a", ABC, PLAIN), Restart(0, "", Log(), 0, seed))
        ticks = 0
        while fresh.role == FOLLOWER:
            fresh, _ = core.step(fresh, Tick())
            ticks += 1
        timeouts.add(ticks)
    assert timeouts == {4, 5, 6, 7}


def test_a_candidate_asks_for_votes_once_its_own_is_durable():
    candidate, outputs = after(server(term=4, log=logged(2, 3)), Campaign())
    assert outputs == (Save(1, 5, "a", 3, ()),) and candidate.role == CANDIDATE
    _, outputs = after(candidate, Synced(1))
    assert sent(outputs) == [("b", RequestVote(5, 2, 3)), ("c", RequestVote(5, 2, 3))]


def test_a_candidate_counts_itself_only_when_durable():
    alone, _ = after(server(voters=("a",)), Campaign())
    assert alone.role == CANDIDATE
    assert after(alone, Synced(1))[0].role == LEADER
    candidate, _ = after(server(), Campaign(), got("b", Vote(1, True)))
    assert candidate.role == CANDIDATE and after(candidate, Synced(1))[0].role == LEADER


def test_a_vote_is_answered_once_it_is_durable():
    voter, outputs = after(server(term=4), got("b", RequestVote(5, 0, 0)))
    assert outputs == (Save(1, 5, "b", 1, ()),)
    assert sent(after(voter, Synced(1))[1]) == [("b", Vote(5, True))]


def test_a_server_votes_once_a_term():
    voter, _ = after(server(), got("b", RequestVote(5, 0, 0)), Synced(1))
    assert sent(after(voter, got("c", RequestVote(5, 9, 5)))[1]) == [("c", Vote(5, False))]
    assert sent(after(voter, got("b", RequestVote(5, 0, 0)))[1]) == [("b", Vote(5, True))]
    assert after(voter, got("c", RequestVote(6, 9, 5)))[0].vote == "c"


@pytest.mark.parametrize("index, term, granted", [(2, 3, True), (1, 4, True), (3, 3, True), (1, 3, False), (9, 2, False)])
def test_a_vote_needs_a_log_that_is_up_to_date(index, term, granted):
    voter, _ = after(server(term=4, log=logged(1, 3)), got("b", RequestVote(5, index, term)))
    assert sent(after(voter, Synced(1))[1]) == [("b", Vote(5, granted))]


def test_a_leader_opens_its_term_with_an_entry():
    led, outputs = after(server(term=4, log=logged(2)), Campaign(), Synced(1), got("c", Vote(5, True)))
    assert led.log.entries[-1] == Entry(5, NOOP, b"") and Lead(5) in outputs
    assert outputs[0] == Save(2, 5, "a", 2, (Entry(5, NOOP, b""),))
    assert sent(outputs) == [(name, Append(5, 1, 2, (Entry(5, NOOP, b""),), 0)) for name in "bc"]


def test_refusals_of_a_quorum_end_a_candidacy():
    candidate, _ = after(server(), Campaign(), Synced(1), got("b", Vote(1, False)), got("c", Vote(1, False)))
    assert candidate.role == FOLLOWER


def test_votes_of_another_term_do_not_count():
    candidate, _ = after(server(term=4), Campaign(), Synced(1), got("b", Vote(4, True)))
    assert candidate.role == CANDIDATE


def test_pre_vote_takes_no_term():
    asking, outputs = after(server(CAREFUL, 4, log=logged(2)), Campaign())
    assert (asking.role, asking.term) == (PRE_CANDIDATE, 4)
    assert sent(outputs) == [(name, PreVote(5, 1, 2)) for name in "bc"]
    candidate, _ = after(asking, got("b", PreVoteReply(5, True)))
    assert (candidate.role, candidate.term) == (CANDIDATE, 5)
    assert after(asking, got("b", PreVoteReply(4, False)), got("c", PreVoteReply(4, False)))[0].role == FOLLOWER
    assert after(asking, got("b", PreVoteReply(9, False)))[0].term == 9


def test_a_pre_vote_promises_nothing():
    asked, outputs = after(server(CAREFUL, 4, log=logged(2)), got("b", PreVote(5, 1, 2)), )
    assert sent(outputs) == [("b", PreVoteReply(5, True))] and (asked.term, asked.vote) == (4, "")
    assert sent(after(asked, got("c", PreVote(5, 1, 2)))[1]) == [("c", PreVoteReply(5, True))]
    assert sent(after(asked, got("c", PreVote(5, 0, 0)))[1]) == [("c", PreVoteReply(4, False))]


def test_who_hears_of_a_leader_ignores_candidates_unless_the_leader_sent_them():
    following_b, _ = after(server(CAREFUL, 5), got("b", Heartbeat(5, 0, 0)))
    for message in (PreVote(6, 9, 5), RequestVote(6, 9, 5)):
        ignored, outputs = after(following_b, got("c", message))
        assert (ignored, outputs) == (following_b, ())
        assert after(following_b, *[Tick()] * 4, got("c", message))[1]
    assert after(following_b, got("c", RequestVote(6, 9, 5, True)))[0].vote == "c"


def test_a_leader_that_hears_of_no_quorum_steps_down():
    led = leader(CAREFUL)
    led, _ = after(led, *[Tick()] * 4)
    assert led.role == LEADER
    left, outputs = after(led, *[Tick()] * 4)
    assert left.role == FOLLOWER and StepDown(5) in outputs
    kept, _ = after(led, *[Tick()] * 3, got("c", HeartbeatReply(5, 0)), Tick())
    assert kept.role == LEADER


def test_a_leader_with_a_stalled_disk_steps_down_and_does_not_campaign():
    led, _ = after(leader(), Propose((b"x",)), *[Tick()] * 3)
    assert led.role == LEADER
    left, outputs = after(led, Tick())
    assert left.role == FOLLOWER and StepDown(5) in outputs
    assert after(left, *[Tick()] * 20)[0].role == FOLLOWER
    assert after(left, Campaign())[0].role == FOLLOWER
    assert after(left, Synced(3), Campaign())[0].role == CANDIDATE


@pytest.mark.parametrize("message", [Append(6, 0, 0, (), 0), Heartbeat(6, 0, 0), Vote(6, False), HeartbeatReply(6, 0),
                                     RequestVote(6, 0, 0), PreVoteReply(6, False), Appended(6, 1), Conflict(6, 1, 0, 0)])
def test_a_later_term_makes_a_follower(message):
    follower, outputs = after(leader(), got("b", message))
    assert (follower.role, follower.term) == (FOLLOWER, 6) and StepDown(5) in outputs
    assert follower.vote in ("", "b") and not follower.followers


@pytest.mark.parametrize("message", [Append(4, 0, 0, (), 0), Heartbeat(4, 0, 0), RequestVote(4, 0, 0), PreVote(4, 0, 0),
                                     InstallSnapshot(4, 1, 1)])
def test_who_is_behind_is_told_the_term(message):
    same, outputs = after(server(term=5), got("b", message))
    assert sent(outputs) == [("b", Vote(5, False))] and same.term == 5 and not same.leader


@pytest.mark.parametrize("message", [Appended(4, 9), Conflict(4, 9, 0, 0), HeartbeatReply(4, 9), Vote(4, True), TimeoutNow(4)])
def test_answers_to_an_earlier_term_change_nothing(message):
    led = leader()
    assert after(led, got("b", message)) == (led, ())


def test_strangers_and_oneself_are_not_heard():
    fresh = server()
    for sender in ("x", "a"):
        assert after(fresh, got(sender, RequestVote(9, 9, 9))) == (fresh, ())


def test_two_leaders_of_a_term_are_a_contradiction():
    with pytest.raises(Contradiction, match="a and b both lead term 5"):
        after(leader(), got("b", Heartbeat(5, 0, 0)))


# --- replication: the follower


def test_entries_are_acknowledged_once_they_are_durable():
    follower, outputs = after(server(term=5), got("b", Append(5, 0, 0, logged(5, 5).entries, 1)))
    assert outputs == (Save(1, 5, "", 1, logged(5, 5).entries),) and follower.commit == 1
    assert sent(after(follower, Synced(1))[1]) == [("b", Appended(5, 2))]


def test_an_append_that_comes_twice_is_acknowledged_once_the_first_is_durable():
    append = got("b", Append(5, 0, 0, logged(5).entries, 0))
    follower, outputs = after(server(term=5), append, append)
    assert outputs == ()
    assert sent(after(follower, Synced(1))[1]) == [("b", Appended(5, 1))] * 2


def test_a_late_append_cuts_nothing():
    full = server(term=5, log=logged(5, 5, 5))
    same, outputs = after(full, got("b", Append(5, 0, 0, logged(5).entries, 0)))
    assert same.log == full.log and sent(outputs) == [("b", Appended(5, 1))]


def test_entries_of_another_term_are_replaced():
    follower, outputs = after(server(term=5, log=logged(1, 2, 2)), got("b", Append(5, 1, 1, logged(5).entries, 0)))
    assert follower.log == logged(1, 5) and outputs[0] == Save(1, 5, "", 2, logged(5).entries)
    assert follower.durable.index == 1


def test_a_missing_entry_is_refused_with_the_place_where_logs_may_agree():
    for log, prev, hint in ((logged(1, 1), (5, 4), (2, 1)), (logged(1, 1, 3, 3), (4, 2), (2, 1)), (logged(), (3, 2), (0, 0)),
                            (logged(4, 4, base=(6, 3)), (8, 3), (6, 3))):
        _, outputs = after(server(term=5, log=log, commit=log.base_index), got("b", Append(5, *prev, (), 0)))
        assert sent(outputs) == [("b", Conflict(5, prev[0], *hint))]


@pytest.mark.parametrize("append", [Append(5, 1, 1, logged(5).entries, 0), Append(5, 2, 5, (), 0)])
def test_a_committed_entry_is_never_replaced(append):
    with pytest.raises(Contradiction, match="a: entry 2 is committed, and b, which leads term 5, has another one"):
        after(server(term=5, log=logged(1, 1), commit=2), got("b", append))


def test_an_append_before_the_logs_beginning_tells_the_leader_what_is_committed():
    _, outputs = after(server(term=5, log=logged(1, base=(4, 1)), commit=5), got("b", Append(5, 2, 1, logged(1).entries, 0)))
    assert sent(outputs) == [("b", Appended(5, 5))]


def test_a_follower_commits_no_more_than_it_has():
    follower, _ = after(server(term=5, log=logged(1, 2, 2)), got("b", Append(5, 1, 1, (), 3)))
    assert follower.commit == 1
    assert after(server(term=5, log=logged(5)), got("b", Heartbeat(5, 3, 0)))[0].commit == 1


def test_an_answer_waits_until_the_term_is_durable():
    follower, outputs = after(server(term=4), got("b", Heartbeat(5, 0, 3)))
    assert sent(outputs) == []
    assert sent(after(follower, Synced(1))[1]) == [("b", HeartbeatReply(5, 3))]


def test_what_waits_for_an_earlier_term_is_dropped():
    voter, _ = after(server(), got("b", RequestVote(5, 0, 0)), got("c", Heartbeat(6, 0, 0)))
    assert sent(after(voter, Synced(1))[1]) == [] and sent(after(voter, Synced(2))[1]) == [("c", HeartbeatReply(6, 0))]


def test_a_save_does_not_count_for_entries_that_replaced_its_own():
    """Entry 1 of term 4 is written, then replaced; until that is durable, neither counts."""
    follower, _ = after(server(term=4), got("b", Append(4, 0, 0, logged(4).entries, 0)),
                        got("c", Append(5, 0, 0, logged(5).entries, 0)), Synced(1))
    assert follower.durable.index == 0
    assert after(follower, Synced(2))[0].durable.index == 1


def test_a_sync_that_was_heard_of_changes_nothing():
    follower, _ = after(server(term=5), got("b", Append(5, 0, 0, logged(5).entries, 0)), Synced(1))
    assert after(follower, Synced(1)) == (follower, ())


# --- replication: the leader


def test_a_leader_does_not_wait_for_its_own_disk_but_counts_it_only_then():
    led, outputs = after(leader(), got("b", Appended(5, 1)), Propose((b"x",)))
    assert ("b", Append(5, 1, 5, (Entry(5, COMMAND, b"x"),), 1)) in sent(outputs)
    assert outputs[0] == Save(3, 5, "a", 2, (Entry(5, COMMAND, b"x"),)) and Accepted(5, 2) in outputs
    assert led.commit == 1
    assert after(led, Synced(3))[0].commit == 1
    assert after(led, got("b", Appended(5, 2)))[0].commit == 1
    assert after(led, got("b", Appended(5, 2)), got("c", Appended(5, 2)))[0].commit == 2
    assert after(led, got("b", Appended(5, 2)), Synced(3))[0].commit == 2


def test_followers_hear_of_a_commit_at_once():
    _, outputs = after(leader(), got("b", Appended(5, 1)))
    assert ("b", Append(5, 1, 5, (), 1)) in sent(outputs)


def test_an_entry_of_an_earlier_term_is_committed_by_one_of_the_own():
    led = leader(log=logged(2, 2))
    assert after(led, got("b", Appended(5, 2)))[0].commit == 0
    assert after(led, got("b", Appended(5, 3)))[0].commit == 3


def progress(led: State, name: str = "b"):
    return replication.progress_of(led, name)


def test_a_window_bounds_what_is_under_way():
    led, _ = after(leader(PLAIN._replace(max_inflight=2)), got("b", Appended(5, 1)))
    for _ in range(2):
        led, outputs = after(led, Propose((b"x",)))
        assert any(to == "b" for to, _ in sent(outputs))
    led, outputs = after(led, Propose((b"x",)), Propose((b"x",)))
    assert not [to for to, _ in sent(outputs) if to == "b"] and progress(led).inflight == (2, 3)
    led, outputs = after(led, got("b", Appended(5, 2)))
    assert sent(outputs) == [("b", Append(5, 3, 5, led.log.entries[3:], 1))]


def test_a_size_bounds_one_append():
    led, _ = after(leader(PLAIN._replace(max_append_bytes=4)), got("b", Appended(5, 1)))
    _, outputs = after(led, Propose((b"xx", b"xx", b"x", b"xxxxxx", b"x")))
    assert [len(message.entries) for to, message in sent(outputs) if to == "b"] == [2, 1, 1, 1]


def test_a_lost_append_is_found_by_a_heartbeat_and_sent_again():
    led, _ = after(leader(), got("b", Appended(5, 1)), Propose((b"x",)))  # and it gets lost
    led, outputs = after(led, got("b", HeartbeatReply(5, 0)))
    assert sent(outputs) == [("b", Append(5, 2, 5, (), 1))]
    led, outputs = after(led, got("b", Conflict(5, 2, 1, 5)))
    assert sent(outputs) == [("b", Append(5, 1, 5, (Entry(5, COMMAND, b"x"),), 1))] and progress(led).mode == PROBE
    assert progress(after(led, got("b", Appended(5, 2)))[0]).mode == REPLICATE


def test_a_full_window_whose_answers_are_lost_opens_again():
    led, _ = after(leader(PLAIN._replace(max_inflight=1)), got("b", Appended(5, 1)), Propose((b"x",)), Propose((b"y",)))
    _, outputs = after(led, got("b", HeartbeatReply(5, 0)))
    assert [to for to, _ in sent(outputs)] == ["b"]


def test_a_leader_goes_back_a_term_at_a_time():
    led = leader(log=logged(1, 1, 3, 3, 3, 3, 3))
    led, outputs = after(led, got("b", Conflict(5, 7, 7, 2)))
    assert [message.prev_index for _, message in sent(outputs)] == [2]
    assert after(led, got("b", Conflict(5, 7, 7, 2)))[1] == ()  # it came before


def test_late_answers_change_nothing():
    led, _ = after(leader(log=logged(1, 1)), got("b", Appended(5, 3)))
    for message in (Appended(5, 1), Conflict(5, 2, 1, 1)):
        same, outputs = after(led, got("b", message))
        assert outputs == () and progress(same) == progress(led)


def test_proposals_are_taken_or_refused_as_a_whole():
    small = PLAIN._replace(max_entry_bytes=4, max_uncommitted_bytes=6)
    led = leader(small)
    assert after(led, Propose((b"x", b"xxxxx")))[1] == (Refused(TOO_LARGE, "a"),)
    led, outputs = after(led, Propose((b"xxxx",)))
    assert Accepted(5, 2) in outputs
    assert after(led, Propose((b"xxx",)))[1] == (Refused(QUEUE_FULL, "a"),)
    led, _ = after(led, got("b", Appended(5, 2)), Synced(3))
    assert led.uncommitted_bytes == 0 and Accepted(5, 3) in after(led, Propose((b"xxx", b"xxx")))[1]
    assert after(server(), Propose((b"x",)))[1] == (Refused(NOT_LEADER),)
    assert after(server(term=5), got("b", Heartbeat(5, 0, 0)), Propose((b"x",)))[1] == (Refused(NOT_LEADER, "b"),)


def test_a_new_leader_counts_the_uncommitted_bytes_it_found():
    assert leader(log=logged(1, 2, 2), commit=1).uncommitted_bytes == 2


# --- reads


def test_a_read_waits_for_a_round_that_began_after_it():
    led, _ = after(leader(), got("b", Appended(5, 1)), got("b", HeartbeatReply(5, 0)))
    led, outputs = after(led, Read("r"))
    assert [(to, message.round) for to, message in sent(outputs)] == [("b", 1), ("c", 1)]
    assert ReadReady("r", 1) not in after(led, got("b", HeartbeatReply(5, 0)))[1]
    assert ReadReady("r", 1) in after(led, got("b", HeartbeatReply(5, 1)))[1]
    assert not after(led, got("b", HeartbeatReply(5, 1)))[0].reads


def test_a_new_leaders_read_waits_for_an_entry_of_its_term():
    led, outputs = after(leader(log=logged(2), commit=1), Read("r"))
    assert outputs == ()
    led, outputs = after(led, got("b", Appended(5, 2)))
    assert [message for _, message in sent(outputs) if isinstance(message, Heartbeat)] == [Heartbeat(5, 2, 1),
                                                                                           Heartbeat(5, 0, 1)]
    assert ReadReady("r", 2) in after(led, got("b", HeartbeatReply(5, 1)))[1]


def test_a_leader_that_steps_down_answers_no_read():
    led, _ = after(leader(), got("b", Appended(5, 1)), Read("r"), got("c", ReadIndex(5, "s")))
    left, outputs = after(led, got("b", Heartbeat(6, 0, 0)))
    assert ReadRefused("r", "b") in outputs and not left.reads
    assert ("c", ReadIndexReply(5, "s", -1)) in sent(outputs)


def test_a_follower_asks_the_leader():
    follower, outputs = after(server(term=5), got("b", Heartbeat(5, 0, 0)), Read("r"))
    assert sent(outputs) == [("b", ReadIndex(5, "r"))]
    assert after(follower, got("b", ReadIndexReply(5, "r", 7)))[1] == (ReadReady("r", 7),)
    assert after(follower, got("b", ReadIndexReply(5, "r", -1)))[1] == (ReadRefused("r", "b"),)
    assert after(server(), Read("r"))[1] == (ReadRefused("r"),)
    assert sent(after(follower, got("c", ReadIndex(5, "s")))[1]) == [("c", ReadIndexReply(5, "s", -1))]


def test_a_leader_answers_a_followers_read():
    led, _ = after(leader(), got("b", Appended(5, 1)), got("c", ReadIndex(5, "r")))
    assert ("c", ReadIndexReply(5, "r", 1)) in sent(after(led, got("b", HeartbeatReply(5, 1)))[1])


def test_a_server_that_is_behind_is_answered_and_learns_the_term():
    assert sent(after(server(term=5), got("c", ReadIndex(4, "r")))[1]) == [("c", ReadIndexReply(5, "r", -1))]
    led, _ = after(leader(), got("b", Appended(5, 1)), got("c", ReadIndex(4, "r")))
    assert ("c", ReadIndexReply(5, "r", 1)) in sent(after(led, got("b", HeartbeatReply(5, 1)))[1])
    behind, outputs = after(server(term=4), got("b", ReadIndexReply(5, "r", 1)))
    assert behind.term == 5 and ReadReady("r", 1) in outputs


def test_a_single_server_reads_at_once():
    alone, _ = after(server(voters=("a",)), Campaign(), Synced(1), Synced(2))
    assert after(alone, Read("r"))[1] == (ReadReady("r", 1),)


def test_a_heartbeat_tells_no_commit_that_the_follower_may_lack():
    _, outputs = after(leader(), got("b", Appended(5, 1)), Tick())
    assert sent(outputs) == [("b", Heartbeat(5, 1, 0)), ("c", Heartbeat(5, 0, 0))]


# --- transfer


def test_a_transfer_waits_until_the_target_has_all():
    led, outputs = after(leader(), TransferTo("b"))
    assert outputs == ()
    assert after(led, Propose((b"x",)))[1] == (Refused(HANDING_OVER, "a"),)
    led, outputs = after(led, got("b", Appended(5, 1)))
    assert ("b", TimeoutNow(5)) in sent(outputs)
    assert ("b", TimeoutNow(5)) not in sent(after(led, got("b", Appended(5, 1)))[1])
    assert after(led, TransferTo("b")) == (led, ())
    assert after(led, *[Tick()] * 4)[0].transfer is None


def test_a_transfer_is_refused():
    assert after(leader(), TransferTo("x"))[1] == (Refused(NO_VOTER, "a"),)
    assert after(server(), TransferTo("b"))[1] == (Refused(NOT_LEADER),)
    assert after(leader(), TransferTo("b"), TransferTo("a"))[0].transfer is None


def test_the_target_campaigns_at_once():
    target, _ = after(server(CAREFUL, 5), got("b", Heartbeat(5, 0, 0)), got("b", TimeoutNow(5)))
    assert (target.role, target.term) == (CANDIDATE, 6)
    assert sent(after(target, Synced(1))[1]) == [(name, RequestVote(6, 0, 0, True)) for name in "bc"]


# --- snapshots


def test_compaction_keeps_a_tail_and_never_goes_back():
    whole = server(term=5, log=logged(1, 2, 3, 4), commit=3)
    cut, outputs = after(whole, Compact(3, 2))
    assert outputs == () and cut.log == logged(3, 4, base=(2, 2)) and cut.snapshot == (3, 3)
    assert after(cut, Compact(2, 1))[0] == cut
    assert term_at(cut.log, 2) == 2 and term_at(cut.log, 1) is None and entry_at(cut.log, 3).term == 3


def test_who_lacks_compacted_entries_is_offered_a_snapshot():
    led = leader(log=logged(1, 1, 1, 1), commit=4)
    led, _ = after(led, Compact(4, 3), got("b", Conflict(5, 4, 1, 1)))
    assert progress(led).mode == SNAPSHOT
    led, outputs = after(led, got("b", HeartbeatReply(5, 0)))
    assert sent(outputs) == [("b", InstallSnapshot(5, 4, 1))]
    led, outputs = after(led, got("b", Appended(5, 4)))
    assert progress(led).mode == REPLICATE and sent(outputs) == [("b", Append(5, 4, 1, led.log.entries[-1:], 4))]


def test_an_offered_snapshot_is_fetched_once_and_installed():
    offer = got("b", InstallSnapshot(5, 7, 3))
    follower, outputs = after(server(term=5, log=logged(1, 2)), offer)
    assert outputs == (FetchSnapshot("b", 7, 3),) and after(follower, offer)[1] == ()
    assert after(follower, FetchFailed(), offer)[1] == (FetchSnapshot("b", 7, 3),)
    follower, outputs = after(follower, Installed(7, 3))
    assert outputs == (Save(1, 5, "", 8, (), (7, 3)), Restore(7)) and follower.log == Log(7, 3) and follower.commit == 7
    assert sent(after(follower, Synced(1))[1]) == [("b", Appended(5, 7))] and follower.snapshot == (7, 3)


def test_a_log_that_has_the_snapshots_last_entry_stays():
    follower, outputs = after(server(term=5, log=logged(1, 2, 3)), got("b", InstallSnapshot(5, 2, 2)), Installed(2, 2))
    assert follower.log == logged(1, 2, 3) and follower.commit == 2 and not any(isinstance(o, Save) for o in outputs)


def test_an_older_snapshot_is_not_installed():
    follower = server(term=5, log=logged(1, 2, 3), commit=3)
    assert sent(after(follower, got("b", InstallSnapshot(5, 2, 2)))[1]) == [("b", Appended(5, 3))]
    same, outputs = after(follower, Installed(2, 2))
    assert (same, outputs) == (follower, ())


def test_a_leader_learns_from_a_snapshot_what_is_committed_and_keeps_its_log():
    """It fetched the snapshot as a follower. Then it may be compacted as at any server."""
    led = leader(log=logged(1, 1))
    knows, outputs = after(led, Installed(2, 1))
    assert outputs == (Restore(2),) and (knows.commit, knows.snapshot, knows.log) == (2, (2, 1), led.log)
    assert led.uncommitted_bytes - knows.uncommitted_bytes == 2
    assert after(knows, Compact(2, 1))[0].log.base_index == 1


def test_a_leader_that_lacks_an_entry_of_a_snapshot_stops():
    with pytest.raises(Contradiction, match="entry 2 of term 4, which is committed"):
        after(leader(log=logged(1, 1)), Installed(2, 4))


def test_a_candidate_that_lacks_what_a_snapshot_has_is_none_any_more():
    candidate, _ = after(server(term=5, log=logged(1)), got("b", InstallSnapshot(5, 3, 2)), Campaign())
    assert candidate.role == CANDIDATE
    follower, outputs = after(candidate, Installed(3, 2))
    assert (follower.role, follower.term, follower.vote, follower.log) == (FOLLOWER, 6, "a", Log(3, 2))
    assert outputs == (Save(2, 6, "a", 4, (), (3, 2)), Restore(3))


def test_a_snapshot_is_fetched_once_its_leaders_term_is_durable():
    """Otherwise a restart could find it beside an earlier term, whose leader may have other entries there."""
    offer = got("b", InstallSnapshot(5, 3, 2))
    follower, outputs = after(server(term=3, log=logged(1, 3)), offer)
    assert outputs == (Save(1, 5, "", 3, ()),) and follower.fetching is None
    assert after(follower, Synced(1), offer)[1] == (FetchSnapshot("b", 3, 2),)


def test_a_restart_needs_a_log_that_goes_on_from_the_snapshot():
    with pytest.raises(ValueError, match="does not go on from the snapshot up to 2"):
        server(log=logged(5, base=(4, 4)), commit=2)


def test_settings_and_names_are_checked():
    for config in (Config(election_ticks=1), Config(heartbeat_ticks=0), Config(max_inflight=0)):
        with pytest.raises(ValueError):
            core.server("a", ABC, config)
    for voters in (("b",), ("a", "a")):
        with pytest.raises(ValueError, match="must be one of the voters"):
            core.server("a", voters)


def test_every_input_and_message_has_a_rule():
    assert set(core.INPUTS) == set(state.Input.__args__)
    assert set(core.MESSAGES) == set(core.Message.__args__)


# --- safeguards that a random walk seldom needs


def figure_8() -> Cluster:
    """Tell the paper's figure 8, up to where e leads, and replaces an entry that three servers of five had."""
    five = Cluster(5, 1, PLAIN._replace(max_append_bytes=3))
    five.elect("a", 1, "b", "c", "d", "e")
    five.sync("a")
    five.give("a", Tick())
    five.exchange(*"abcde")
    five.give("a", Propose((b"long1", b"long2")))
    five.exchange("a", "b")
    five.crash("a")
    five.elect("e", 2, "c", "d")
    five.sync("e")
    five.crash("e")
    five.elect("a", 3, "b", "c")
    five.give("a", Tick())
    five.exchange("a", "b")
    five.give("a", Tick())
    five.exchange("a", "c", until=lambda: replication.progress_of(five.servers["a"].state, "c").match_index == 2)
    five.elect("e", 4, "c", "d")
    return five


def test_figure_8_an_entry_of_an_earlier_term_may_be_replaced(monkeypatch):
    five = figure_8()
    assert max(five.committed) == 1 and five.servers["a"].state.log.entries[1].body == b"long1"
    five.give("e", Tick())
    five.exchange("e", "c", "d")
    assert five.committed[2][0].term == 2
    monkeypatch.setattr(replication, "may_commit", lambda state, index: True)
    with pytest.raises(Broken, match="R3: e leads term 4 without the committed entry 2"):
        figure_8()


def forgetful_voter() -> Cluster:
    """Let b vote for a, crash, and be asked by c in the same term."""
    three = Cluster(3, 1, PLAIN)
    three.random.randint = lambda low, high: low  # a crash keeps nothing
    three.random.random = lambda: 1.0
    three.give("a", Campaign())
    three.sync("a")
    three.exchange("a", "b", syncs=False)
    three.crash("b")
    three.elect("c", 1, "b")
    return three


def test_a_vote_that_is_not_durable_is_given_twice(monkeypatch):
    assert forgetful_voter().leaders == {1: "c"}
    monkeypatch.setattr(elections, "send_when_durable", effects.send)
    with pytest.raises(Broken, match="R1: c and a lead term 1"):
        forgetful_voter()


def test_a_save_that_counts_for_other_entries_is_acknowledged_too_early(monkeypatch):
    """Switch the safeguard off under `test_a_save_does_not_count_for_entries_that_replaced_its_own`."""
    monkeypatch.setattr(effects, "capped", lambda state, index: state)
    with pytest.raises(AssertionError):
        test_a_save_does_not_count_for_entries_that_replaced_its_own()


def test_an_older_snapshot_that_is_installed_moves_the_server_back(monkeypatch):
    def backwards(server, index, last_term):
        return effects.begin_anew(server._replace(commit=index), index, last_term)

    monkeypatch.setattr(following, "installed", backwards)
    with pytest.raises(AssertionError):
        test_an_older_snapshot_is_not_installed()


def test_a_majority_is_more_than_half():
    assert [terms.majority(server(voters=tuple("abcdefg"[:size]))) for size in range(1, 8)] == [1, 2, 2, 3, 3, 4, 4]
