"""Names that a crash leaves in a folder. Safety: a name that a sync of the folder covered is there after every crash.

Of the later changes of names any are kept. A rename is atomic: the file has both names at no time, and always one of them.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from highwater.dst.world.pages import Choose, Covered, File

DONE, MISSING, LOCKED, FAILED, FULL = 200, 404, 423, 500, 507  # statuses of an operation, as HTTP has them
CHANGES = ("create", "append", "truncate", "sync", "rename", "remove", "sync_names")
READS = ("lock", "names", "read")
OPS = (*READS, *CHANGES)
PARTS = 3  # of a failed append: nothing of it is in the file, or all, or the first half


class Change(NamedTuple):
    """A change of names that no sync of the folder has covered."""

    said: str
    names: Mapping[str, File | None]  # None: the name is gone


Names = tuple[Change, ...]  # changes that a sync of the folder covers: those before it began


class Folder:
    """The files of one disk. `names` are those that the node sees, and `durable` those that a crash leaves."""

    def __init__(self) -> None:
        self.names: dict[str, File] = {}
        self.durable: dict[str, File] = {}
        self.changes: list[Change] = []
        self.locked = False

    def begin(self, op: str, name: str) -> Covered | Names | None:
        """Return what a sync that begins now will cover; None for other operations, and for a file that is not there."""
        if op == "sync_names":
            return tuple(self.changes)
        return self.names[name].covered() if op == "sync" and name in self.names else None

    def apply(self, op: str, name: str, body: bytes, to: str, covered: Covered | Names | None) -> tuple[int, object]:
        """Do an operation. Returns its status and its result. `to`: the new name, or the new size. `covered`: what a sync
        covers; None of names: all."""
        if op == "lock":
            status, self.locked = LOCKED if self.locked else DONE, True
            return status, None
        if op == "names":
            return DONE, sorted(self.names)
        if op == "create":
            self._create(name)
            return DONE, None
        if op == "sync_names":
            self._sync_names(self.changes if covered is None or isinstance(covered, Covered) else covered)
            return DONE, None
        file = self.names.get(name)
        if file is None or (op == "sync" and covered is None):
            return MISSING, None
        if op == "read":
            return DONE, file.content
        if op == "append":
            file.append(body)
        elif op == "truncate":
            file.truncate(int(to))
        elif op == "sync" and isinstance(covered, Covered):
            file.sync(covered)
        elif op == "rename":
            self._change(f"rename of {name} to {to}", {name: None, to: file})
        elif op == "remove":
            self._change(f"removal of {name}", {name: None})
        return DONE, None

    def _create(self, name: str) -> None:
        if name in self.names:
            self.names[name].truncate(0)
        else:
            self._change(f"creation of {name}", {name: File()})

    def _change(self, said: str, names: dict[str, File | None]) -> None:
        change = Change(said, names)
        self.changes.append(change)
        put(self.names, change)

    def _sync_names(self, covered: Iterable[Change]) -> None:
        """Make the changes durable that a sync covers, if an earlier one has not."""
        for change in covered:
            if any(change is other for other in self.changes):
                put(self.durable, change)
        self.changes = [change for change in self.changes if not any(change is other for other in covered)]

    def fail(self, op: str, name: str, body: bytes, to: str, choose: Choose, site: str) -> None:
        """Fail an operation: what it should have done is done, or not, or in part."""
        file = self.names.get(name)
        if op == "sync" and file is not None:
            file.fail_sync(choose, site)
        elif op == "append":
            part = choose(f"{site}.part", PARTS)
            if part:
                self.apply(op, name, body if part == 1 else body[:len(body) // 2], to, None)
        elif op in CHANGES and op != "sync" and choose(f"{site}.done", 2):
            self.apply(op, name, body, to, None)

    def crash(self, choose: Choose, site: str) -> list[str]:
        """Lose what the choices say, and return it in words. The machine loses its power: all that is not durable may go."""
        kept, said = self.durable, []
        for change in self.changes:
            if choose(f"{site}.name", 2):
                said.append(f"the {change.said} is lost")
            else:
                put(kept, change)
        crashed: list[File] = []
        for name in sorted(kept):
            if not any(kept[name] is file for file in crashed):  # it may have two names
                crashed.append(kept[name])
                said += [f"{name}: {of}" for of in kept[name].crash(choose, site)]
        self.names, self.durable, self.changes, self.locked = dict(kept), kept, [], False
        return said

    def ended(self) -> None:
        """The process ends, and the machine goes on: what was written is still to be read, durable or not."""
        self.locked = False


def put(names: dict[str, File], change: Change) -> None:
    for name, file in change.names.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file
