"""Safety: a response to a caller of an index is that of entries of its own call, which were applied since the call began.

A call makes entries, and an entry answers one call:

    add               AddBlock, of the block
    poll, confirm     GetPlan, with the reports and the tombstones of the call; then UpdatePlan, with the plan that the first
                      entry made, if that changes something. Others may propose the plan again
    truncate          Truncate, of the unit

A lease belongs to the worker that was told of it first. A worker reports a job, and writes its result, only if it was told of
the lease in this life of its process. It deletes only what a job that it was given names, or what it was told is overdue.
"""

import json
from typing import Any, NamedTuple

from highwater.impl.codecs.index.messages import AddBlock, BlockMeta, GetPlan, Truncate, UpdatePlan, copied, encode
from highwater.traces.event import Event
from highwater.traces.protocols.indexed.rows import Shown, message

OK, TOO_LATE = "OK", "FAILED_PRECONDITION"  # codes of answers
ADD, PLAN, UPDATE, TRUNCATE = "add", "plan", "update", "truncate"  # kinds of entries
CALLS = {"add": ADD, "poll": PLAN, "confirm": PLAN, "truncate": TRUNCATE}  # calls -> the entry that each makes first
Key = tuple[str, str]  # kind of an entry, and what the call asks for


class Since(NamedTuple):
    """The knowledge at the beginning of a call."""

    place: int  # of the next entry
    heard: int  # the place of the latest entry whose effect a caller was told of


class Made(NamedTuple):
    """An entry that has answered no call."""

    place: int
    index: int
    code: str
    more: str  # of a plan: the plan, "" if it changes nothing; of an update: the leases in the response


class Known(NamedTuple):
    """The responses of a client in this life of its process."""

    leases: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()  # what tombstones name


def poll_body(reports: list[tuple[str, int, int]], jobs: int, deleted: list[tuple[int, str]]) -> bytes:
    """Return what a poll or a confirmation asks for. `reports`: name, token and status of each job; `jobs`: how many it takes;
    `deleted`: index and name of tombstones."""
    return json.dumps([reports, jobs, deleted], separators=(",", ":")).encode()


def unit_text(tombstone: Any) -> str:
    """Return what a command drops: the name of a unit's tombstone, and the version of the unit."""
    return f"{tombstone.shard.name}/{tombstone.shard.unit_version}"


def lease_of(part: Any) -> str:
    return f"{part.state.name}/{part.state.token}"


def leases_in(done: Any) -> str:
    """Return the leases in the response to a poll: those that are given, and those that are renewed."""
    several = () if done is None else (*done.assigned_jobs, *(part for part in done.updated_jobs if not part.state.paused))
    return " ".join(map(lease_of, several))


def plan_text(plan: Any) -> str:
    """Return a plan without the results of its jobs."""
    bare = copied(plan)
    for part in bare.completed_jobs:
        part.ClearField("compacted_blocks")
    return encode(bare).hex()


def key_of(command: Any) -> Key:
    """Return what an entry is about. An entry that is no call's has an empty kind."""
    if isinstance(command, AddBlock):
        return ADD, command.metadata.id
    if isinstance(command, GetPlan):
        reports = [(one.name, one.token, one.status) for one in command.status_updates]
        deleted = [(one.index, one.name) for one in command.deleted]
        return PLAN, poll_body(reports, command.assign_jobs_max, deleted).decode()
    if isinstance(command, UpdatePlan):
        return UPDATE, plan_text(command.plan_update)
    return (TRUNCATE, " ".join(map(unit_text, command.tombstones))) if isinstance(command, Truncate) else ("", "")


def targets_of(tombstone: Any) -> frozenset[str]:
    """Return what a tombstone names: ULIDs, or the tenant and the time of a unit."""
    if tombstone.HasField("shard"):
        return frozenset([f"{tombstone.shard.tenant}/{tombstone.shard.timestamp}"])
    return frozenset(tombstone.blocks.blocks)


def names_of(made: Any) -> list[str]:
    return [made.string_table[one.name] for one in made.datasets]


