"""Servers of impl/raft for its scripts, and what a step of theirs puts out."""


from highwater.impl.raft import core, replication
from highwater.impl.raft.entries import COMMAND, Entry, Log
from highwater.impl.raft.messages import (
    PreVoteReply,
    Vote,
)
from highwater.impl.raft.state import (
    LEADER,
    Campaign,
    Config,
    Received,
    Restart,
    Send,
    State,
    Synced,
)

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


def progress(led: State, name: str = "b"):
    return replication.progress_of(led, name)
