"""Scripts of servers of impl/raft: elections, and what a follower does."""

from highwater.dst.script import Alone, Script, check, same
from highwater.dst.scripts.replicated.servers import ABC, CAREFUL, EMPTY, PLAIN, after, got, leader, logged, sent, server
from highwater.impl.raft import core
from highwater.impl.raft.entries import NOOP, Entry, made
from highwater.impl.raft.messages import (
    Append,
    Appended,
    Conflict,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    PreVote,
    PreVoteReply,
    RequestVote,
    TimeoutNow,
    Vote,
)
from highwater.impl.raft.state import (
    CANDIDATE,
    FOLLOWER,
    LEADER,
    PRE_CANDIDATE,
    Campaign,
    FarAhead,
    Lead,
    Propose,
    Restart,
    Save,
    StepDown,
    Synced,
    Tick,
)
from highwater.impl.raft.terms import FAR


async def an_election_begins_between_one_and_two_timeouts_and_later_ones_differ(alone: Alone) -> None:
    timeouts = set()
    for seed in range(40):
        fresh, _ = core.step(core.server("a", ABC, PLAIN), Restart(0, "", EMPTY, 0, seed))
        ticks = 0
        while fresh.role == FOLLOWER:
            fresh, _ = core.step(fresh, Tick())
            ticks += 1
        timeouts.add(ticks)
    same(timeouts, {4, 5, 6, 7})


async def a_candidate_asks_for_votes_once_its_own_is_durable(alone: Alone) -> None:
    candidate, outputs = after(server(term=4, log=logged(2, 3)), Campaign())
    same(outputs, (Save(1, 5, "a", 3, ()),))
    same(candidate.role, CANDIDATE)
    _, outputs = after(candidate, Synced(1))
    same(sent(outputs), [("b", RequestVote(5, 2, 3)), ("c", RequestVote(5, 2, 3))])


async def a_candidate_counts_itself_only_when_durable(alone: Alone) -> None:
    single, _ = after(server(voters=("a",)), Campaign())
    same(single.role, CANDIDATE)
    same(after(single, Synced(1))[0].role, LEADER)
    candidate, _ = after(server(), Campaign(), got("b", Vote(1, True)))
    same(candidate.role, CANDIDATE)
    same(after(candidate, Synced(1))[0].role, LEADER)


async def a_vote_is_answered_once_it_is_durable(alone: Alone) -> None:
    voter, outputs = after(server(term=4), got("b", RequestVote(5, 0, 0)))
    same(outputs, (Save(1, 5, "b", 1, ()),))
    same(sent(after(voter, Synced(1))[1]), [("b", Vote(5, True))])
    voter, outputs = after(server(term=5), got("b", RequestVote(5, 0, 0)))  # the term is durable, and the vote is not
    same(outputs, (Save(1, 5, "b", 1, ()),))
    same(sent(after(voter, got("b", RequestVote(5, 0, 0)))[1]), [])
    same(sent(after(voter, Synced(1))[1]), [("b", Vote(5, True))])


async def only_a_leader_and_a_vote_put_off_an_election(alone: Alone) -> None:
    """A candidate that cannot be elected may ask again and again. Whoever can be elected stands all the same."""
    for config in (PLAIN, CAREFUL):
        waits, _ = after(server(config, 4, log=logged(2, 3)), Tick())
        for asks in (RequestVote(4, 1, 2), PreVote(5, 1, 2), PreVote(5, 2, 3)):
            same(after(waits, got("b", asks))[0].elapsed, 1)
        same(after(waits, got("b", RequestVote(4, 2, 3)))[0].elapsed, 0)


async def a_server_votes_once_a_term(alone: Alone) -> None:
    voter, _ = after(server(), got("b", RequestVote(5, 0, 0)), Synced(1))
    same(sent(after(voter, got("c", RequestVote(5, 9, 5)))[1]), [("c", Vote(5, False))])
    same(sent(after(voter, got("b", RequestVote(5, 0, 0)))[1]), [("b", Vote(5, True))])
    same(after(voter, got("c", RequestVote(6, 9, 5)))[0].vote, "c")


