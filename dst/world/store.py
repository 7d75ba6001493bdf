"""The simulated store. Safety: a request is applied at one moment, completely or not at all, in the kernel's order.

It is linearizable, and a listing sees every earlier put, as the essay on object-store protocols assumes. profiles.py holds the
answers in which stores differ. faults.py decides when a request is applied and whether its response arrives.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Generator, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from types import coroutine
from typing import Any, NamedTuple, TypeVar

from highwater.dst.sim.kernel import Request
from highwater.dst.world.profiles import PROFILES, READS, S3, Profile, scaled
from highwater.impl.stores.keys import check_key
from highwater.impl.stores.ranges import check_range
from highwater.impl.world import Entry, Object, Page
from highwater.traces.event import range_of, range_text

Answer = TypeVar("Answer")
Asked = Generator[Request, Any, Answer]  # what a client awaits
NEW = tuple.__new__  # makes a NamedTuple from its fields in order, in half the time


class Reply(NamedTuple):
    status: int  # an HTTP status
    version: str = ""
    body: bytes = b""
    answer: Object | Page | Entry | str | tuple | None = None  # the client's result


Stored = tuple[Object, Entry, Reply]  # the last: the reply to a GET
NO_CONTENT, NOT_FOUND, BEYOND_END = Reply(204), Reply(404), Reply(416)
S3_IN_MS = scaled(S3, 1)  # a run lasts some seconds, so last_modified is exact to the millisecond


FORBIDDEN = 403
LISTS_WRONGLY = {
    "repeats": "a page has the key that it should follow",
    "never ends": "each page is truncated, also the last one",
    "stops": "the page after the first has no key, and is truncated",
    "hides": "the last key is missing",
    "invents": "the key after the last is there, too",
}
SECOND_MS = 10  # a second in a run: its min_age, really hours, is some hundreds of ms


@cache
def profile_of(name: str) -> Profile:
    """Return the profile of this name, scaled to the times of a run."""
    return scaled(PROFILES[name], SECOND_MS) if name != "s3" else S3_IN_MS


def refusals(name: str) -> dict[int, str]:
    """Return the statuses with which a store refuses a write regardless of the object: status -> reason."""
    of, in_a_run = PROFILES[name], profile_of(name)
    contended = filter(None, (of.create_contended, of.update_contended))
    found = dict.fromkeys(contended, "another write to that key was under way")
    if of.mutation_gap_ms:
        found[of.throttled] = (f"too many writes to one key: {name} takes one in {of.mutation_gap_ms:,} ms, "
                               f"{in_a_run.mutation_gap_ms} ms in a run")
    return found


class SimulatedStore:
    """Objects in memory. `page_size`: keys on a page of a listing, in place of the profile's.

    `choose(site, bound)` decides what a store is free to do, 0 being the mildest: whether a page is empty although more follow,
    how far a read lags, which keys of a multi-delete fail. Without it the store does the mildest."""

    def __init__(self, page_size: int | None = None, profile: Profile = S3_IN_MS,
                 choose: Callable[[str, int], int] | None = None):
        self.objects: dict[str, Stored] = {}
        self.keys: list[str] = []  # sorted
        self.profile, self.choose, self.page_size = profile, choose, page_size or profile.page_size
        self._exists, self._differs = refusal(profile.create_exists), refusal(profile.update_stale)
        self._missing, self._nothing = refusal(profile.update_missing), refusal(profile.delete_missing)
        self._unchanged = profile.get_unchanged
        self._digest, self._ordered = profile.version == "digest", profile.lexicographic
        self._tick_ms = profile.last_modified_ms
        self._special = bool(profile.mutation_gap_ms or profile.stale or choose)
        self._lists, self._refuses = "", False
        self._services: dict[str, Callable[[bytes, int], Reply]] = {}
        self._writes = 0
        self._changed_ms: dict[str, int] = {}  # key -> time of its last change
        self._past: list[tuple[str, Stored | None]] = []  # for each change: the key, and the object before

    def apply(self, op: str, key: str, body: bytes, condition: str, now_ms: int, contended: bool = False) -> Reply:
        """Apply a request, and return the reply. A mutation whose status is not 2xx was not applied.

        `contended`: another mutation of the key is in flight. A mutation refused for that reason, or throttled, is refused
        before its condition is checked, so the reply says nothing about the object."""
        if contended or self._special:
            reply = self._before(op, key, condition, now_ms, contended)
            if reply is not None:
                return reply
        if op == "list":
            return self._list(key, condition)
        found = self.objects.get(key)
        if op == "create":
            return (found and self._exists) or self.put(key, body, now_ms)
        if op == "update":
            if found is None:
                return self._missing or self.put(key, body, now_ms)
            version = found[0].version
            return (version != condition and self._of_another(version, condition)) or self.put(key, body, now_ms)
        if op == "put":
            return self._services[key](body, now_ms) if key in self._services else self.put(key, body, now_ms)
        if op == "delete":
            return self._delete(key, now_ms) if found else self._nothing or NO_CONTENT
        if found is None:
            return NOT_FOUND
        answer, entry, reply = found
        if op == "get":
            return reply
        version = answer.version
        if op == "head":
            return Reply(200, version, b"", entry)
        if op == "get_range":
            return ranged(answer, condition)
        if (self._unchanged if version == condition else self._form(version, condition)) == 304:
            return Reply(304, version)
        return reply

    def put(self, key: str, body: bytes, now_ms: int) -> Reply:
        if self._special:
            self._note(key, now_ms)
        if key not in self.objects:
            checked_key(key)
            insort(self.keys, key)
        version = etag(body) if self._digest else self._new_version()
        if self._tick_ms != 1:
            now_ms -= now_ms % self._tick_ms
        answer = NEW(Object, (body, version, now_ms))
        self.objects[key] = answer, NEW(Entry, (key, len(body), now_ms, version)), NEW(Reply, (200, version, body, answer))
        return NEW(Reply, (200, version, b"", version))

    def delete_many(self, keys: Sequence[str], now_ms: int) -> Reply:
        """Delete each key separately. Returns (key, status) for each as the answer."""
        if len(keys) > self.profile.delete_many:
            return Reply(400)
        done = []
        for key in keys:
            failed = self.choose is not None and self.choose("delete_many.failed", 2)
            if not failed and key in self.objects:
                self._delete(key, now_ms)
            done.append((key, 500 if failed else 204))
        return Reply(200, answer=tuple(done))

    def _delete(self, key: str, now_ms: int) -> Reply:
        if self._special:
            self._note(key, now_ms)
        del self.objects[key]
        del self.keys[bisect_left(self.keys, key)]
        return NO_CONTENT

    def _list(self, prefix: str, after: str) -> Reply:
        keys, objects = self.keys, self.objects
        if not self._ordered:
            keys = sorted([key for key in keys if key.startswith(prefix)], key=scattered)
            first, last = bisect_right(keys, scattered(after), key=scattered) if after else 0, len(keys)
        else:
            first = bisect_right(keys, after) if after >= prefix else bisect_left(keys, prefix)
            last = bisect_left(keys, behind(prefix), first)
        end = min(last, first + self.page_size)
        page = NEW(Page, (tuple([objects[key][1] for key in keys[first:end]]), end < last))
        return NEW(Reply, (200, "", b"", page))

    # --- what only some stores do, and only some of the time

    def _of_another(self, version: str, condition: str) -> Reply | None:
        """Return the reply to an update whose condition does not equal the version; None: it is applied all the same."""
        return refusal(self.profile.update_weak) if condition == f"W/{version}" else self._differs

    def _form(self, version: str, condition: str) -> int:
        """Return the status of a conditional GET whose version differs in form, and perhaps only in form."""
        if condition == f"W/{version}":
            return self.profile.get_weak
        return self.profile.get_requoted if condition.strip('"') == version.strip('"') else 200

    def _new_version(self) -> str:
        self._writes += 1
        if self.profile.version == "generation":
            return str(self._writes)
        return blake2b(b"%d" % self._writes, digest_size=8).hexdigest()

    def _note(self, key: str, now_ms: int) -> None:
        self._changed_ms[key] = now_ms
        if self.profile.stale:
            self._past.append((key, self.objects.get(key)))

    def _before(self, op: str, key: str, condition: str, now_ms: int, contended: bool) -> Reply | None:
        """Return the reply of a store that answers without the object's current state; None if it does not."""
        profile, choose = self.profile, self.choose
        if self._refuses:
            return refusal(FORBIDDEN)
        if op == "put" and key in self._services:
            return None
        if op not in READS:
            changed_ms = self._changed_ms.get(key)
            if changed_ms is not None and now_ms - changed_ms < profile.mutation_gap_ms:
                return refusal(profile.throttled)
            return refusal(getattr(profile, f"{op}_contended", 0)) if contended else None
        if choose and profile.stale:
            past = [change for change in self._past if op == "list" or change[0] == key][-profile.stale:]
            lag = choose(f"store.stale.{op}", len(past) + 1)
            if lag:
                return self._as_before(past[-lag:]).apply(op, key, b"", condition, now_ms)
        if self._lists and op == "list":
            return self._listed_wrongly(key, condition)
        if choose and op == "list" and profile.empty_pages and choose("list.empty", 2):
            return Reply(200, answer=Page((), True))
        return None

    def serve(self, key: str, put: Callable[[bytes, int], Reply]) -> None:
        """Let another service stand behind a key. A PUT of the key asks it: `put(body, now_ms)` is applied at one moment, as
        any request. So a service that clients ask beside the store has the same faults."""
        self._services[key], self._special = put, True

    def refuses_all(self) -> None:
        """From now on every request is refused without effect, as if the bucket were gone, or the caller's credentials."""
        self._refuses = self._special = True

    def lists_wrongly(self, how: str) -> None:
        """From now on all listings are wrong in this way, one of LISTS_WRONGLY."""
        assert how in LISTS_WRONGLY, how
        self._lists, self._special = how, True

    def _listed_wrongly(self, prefix: str, after: str) -> Reply:
        how = self._lists
        if how == "stops" and after:
            return Reply(200, answer=Page((), True))
        listed = [key for key in self.keys if key.startswith(prefix)]
        entries = [self.objects[key][1] for key in listed]
        if how == "hides":
            del entries[-1:]
        elif how == "invents" and entries:
            entries.append(entries[-1]._replace(key=next_key(listed[-1])))
        entries = [entry for entry in entries if entry.key > after or (how == "repeats" and entry.key == after)]
        page = entries[:self.page_size]
        more = how == "never ends" or (len(page) == self.page_size if how == "repeats" else len(page) < len(entries))
        return Reply(200, answer=Page(tuple(page), more))

    def _as_before(self, changes: list[tuple[str, Stored | None]]) -> "SimulatedStore":
        store = SimulatedStore(self.page_size, self.profile)
        store.objects = dict(self.objects)
        for key, found in reversed(changes):
            store.objects.pop(key, None)
            if found:
                store.objects[key] = found
        store.keys = sorted(store.objects)
        return store


