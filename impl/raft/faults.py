"""Defines the errors that a node of a Raft group raises: what a folder is refused for, and what a caller may be told."""

from highwater.impl.errors import Definite, Indefinite

LOST = ("this node may have lost what it acknowledged, so it must not vote again under its id: let a node with a new name take "
        "its place by `highwater raft rejoin`, or restore a backup if it was alone; an older copy of the file is not enough")


class FolderRefused(Definite):
    """A node does not start in this folder. Nothing in it was changed."""


class Damaged(FolderRefused):
    """A file does not have what was durable in it."""

    def __init__(self, file: str, offset: int, what: str):
        self.file, self.offset, self.what = file, offset, what
        super().__init__(f"{file}: byte {offset:,}: {what}; {LOST}")


class OtherNode(FolderRefused):
    """The folder belongs to another node."""


class TermSpoilt(FolderRefused):
    """The term in the folder is higher than any to which a group comes."""

    def __init__(self, term: int):
        super().__init__(f"its log is in term {term:,}, to which no group comes: a message of a broken or hostile node has "
                         "spoilt it. If a majority of the other nodes works, replace this one (`highwater raft rejoin`); "
                         "otherwise recover it (`highwater raft recover`)")


class OtherSettings(FolderRefused):
    """The entries in the folder were applied with other settings of the machine."""


class OtherVersion(FolderRefused):
    """Another version of highwater wrote the file, in a form that this one does not know."""


class HalfChanged(FolderRefused):
    """A command of an operator has begun to change the folder, and has not ended."""


class NotLeader(Definite):
    """This node does not lead, so it took no entry. `leader` names the one to ask, if it is known."""

    def __init__(self, me: str, leader: str):
        self.leader = leader
        hint = f"ask {leader!r}" if leader and leader != me else "no leader is known, try again later"
        super().__init__(f"{me!r} does not lead: {hint}")


class Altered(Indefinite):
    """An entry in this node's memory is not as its leader made it. The node stops before it writes the entry."""


class TooLarge(Definite):
    """The entry is larger than the group takes."""


class QueueFull(Definite):
    """The leader has too many entries that are not committed yet: try again later."""


class LevelTooLow(Definite):
    """The command is of a level that the group does not have yet: not all of its nodes know it."""


class CommandRefused(Definite):
    """The machine cannot apply the command, so it was not proposed."""


class LeadershipLost(Indefinite):
    """The node took the entry as the leader, and leads no more: a later leader may commit it, or not. It is applied once at
    most, but a caller who proposes it again may have it applied twice."""


class NoVoter(Definite):
    """The target of a transfer is no server of the group."""


class ChangeRefused(Definite):
    """The group cannot change in this way: the message says why."""


class NotYet(Definite):
    """The leader does not take this change of the members now: try again."""


class NoChange(Definite):
    """The members are already as the change would make them."""


class TransferFailed(Indefinite):
    """The leader did not hand over in time. The target may still win an election that it began."""


class NodeStopped(Indefinite):
    """The node stopped while the call waited: what it proposed may be committed, or not."""


class NotRunning(Definite):
    """The node is not running: nothing was proposed. The message has the failure that stopped it, or that it was closed."""