async def a_leader_opens_its_term_with_an_entry(alone: Alone) -> None:
    led, outputs = after(server(term=4, log=logged(2)), Campaign(), Synced(1), got("c", Vote(5, True)))
    same(led.log.entries[-1], made(5, NOOP, b""))
    check(Lead(5) in outputs, "a leader opens its term with an entry")
    same(outputs[0], Save(2, 5, "a", 2, (made(5, NOOP, b""),)))
    same(sent(outputs), [(name, Append(5, 1, 2, (made(5, NOOP, b""),), 0)) for name in "bc"])


async def refusals_of_a_quorum_end_a_candidacy(alone: Alone) -> None:
    candidate, _ = after(server(), Campaign(), Synced(1), got("b", Vote(1, False)), got("c", Vote(1, False)))
    same(candidate.role, FOLLOWER)


async def votes_of_another_term_do_not_count(alone: Alone) -> None:
    candidate, _ = after(server(term=4), Campaign(), Synced(1), got("b", Vote(4, True)))
    same(candidate.role, CANDIDATE)


async def pre_vote_takes_no_term(alone: Alone) -> None:
    asking, outputs = after(server(CAREFUL, 4, log=logged(2)), Campaign())
    same((asking.role, asking.term), (PRE_CANDIDATE, 4))
    same(sent(outputs), [(name, PreVote(5, 1, 2)) for name in "bc"])
    candidate, _ = after(asking, got("b", PreVoteReply(5, True)))
    same((candidate.role, candidate.term), (CANDIDATE, 5))
    same(sent(after(candidate, Synced(1))[1]), [(name, RequestVote(5, 1, 2, False)) for name in "bc"])
    same(after(asking, got("b", PreVoteReply(4, False)), got("c", PreVoteReply(4, False)))[0].role, FOLLOWER)
    same(after(asking, got("b", PreVoteReply(9, False)))[0].term, 9)
    same(after(asking, got("b", PreVoteReply(4, True)))[0], asking)  # it asked in an earlier term


async def a_pre_vote_promises_nothing(alone: Alone) -> None:
    asked, outputs = after(server(CAREFUL, 4, log=logged(2)), got("b", PreVote(5, 1, 2)))
    same(sent(outputs), [("b", PreVoteReply(5, True))])
    same((asked.term, asked.vote), (4, ""))
    same(sent(after(asked, got("c", PreVote(5, 1, 2)))[1]), [("c", PreVoteReply(5, True))])
    same(sent(after(asked, got("c", PreVote(5, 0, 0)))[1]), [("c", PreVoteReply(4, False))])


async def who_hears_of_a_leader_in_time_stands_in_no_election(alone: Alone) -> None:
    offered = (Heartbeat(5, 0, 0), Append(5, 0, 0, (), 0), InstallSnapshot(5, 1, 5))
    for message in offered:
        following_b, _ = after(server(CAREFUL, 5), got("b", message), *[Tick(), Tick(), Tick(), got("b", message)] * 4)
        same((following_b.role, following_b.leader, following_b.elapsed), (FOLLOWER, "b", 0))


async def who_hears_of_a_leader_ignores_candidates_unless_the_leader_sent_them(alone: Alone) -> None:
    following_b, _ = after(server(CAREFUL, 5), got("b", Heartbeat(5, 0, 0)))
    for message in (PreVote(6, 9, 5), RequestVote(6, 9, 5)):
        ignored, outputs = after(following_b, got("c", message))
        same((ignored, outputs), (following_b, ()))
        check(
            after(following_b, *[Tick()] * 4, got("c", message))[1],
            "who hears of a leader ignores candidates unless the leader sent them",
        )
    same(after(following_b, got("c", RequestVote(6, 9, 5, True)))[0].vote, "c")


async def a_leader_that_hears_of_no_quorum_steps_down(alone: Alone) -> None:
    led = leader(CAREFUL)
    led, _ = after(led, *[Tick()] * 4)
    same(led.role, LEADER)
    left, outputs = after(led, *[Tick()] * 4)
    same(left.role, FOLLOWER)
    check(StepDown(5) in outputs, "a leader that hears of no quorum steps down")
    kept, _ = after(led, *[Tick()] * 3, got("c", HeartbeatReply(5, 0)), Tick())
    same(kept.role, LEADER)


async def a_leader_with_a_stalled_disk_steps_down_and_does_not_campaign(alone: Alone) -> None:
    led, _ = after(leader(), Propose((b"x",)), *[Tick()] * 3)
    same(led.role, LEADER)
    left, outputs = after(led, Tick())
    same(left.role, FOLLOWER)
    check(StepDown(5) in outputs, "a leader with a stalled disk steps down and does not campaign")
    same(after(left, *[Tick()] * 20)[0].role, FOLLOWER)
    same(after(left, Campaign())[0].role, FOLLOWER)
    same(after(left, Synced(3), Campaign())[0].role, CANDIDATE)


