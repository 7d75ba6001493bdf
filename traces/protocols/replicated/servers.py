"""Safety: a step of a Raft server is refused if no server can take it, whatever the others have done.

What a server's steps say of it: terms, commits and numbers of saves rise; its log is as long as what it found and saved; each
change has an input that may cause it.
"""

from collections.abc import Iterator
from typing import NamedTuple

MESSAGES = ("PreVote", "PreVoteReply", "RequestVote", "Vote", "Append", "Appended", "Conflict", "Heartbeat", "HeartbeatReply",
            "InstallSnapshot", "ReadIndex", "ReadIndexReply", "TimeoutNow")
FAR = 1 << 20  # terms ahead: that of a message is not believed then (impl/raft/terms.py)
RESTART = "Restart"
BEGIN = "begin"  # note of a step that takes up a read, with its name and its caller
INPUTS = (RESTART, "Tick", "Synced", "Propose", "Read", "TransferTo", "Change", "Campaign", "Compact", "Installed",
          "FetchFailed", *MESSAGES)
CAUSES = {  # what a step may do -> the inputs that may cause it
    "stands for election": ("Tick", "Campaign", "PreVoteReply", "TimeoutNow"),
    "votes for another": ("RequestVote",),
    "adopts a term": (*MESSAGES, "Installed"),
    "wins the election": ("Vote", "Synced"),
    "steps down": ("Tick", *MESSAGES, "Installed"),
    "asks for votes": ("Tick", "Campaign"),
    "puts entries into its log": ("Propose", "Change", "Append", "Vote", "Synced"),
    "begins its log anew": ("Installed",),
    "commits": ("Appended", "Synced", "Installed", "Change"),
    "learns of a commit": (RESTART, "Append", "Heartbeat", "Installed"),
    "tells how far it agrees": ("Append", "Synced", "InstallSnapshot", "Installed"),
}
FOLLOWER, PRE_CANDIDATE, CANDIDATE, LEADER = ROLES = ("follower", "pre-candidate", "candidate", "leader")


class Save(NamedTuple):
    """Data that a step asked to make durable: term, vote, and a log that has these terms from index `first` on."""

    number: int
    term: int
    vote: str
    first: int
    terms: tuple[int, ...]
    base: tuple[int, int] | None = None  # the log begins anew after this entry of a snapshot: (index, term)


class Step(NamedTuple):
    """The body of a `step` event."""

    role: str
    term: int
    commit: int
    last: int  # index of the last entry of the log in memory
    save: Save | None
    synced: int  # number of the latest save that this step takes for durable; 0: none became durable
    agreed: int  # up to which index it told the leader of its term that their logs agree; 0: it told nothing
    found: tuple[int, str, tuple[int, int], tuple[int, ...]] | None  # a restart: term, vote, base, terms
    reads: tuple = ()  # what it did for reads: traces/protocols/consistent_read.py
    changes: tuple = ()  # of the members, in its save, each (index, voters): traces/protocols/raft_membership.py
    voters: tuple = ()  # that are in force after it, if it restarts or changes the log; of the same


class Known(NamedTuple):
    """A server in this life, after its latest step."""

    role: str
    term: int
    vote: str
    commit: int
    last: int
    number: int = 0  # of its latest save
    synced: int = 0  # number of the latest save that it takes for durable


def after(before: Known | None, me: str, op: str, step: Step) -> Known | str:
    """Return what is known after a step with this input, or why no server can take it. `before`: None if its process has only
    begun."""
    restarts = op == RESTART
    if op not in INPUTS or step.role not in ROLES or (step.found is None) == restarts or (before is None) != restarts:
        return f"{me} is {step.role} after {op}, {'as its first step' if before is None else 'and was ' + before.role}"
    if before is None:
        before = found(step)
    save = step.save
    if step.term < before.term or step.commit < before.commit:
        return f"{me} goes back from term {before.term} and commit {before.commit} to term {step.term} and commit {step.commit}"
    if max(step.commit, step.agreed) > step.last:
        return f"{me} takes {step.commit} entries for committed and {step.agreed} for its leader's, and has {step.last}"
    if save is None and (step.term, step.last) != (before.term, before.last):
        return f"{me} has term {step.term} and {step.last} entries, of which it saved term {before.term} and {before.last}"
    known = before._replace(role=step.role, commit=step.commit)
    if save is not None:
        if save.number != before.number + 1 or save.term != step.term or length(before.last, save) != step.last:
            return f"{me} has term {step.term} and {step.last} entries, and asks for save {save} after number {before.number}"
        if save.term == before.term and before.vote not in ("", save.vote):
            return f"{me} voted for {before.vote} in term {save.term}, and saves {save.vote or 'no vote'}"
        known = known._replace(term=save.term, vote=save.vote, last=step.last, number=save.number)
    if step.role in (CANDIDATE, LEADER) and known.vote != me:
        return f"{me} is {step.role} in term {step.term}, and voted for {known.vote or 'nobody'}"
    if step.role == LEADER and before.role != LEADER and before.term < step.term:
        return f"{me} leads term {step.term} in the step in which it stands for election"
    if step.synced and not before.synced < step.synced <= before.number:
        return f"{me} takes save {step.synced} for durable, after {before.synced}, and has asked for {before.number}"
    if wrong := [what for what, so in changes(before, step, me) if so and op not in CAUSES[what]]:
        return f"{me} {wrong[0]} in a step with {op}"
    if op == "Installed" and not (save and save.base) and step.commit == before.commit:
        return f"{me} takes a snapshot for installed, and learns nothing of it"
    if (op == "Synced") != bool(step.synced) or (op == "Propose" and not (save and save.terms and step.role == LEADER)):
        return f"{me} takes a step with {op} that does nothing of the kind"
    return known._replace(synced=step.synced or before.synced)


def changes(before: Known, step: Step, me: str) -> Iterator[tuple[str, object]]:
    """Yield what only some inputs cause, and whether this step did it."""
    save, later = step.save, step.term > before.term
    yield "stands for election", later and save and save.vote == me
    yield "votes for another", save and save.vote not in ("", me, before.vote)
    yield "adopts a term", later and save and save.vote != me
    yield "wins the election", step.role == LEADER != before.role
    yield "steps down", step.role == FOLLOWER != before.role
    yield "asks for votes", step.role == PRE_CANDIDATE != before.role
    yield "puts entries into its log", save and save.terms
    yield "begins its log anew", save and save.base
    yield "commits" if step.role == LEADER else "learns of a commit", step.commit > before.commit
    yield "tells how far it agrees", step.agreed


def found(step: Step) -> Known:
    """Return what is known of a server by what it found when it started."""
    assert step.found is not None
    term, vote, base, terms = step.found
    return Known(FOLLOWER, term, vote, 0, base[0] + len(terms))


def length(last: int, save: Save) -> int:
    """Return how many entries a log of `last` entries has in memory after a save."""
    return save.first - 1 + len(save.terms) if save.terms or save.base or save.first <= last else last