def ranged(found: Object, condition: str) -> Reply:
    """Return the reply to a GET of a range."""
    asked = range_of(condition)
    assert asked, condition
    body = found.body[asked[0]:asked[1]]
    return Reply(206, found.version, body, found._replace(body=body)) if body else BEYOND_END


checked_key = lru_cache(50_000)(check_key)  # keys recur in many runs


@lru_cache(50_000)
def etag(body: bytes) -> str:
    return blake2b(body, digest_size=8).hexdigest()


@cache
def refusal(status: int) -> Reply | None:
    """Return the reply that refuses a request; None for 0 and 200, which mean that it is applied."""
    return Reply(status) if status > 200 else None


@lru_cache(1_000)
def behind(prefix: str) -> str:
    """Return the least key greater than all keys with this prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def next_key(key: str) -> str:
    """Return the key of the next number, or, of a key without a number, a key that follows it."""
    return re.sub(r"[0-9]{20}", lambda found: f"{int(found[0]) + 1:020d}", key) if re.search(r"[0-9]{20}", key) else f"{key}0"


def scattered(key: str) -> bytes:
    """Return a sort key that is unrelated to the key's letters."""
    return blake2b(key.encode(), digest_size=8).digest()


class ClientStore:
    """The ObjectStore of a client. Each method yields a request to the kernel, which resumes it with the result."""

    caches = False

    @coroutine
    def create(self, key: str, body: bytes) -> Asked[str]:
        return (yield NEW(Request, ("create", key, body, "")))

    @coroutine
    def update(self, key: str, body: bytes, version: str) -> Asked[str]:
        return (yield NEW(Request, ("update", key, body, version)))

    @coroutine
    def put(self, key: str, body: bytes) -> Asked[str]:
        return (yield NEW(Request, ("put", key, body, "")))

    @coroutine
    def get(self, key: str) -> Asked[Object]:
        return (yield NEW(Request, ("get", key, b"", "")))

    @coroutine
    def get_range(self, key: str, start: int, end: int) -> Asked[Object]:
        check_range(start, end)
        return (yield NEW(Request, ("get_range", key, b"", range_text(start, end))))

    @coroutine
    def get_if_changed(self, key: str, version: str) -> Asked[Object | None]:
        return (yield NEW(Request, ("get_if_changed", key, b"", version)))

    @coroutine
    def head(self, key: str) -> Asked[Entry]:
        return (yield NEW(Request, ("head", key, b"", "")))

    @coroutine
    def list_page(self, prefix: str, after: str = "") -> Asked[Page]:
        return (yield NEW(Request, ("list", prefix, b"", after)))

    @coroutine
    def delete(self, key: str) -> Asked[None]:
        return (yield NEW(Request, ("delete", key, b"", "")))