async def a_stalled_disk_is_told_from_a_busy_one(alone: Alone) -> None:
    """Each tick has a proposal. If nothing becomes durable the leader steps down. If a save does, it leads on, though there is
    always another one that is not durable yet."""
    stalled, busy = leader(), leader()
    for tick in range(8):
        stalled, _ = after(stalled, Propose((b"x",)), Tick())
        busy, _ = after(busy, Propose((b"x",)), Synced(2 + tick), Tick())
        same((stalled.role, busy.role, busy.unsynced != ()), (LEADER if tick < 3 else FOLLOWER, LEADER, True))


async def oneself_is_not_heard_and_strangers_do_not_count(alone: Alone) -> None:
    fresh = server()
    same(after(fresh, got("a", RequestVote(9, 9, 9))), (fresh, ()))
    candidate, _ = after(server(), Campaign(), Synced(1), got("x", Vote(1, True)))
    same(candidate.role, CANDIDATE)
    led = leader()
    for stranger in (Appended(5, 1), HeartbeatReply(5, 0), Conflict(5, 0, 0, 0)):
        same(after(led, got("x", stranger)), (led, ()))


async def who_is_behind_in_terms_is_told_whatever_it_asks(alone: Alone) -> None:
    """A server of an earlier term may have the longest log. Only once it knows the term it is elected, and perhaps nobody else
    can be. Late answers are not answered: otherwise two servers would answer each other for ever."""
    for asks in (PreVote(4, 9, 3), RequestVote(4, 9, 3), Append(4, 0, 0, (), 0), Heartbeat(4, 0, 0), InstallSnapshot(4, 9, 3)):
        same(sent(after(server(CAREFUL, 5), got("b", asks))[1]), [("b", Vote(5, False))])
    for answers in (PreVoteReply(4, False), Vote(4, True), Appended(4, 1), Conflict(4, 1, 0, 0), HeartbeatReply(4, 1),
                    TimeoutNow(4)):
        same(after(server(CAREFUL, 5), got("b", answers))[1], ())
        same(after(leader(), got("b", answers)), (leader(), ()))
    longest, _ = after(server(CAREFUL, 3, log=logged(2, 3)), Campaign(), got("b", Vote(5, False)), Synced(1), Campaign())
    same((longest.role, longest.term), (PRE_CANDIDATE, 5))


async def a_stranger_may_be_voted_for(alone: Alone) -> None:
    """It may be a member by a change that this server has not heard of."""
    voter, _ = after(server(), got("x", RequestVote(9, 9, 9)))
    same((voter.term, voter.vote), (9, "x"))


async def entries_are_acknowledged_once_they_are_durable(alone: Alone) -> None:
    follower, outputs = after(server(term=5), got("b", Append(5, 0, 0, logged(5, 5).entries, 1)))
    same(outputs, (Save(1, 5, "", 1, logged(5, 5).entries),))
    same(follower.commit, 1)
    same(sent(after(follower, Synced(1))[1]), [("b", Appended(5, 2))])


async def an_append_that_comes_twice_is_acknowledged_once_the_first_is_durable(alone: Alone) -> None:
    append = got("b", Append(5, 0, 0, logged(5).entries, 0))
    follower, outputs = after(server(term=5), append, append)
    same(outputs, ())
    same(sent(after(follower, Synced(1))[1]), [("b", Appended(5, 1))] * 2)


async def a_late_append_cuts_nothing(alone: Alone) -> None:
    full = server(term=5, log=logged(5, 5, 5))
    whole, outputs = after(full, got("b", Append(5, 0, 0, logged(5).entries, 0)))
    same(whole.log, full.log)
    same(sent(outputs), [("b", Appended(5, 1))])


async def entries_of_another_term_are_replaced(alone: Alone) -> None:
    follower, outputs = after(server(term=5, log=logged(1, 2, 2)), got("b", Append(5, 1, 1, logged(5).entries, 0)))
    same(follower.log, logged(1, 5))
    same(outputs[0], Save(1, 5, "", 2, logged(5).entries))
    same(follower.durable.index, 1)


