"""Safety: callers see one list that grows at its end. Every commit has its place in it, every read is a prefix of it, and both
move forward in real time. This is judged without the model.

A committed update is an append, and its id gives its place; a read returns the whole list up to an id. After `unknown`,
`refused` or a crash the update may have been appended, then or later; after `failed` it was not.

An operation ends when its client gets a response. It begins, at the latest, when the first of its requests is applied or given
up: the trace shows no earlier moment. Time is the order of the trace. The ids give the places, so no search is needed; one pass
suffices.
"""

from highwater.impl.layout import Namespace
from highwater.traces.event import KIND, Event
from highwater.traces.histories.history import updates_in

ENDS = ("told", "crash")  # the kinds of events that end an operation
Ids = list[tuple[int, int]]  # (number of the event, the highest id up to it), ascending


def id_of(key: str, namespace: Namespace) -> int:
    """Return the id of a sequenced file, whose key a caller was told."""
    file_id = namespace.file_id(key)
    assert file_id is not None, key
    return file_id


def anomalies(events: list[Event], namespace: Namespace, final_id: int, final: bytes) -> list[str]:
    """Return why the history is not a growing list; [] if it is. `final_id` and `final` are the latest file at the end.

        out of order       an update that was reported as committed is in the final list, but not at the place of its id
        commit went back   an update that began after another was reported as committed got an id that is not larger
        no prefix          a reader was given something other than the final list up to the id it was given
        stale read         a reader was given less than had been reported as committed before it began
        reads went back    a reader was given less than a reader, this one or another, had been given before it began
        failed yet there   an update that was reported as failed, and was not tried again, was read or is in the final list

    Other faults of a list (an update that is twice in it, lost, or at another's id) are found by
    `traces.histories.history.damage`.
    """
    kept = updates_in(final)
    before = final_id - len(kept)  # the number of ids that brought no update
    commits: Ids = [(-1, 0)]
    reads: Ids = [(-1, 0)]
    failed: dict[str, int] = {}  # update -> number of the event
    found = []
    for number in [number for number, kind in enumerate(map(KIND, events)) if kind == "told"]:
        e = events[number]
        if e.op == "read":
            file_id, updates = id_of(e.key, namespace), updates_in(e.body)
            if updates != kept[:max(file_id - before, 0)]:
                found.append(f"no prefix: {e.client} was given {list(updates)} as id {file_id}, of {list(kept)}")
            if (least := least_of(commits, file_id, events, number)) > file_id:
                found.append(f"stale read: {e.client} was given id {file_id}, but id {least} was committed before it began")
            if (least := least_of(reads, file_id, events, number)) > file_id:
                found.append(f"reads went back: {e.client} was given id {file_id}, but id {least} was read before it began")
            reads.append((number, max(file_id, reads[-1][1])))
            found += [f"failed yet there: {update} was read by {e.client}, but {events[at].client} was told that it had failed"
                      for update, at in failed.items() if update in updates and not_again(events, at, number)]
            continue
        update = e.body.decode()
        if e.op == "failed":
            failed[update] = number
        else:
            failed.pop(update, None)
        if e.op == "committed":
            file_id = id_of(e.key, namespace)
            place = file_id - before - 1
            if (place < 0 or kept[place:place + 1] != (update,)) and update in kept:
                found.append(f"out of order: {update} was committed as id {file_id}, but is number {kept.index(update) + 1} of "
                             f"{list(kept)}")
            if (least := least_of(commits, file_id - 1, events, number)) >= file_id:
                found.append(f"commit went back: {update} got id {file_id}, but id {least} was committed before it began")
            commits.append((number, max(file_id, commits[-1][1])))
    return found + [f"failed yet there: {update} is in the end's list, but {events[at].client} was told that it had failed"
                    for update, at in failed.items() if update in kept and not_again(events, at, len(events))]


def least_of(ids: Ids, enough: int, events: list[Event], number: int) -> int:
    """Return the highest id before the start of the operation that this event ended; 0 if it is at most `enough`."""
    if ids[-1][1] <= enough:
        return 0
    began = begin(events, number)
    return next(highest for at, highest in reversed(ids) if at < began)


def begin(events: list[Event], number: int) -> int:
    """Return the number of the first request of the operation that this event ended; without a visible request, of the event
    itself."""
    client, first = events[number].client, number
    for at in range(number - 1, -1, -1):
        e = events[at]
        if e.client == client:
            if e.kind in ENDS:
                break
            if e.awaited:
                first = at
    return first


def not_again(events: list[Event], failed: int, until: int) -> bool:
    """Return whether the client has certainly not tried the failed update again before event `until`.

    Its last operation since then must have been another update, and no operation without a response may have been this one.
    """
    client, update, trying = events[failed].client, events[failed].body, False
    for e in events[failed + 1:until]:
        if e.client == client and e.awaited:
            if e.kind == "crash" or (e.kind == "told" and e.body == update):
                return False
            trying = e.kind != "told"
    return not trying