class Answers:
    """The calls of an index's clients, and the entries that they made. Values are replaced, never changed."""

    def __init__(self) -> None:
        self.due: dict[Key, int] = {}  # calls that may still make such an entry
        self.made: dict[Key, tuple[Made, ...]] = {}
        self.plans: set[str] = set()  # that polls have made
        self.jobs: dict[str, Any] = {}  # lease -> the job's plan
        self.holders: dict[str, str] = {}  # lease -> the client that was told of it first
        self.known: dict[str, Known] = {}  # client -> what it was told
        self.gone: dict[str, int] = {}  # what a removed tombstone named -> the place of the entry that removed it

    def __copy__(self) -> "Answers":
        again = object.__new__(Answers)
        vars(again).update({name: value.copy() for name, value in vars(self).items()})
        return again

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answers) and vars(self) == vars(other)

    # --- calls and entries

    def asked(self, e: Event) -> str:
        """Take the beginning of a call. Return why its client cannot ask that; "" if it can."""
        call = e.keys[0]
        if call not in CALLS:
            return ""
        if call == "poll":
            reports, _, _ = json.loads(e.body)
            leases = {f"{name}/{token}" for name, token, _ in reports}
            if unknown := leases - self.known.get(e.client, Known()).leases:
                return f"reports {min(unknown)}, of which it was not told"
        key = CALLS[call], e.body.decode()
        self.due[key] = self.due.get(key, 0) + 1
        return ""

    def applied(self, place: int, index: int, command: Any, code: str, done: Any, before: Shown, after: Shown) -> str:
        """Take an entry. Return why it is no call's; "" if it is one's."""
        kind, about = key = key_of(command)
        if kind == UPDATE:
            if about not in self.plans:
                return "has a plan that no poll has made"
            self.jobs.update({lease_of(part): part.plan for part in (done.assigned_jobs if done else ())})
        elif kind:
            if not self.due.get(key):
                return f"is a {kind} of {about}, for which nobody has asked, or not so often"
            self.due[key] -= 1
        more = leases_in(done) if kind == UPDATE else ""
        if kind == PLAN and done is not None and done.ByteSize():
            more = plan_text(done)
            self.plans.add(more)
        self.made[key] = *self.made.get(key, ()), Made(place, index, code, more)
        for name in before.tombstones.keys() - after.tombstones.keys():
            self.gone |= dict.fromkeys(sorted(targets_of(before.tombstones[name])), place)
        return ""

    # --- responses

    def _take(self, key: Key, since: Since, codes: tuple[str, ...] = (OK,)) -> str:
        """Take an entry of a call as answered. Return why there is none; "" if there is one."""
        found = next((made for made in self.made.get(key, ()) if made.place >= since.place and made.code in codes), None)
        if found is None:
            return f"no {key[0]} of {key[1]} that answers no other call was applied since this one began"
        self._answered(key, found)
        return ""

    def _answered(self, key: Key, made: Made) -> None:
        self.made[key] = tuple([other for other in self.made[key] if other is not made])

    def told(self, e: Event, about: str, since: Since, shows: Shown) -> str:
        """Take a response without claims. Return why it is untrue; "" if it is true. `about`: what the call has asked for."""
        if e.op in ("added", "refused"):
            return self._take((ADD, about), since, (OK,) if e.op == "added" else (TOO_LATE,))
        if e.op == "failed":
            self.due[ADD, about] -= 1
            return "" if self.due[ADD, about] >= 0 else "its entry was applied"
        if e.op == "confirmed":
            return self._polled(about, since, None)
        if e.op == "overdue":
            buried = [targets_of(one) for one in shows.tombstones.values()]
            self._learns(e.client, (), frozenset[str]().union(*buried, [
                target for target, place in self.gone.items() if place >= since.place]))
        return ""

    def leased(self, client: str, about: str, since: Since, value: str) -> str:
        """Take the leases in the response to a poll. Return why they are not this worker's; "" if they are."""
        if why := self._polled(about, since, value):
            return why
        received = value.split()
        for lease in received:
            if (holder := self.holders.setdefault(lease, client)) != client:
                return f"the lease {lease} is of {holder}"
        self._learns(client, received, frozenset[str]().union(*[
            targets_of(one) for lease in received for one in self.jobs[lease].tombstones]))
        return ""

    def _polled(self, about: str, since: Since, leases: str | None) -> str:
        """Take the entries of a poll, with these leases, as answered. None: of any. Return why there are none."""
        for plan in self.made.get((PLAN, about), ()):
            if plan.place < since.place or plan.code != OK:
                continue
            key = UPDATE, plan.more
            update = next((made for made in self.made.get(key, ()) if made.place > plan.place and made.code == OK
                           and leases in (None, made.more)), None)
            if not plan.more and not leases:
                self._answered((PLAN, about), plan)
                return ""
            if plan.more and update is not None:
                self._answered((PLAN, about), plan)
                self._answered(key, update)
                return ""
        return f"no poll of {about} that answers no other call was applied since this one began, with these leases"

    def truncated(self, about: str, since: Since, value: str) -> str:
        return self._take((TRUNCATE, about), since) if value == about else f"it has asked for {about}"

    def _learns(self, client: str, leases: Any, targets: frozenset[str]) -> None:
        known = self.known.get(client, Known())
        self.known[client] = Known(known.leases.union(leases), known.targets | targets)

    def died(self, node: str) -> None:
        """Forget what the clients of a node were told."""
        self.known = {client: known for client, known in self.known.items() if not client.startswith(f"{node}/")}

    # --- objects

    def why_no_result(self, client: str, made: Any, objects: dict[str, bytes]) -> str:
        """Return why a client cannot have made a job's result; "" if it can: it has a lease of a job with these data."""
        names = sorted(names_of(made))
        for lease in sorted(self.known.get(client, Known()).leases):
            sources = [message(BlockMeta, objects[ulid]) for ulid in self.jobs[lease].source_blocks]
            if sorted(name for one in sources for name in names_of(one)) == names:
                return ""
        return f"has no job with the data {' '.join(names)}"

    def why_not_deleted(self, client: str, targets: set[str]) -> str:
        """Return why a client cannot delete these; "" if it can."""
        unknown = targets - self.known.get(client, Known()).targets
        return f"was told of no tombstone of {min(unknown)}" if unknown else ""