async def a_missing_entry_is_refused_with_the_place_where_logs_may_agree(alone: Alone) -> None:
    for log, prev, hint in (
        (logged(1, 1), (5, 4), (2, 1)),
        (logged(1, 1, 3, 3), (4, 2), (2, 1)),
        (logged(), (3, 2), (0, 0)),
        (logged(4, 4, base=(6, 3)), (8, 3), (6, 3)),
    ):
        _, outputs = after(server(term=5, log=log, commit=log.base_index), got("b", Append(5, *prev, (), 0)))
        same(sent(outputs), [("b", Conflict(5, prev[0], *hint))])


async def an_append_before_the_logs_beginning_tells_the_leader_what_is_committed(alone: Alone) -> None:
    _, outputs = after(server(term=5, log=logged(1, base=(4, 1)), commit=5), got("b", Append(5, 2, 1, logged(1).entries, 0)))
    same(sent(outputs), [("b", Appended(5, 5))])


async def an_append_from_before_the_logs_beginning_acknowledges_no_entry_of_an_earlier_leader(alone: Alone) -> None:
    """Its entries reach into the log, which has others there. They are not compared, so only what is committed is sure."""
    follower = server(term=5, log=logged(1, 2, 2, base=(4, 1)), commit=5)
    kept, outputs = after(follower, got("b", Append(5, 2, 1, logged(1, 1, 1, 5, 5).entries, 7)))
    same((kept.log, kept.commit), (follower.log, 5))
    same(sent(outputs), [("b", Appended(5, 5))])


async def a_follower_commits_no_more_than_it_has(alone: Alone) -> None:
    follower, _ = after(server(term=5, log=logged(1, 2, 2)), got("b", Append(5, 1, 1, (), 3)))
    same(follower.commit, 1)
    same(after(server(term=5, log=logged(5)), got("b", Heartbeat(5, 3, 0)))[0].commit, 1)


async def an_answer_waits_until_the_term_is_durable(alone: Alone) -> None:
    follower, outputs = after(server(term=4), got("b", Heartbeat(5, 0, 3)))
    same(sent(outputs), [])
    same(sent(after(follower, Synced(1))[1]), [("b", HeartbeatReply(5, 3))])


async def what_waits_for_an_earlier_term_is_dropped(alone: Alone) -> None:
    voter, _ = after(server(), got("b", RequestVote(5, 0, 0)), got("c", Heartbeat(6, 0, 0)))
    same(sent(after(voter, Synced(1))[1]), [])
    same(sent(after(voter, Synced(2))[1]), [("c", HeartbeatReply(6, 0))])


async def a_save_does_not_count_for_entries_that_replaced_its_own(alone: Alone) -> None:
    """Entry 1 of term 4 is written, then replaced; until that is durable, neither counts."""
    follower, _ = after(
        server(term=4),
        got("b", Append(4, 0, 0, logged(4).entries, 0)),
        got("c", Append(5, 0, 0, logged(5).entries, 0)),
        Synced(1),
    )
    same(follower.durable.index, 0)
    same(after(follower, Synced(2))[0].durable.index, 1)


LIES = (Heartbeat, HeartbeatReply, Vote, PreVoteReply, PreVote, RequestVote, Append, Appended, Conflict, InstallSnapshot,
        TimeoutNow)


def of_term(kind: type, term: int):
    """Return a message of a kind, whose other numbers are 9 and whose truth values are true."""
    usual = {int: 9, bool: True, tuple[Entry, ...]: ()}
    return kind(**{name: usual[form] for name, form in kind.__annotations__.items()} | {"term": term})


async def a_term_that_is_too_far_ahead_deposes_nobody(alone: Alone) -> None:
    led = leader(CAREFUL)
    hears, _ = after(server(CAREFUL, 5), *[Tick()] * 40, got("c", Heartbeat(5, 0, 0)))
    for kind in LIES:
        for ahead in (1, 1 << 40, 1 << 61):
            lie = of_term(kind, 5 + FAR + ahead)
            same(after(led, got("b", lie)), (led, (FarAhead("b", lie.term, False),)))
            same(after(hears, got("b", lie)), (hears, (FarAhead("b", lie.term, False),)))
    same(after(led, got("b", Heartbeat(5 + FAR, 0, 0)))[0].term, 5 + FAR)


async def a_server_without_a_leader_comes_to_a_group_that_is_far_ahead(alone: Alone) -> None:
    """It votes for nobody on its way, and its election timeout goes on."""
    for kind in LIES:
        alone_, _ = after(server(CAREFUL, 5, "b"), *[Tick()] * (4 * CAREFUL.election_ticks - 1))
        lie = got("b", of_term(kind, 3 * FAR))
        same(after(alone_, lie), (alone_, (FarAhead("b", 3 * FAR, False),)))
        alone_, _ = after(alone_, Tick())
        risen, outputs = after(alone_, lie)
        same((risen.term, risen.vote, risen.role, risen.elapsed), (5 + FAR, "", FOLLOWER, alone_.elapsed))
        same(outputs, (Save(1, 5 + FAR, "", 1, ()), FarAhead("b", 3 * FAR, True)))
        same(sent(after(risen, Synced(1))[1]), [])
        same(after(risen, lie)[0].term, 5 + FAR)  # once in four timeouts
        risen, _ = after(risen, Synced(1), *[Tick()] * 16, lie)
        same(risen.term, 5 + 2 * FAR)
        same(after(risen, Synced(2), got("b", Heartbeat(3 * FAR, 0, 0)))[0].leader, "b")


async def elections_end_beside_a_liar(alone: Alone) -> None:
    """A server that hears a lie at every tick is a candidate all the same, and is elected."""
    lie = got("c", Heartbeat(1 << 61, 0, 0))
    stands, _ = after(server(CAREFUL, 5))
    for _ in range(100):
        stands, outputs = after(stands, Tick(), lie)
        for to, message in sent(outputs):
            check(to in "bc" and message.term < 1 << 40, "it says what it believes")
        if stands.role == PRE_CANDIDATE:
            stands, _ = after(stands, got("b", PreVoteReply(stands.term + 1, True)), lie)
            stands, _ = after(stands, Synced(stands.number), lie, got("b", Vote(stands.term, True)), lie)
        if stands.role == LEADER:
            return
    check(False, "it was never elected")


async def a_sync_that_was_heard_of_changes_nothing(alone: Alone) -> None:
    follower, _ = after(server(term=5), got("b", Append(5, 0, 0, logged(5).entries, 0)), Synced(1))
    same(after(follower, Synced(1)), (follower, ()))


SCRIPTS: tuple[Script, ...] = (
    an_election_begins_between_one_and_two_timeouts_and_later_ones_differ,
    a_candidate_asks_for_votes_once_its_own_is_durable,
    a_candidate_counts_itself_only_when_durable,
    a_vote_is_answered_once_it_is_durable,
    only_a_leader_and_a_vote_put_off_an_election,
    a_server_votes_once_a_term,
    a_leader_opens_its_term_with_an_entry,
    refusals_of_a_quorum_end_a_candidacy,
    votes_of_another_term_do_not_count,
    pre_vote_takes_no_term,
    a_pre_vote_promises_nothing,
    who_hears_of_a_leader_in_time_stands_in_no_election,
    who_hears_of_a_leader_ignores_candidates_unless_the_leader_sent_them,
    a_leader_that_hears_of_no_quorum_steps_down,
    a_leader_with_a_stalled_disk_steps_down_and_does_not_campaign,
    a_stalled_disk_is_told_from_a_busy_one,
    oneself_is_not_heard_and_strangers_do_not_count,
    who_is_behind_in_terms_is_told_whatever_it_asks,
    a_stranger_may_be_voted_for,
    entries_are_acknowledged_once_they_are_durable,
    an_append_that_comes_twice_is_acknowledged_once_the_first_is_durable,
    a_late_append_cuts_nothing,
    entries_of_another_term_are_replaced,
    a_missing_entry_is_refused_with_the_place_where_logs_may_agree,
    an_append_before_the_logs_beginning_tells_the_leader_what_is_committed,
    an_append_from_before_the_logs_beginning_acknowledges_no_entry_of_an_earlier_leader,
    a_follower_commits_no_more_than_it_has,
    an_answer_waits_until_the_term_is_durable,
    what_waits_for_an_earlier_term_is_dropped,
    a_save_does_not_count_for_entries_that_replaced_its_own,
    a_term_that_is_too_far_ahead_deposes_nobody,
    a_server_without_a_leader_comes_to_a_group_that_is_far_ahead,
    elections_end_beside_a_liar,
    a_sync_that_was_heard_of_changes_nothing,
)
