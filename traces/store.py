"""Safety: a trace passes only if each reply of the store follows from the requests applied before it, whatever the protocol.

The order of the events is the order of application, so the store's content is known after each event: from the objects that it
begins with, or, if they are not known, from the first reply that tells of a key. `Rules` says in what stores may differ.
traces/recorded/s3store.py judges logs whose order is not known, with the same `misread` for one reply.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from highwater.traces.event import Event, range_of
from highwater.traces.form import ANSWERS, PUTS, READS

ABSENT = ""  # the version of an object that does not exist
SOME = "?"  # the version of an object that exists, if nothing has told which version it has
Known = tuple[str, bytes | None]  # version and content; None: not known
NOTHING: Known = ABSENT, b""
LAST = chr(0x10FFFF)  # behind all keys


class Rules(NamedTuple):
    """The answers of a store where stores differ. Each tuple has the statuses that it may answer with.

    The defaults are for a store that is not known: they allow what any store does that heeds conditions, lists keys in order
    and shows every earlier change."""

    create_exists: tuple[int, ...] = (304, 409, 412)  # to a create if the object exists; 200: the condition is ignored
    update_stale: tuple[int, ...] = (409, 412)  # to an update that names another version; 200: the condition is ignored
    update_missing: tuple[int, ...] = (200, 404, 409, 412)  # to an update without an object; 200: it is created
    delete_missing: tuple[int, ...] = (204, 404)
    versions: str = ""  # digest: of the content; unique: none is given twice; "": one object has no version twice
    ordered: bool = True  # a listing has its keys in order
    empty_pages: bool = True  # a page may be truncated although no key follows, or no key is on it
    stale: int = 0  # number of changes by which a read may lag


ANY = Rules()


class Part(NamedTuple):
    """Bytes of an object, as a reply has told them."""

    start: int
    body: bytes  # the bytes from `start` on
    last: bool  # no byte follows them

    @property
    def end(self) -> int:
        return self.start + len(self.body)

    def fits(self, other: "Part") -> bool:
        """Return whether one object can have both."""
        low, high = max(self.start, other.start), min(self.end, other.end)
        if low < high and self.body[low - self.start:high - self.start] != other.body[low - other.start:high - other.start]:
            return False
        return not any(one.last and two.body and two.end > one.end for one, two in ((self, other), (other, self)))


class Store(dict[str, Known]):
    """The objects of one trace's store: key -> version and content. Of a key that is missing here nothing is known, unless the
    beginning is known, or a page has told that it is absent."""

    judges = True

    def __init__(self, rules: Rules = ANY, objects: Mapping[str, tuple[str, bytes]] | None = None):
        """`objects`: those that the trace begins with, key -> version and content; None: nothing is known of them."""
        super().__init__()
        self.rules, self.objects = rules, objects
        self.there: list[str] = []  # sorted: the keys of the objects that exist
        self.usual = None if objects is None else NOTHING  # what is known of a key that is missing here,
        self.whole: list[tuple[str, str]] = []  # and is in none of these ranges, sorted: from one key up to before another
        self.contents: dict[tuple[str, str], bytes] = {}  # (key, version) -> content; key "" if no two objects share a version
        self.parts: dict[tuple[str, str], tuple[Part, ...]] = {}  # the same of versions whose content is not known as a whole
        self.past: list[tuple[str, Known | None]] = []  # for each change the key, and what was there; if reads may lag
        for key, (version, body) in (objects or {}).items():
            self.contents["" if rules.versions else key, version] = body
            self._change(key, NOTHING, version, body)

    def anew(self) -> "Store":
        """Return the store as it was before the first event."""
        return Store(self.rules, self.objects)

    def __copy__(self) -> "Store":
        """Return a store that shares nothing that changes."""
        of = Store(self.rules)
        of.update(self)
        of.objects, of.usual, of.whole = self.objects, self.usual, self.whole
        of.there, of.past, of.contents, of.parts = [*self.there], [*self.past], {**self.contents}, {**self.parts}
        return of

    def judge(self, e: Event) -> str:
        """Return why the store cannot have given this reply; "" if it can. Then apply the request, and learn from the reply."""
        _, _, _, _, op, key, condition, status, version, body, _, _, _, _ = e
        known = self.get(key, self.usual)
        if op == "get" and known == (version, body):  # most replies; what is absent has neither version nor content
            return ""
        if status not in ANSWERS.get(op, ()):
            return ""  # traces/form.py refuses it
        if op == "list":
            why = self._lists(e)
        else:
            if known is None and self._is_whole(key, f"{key}\0"):
                known = NOTHING
            if op in PUTS:
                why = self._puts(op, key, condition, status, version, body, known)
            elif op == "delete":
                why = self._deletes(key, status, known)
            elif op == "get_range":
                why = self._ranges(key, condition, status, version, body, known)
            else:
                why = self._reads(op, key, condition, status, version, body, known)
        if why and self.rules.stale and op in READS:
            why = self._lags(e) and why
        return why and (f"{op} of {key} by {e.client}, request {e.request}, was answered with {status}"
                        f"{f' and version {version}' if version else ''}, but {why}")

    # --- one object

    def _puts(self, op: str, key: str, condition: str, status: int, version: str, body: bytes, known: Known | None) -> str:
        if known is not None and op != "put" and (status != 200 or known[0] != condition):  # a create names the version ABSENT
            allowed = self._allowed(op, known[0], condition)
            if status not in allowed:
                return f"there is {shown(known[0])}, so it should be {' or '.join(map(str, allowed))}"
        if status != 200:
            if known is None and op == "create":
                self._learn(key, known, SOME, None)
            return ""
        versions = self.rules.versions
        of = "" if versions else key, version
        before = self.contents.get(of)
        if (before is not None and (versions == "unique" or before != body)) or not self._fits_parts(of, body):
            return f"version {version} was given before{' to another content' * (before != body)}"
        self.contents[of] = body
        self._change(key, known, version, body)
        return ""

    def _allowed(self, op: str, there: str, condition: str) -> tuple[int, ...]:
        """Return the statuses with which the store may answer a conditional put."""
        if op == "create" and there:
            return self.rules.create_exists
        if op == "update" and there != condition:
            return self.rules.update_missing if not there else ANSWERS[op] if there == SOME else self.rules.update_stale
        return (200,)

    def _deletes(self, key: str, status: int, known: Known | None) -> str:
        if known == NOTHING:
            return "" if status in self.rules.delete_missing else f"there is {shown(ABSENT)}"
        if known is not None and status == 404:
            return f"there is {shown(known[0])}"
        self._change(key, known, ABSENT, b"")
        return ""

    def _reads(self, op: str, key: str, condition: str, status: int, version: str, body: bytes, known: Known | None) -> str:
        there, had = known or (None, None)
        if status == 304 and there == version == condition:
            return ""
        why = misread(status, version, there)
        if not why and op == "get_if_changed" and status != 404 and (
                condition == version if status == 200 else bare(condition) != bare(version)):
            why = f"it asks whether version {condition} has changed"
        if why or status == 404:
            if not why:
                self._learn(key, known, ABSENT, b"")
            return why
        of, content = ("" if self.rules.versions else key, version), body if status == 200 and op != "head" else None
        before = self.contents.get(of)
        if content is not None and ((before is not None and content != before) or not self._fits_parts(of, content)):
            return f"its content is not what version {version} was"
        if there in (None, SOME) or (had is None and content is not None):
            if content is not None:
                self.contents[of] = content
            self._learn(key, known, version, before if content is None else content)
        return ""

    def _ranges(self, key: str, condition: str, status: int, version: str, body: bytes, known: Known | None) -> str:
        """Judge a range of an object's bytes. A 416 tells no version."""
        asked, there = range_of(condition), None if known is None else known[0]
        if asked is None:
            return ""  # traces/form.py refuses it
        version = (SOME if there is None else there) if status == 416 else version
        why = misread(status, version, there) or (f"there is {shown(ABSENT)}" if status == 416 and there == ABSENT else "")
        if why or status == 404:
            if not why:
                self._learn(key, known, ABSENT, b"")
            return why
        version = there if there and there != SOME else version
        of = "" if self.rules.versions else key, version
        content, parts = self.contents.get(of), self.parts.get(of, ())
        part = Part(asked[0], body, len(body) < asked[1] - asked[0])
        if not all(map(part.fits, parts if content is None else [Part(0, content, True)])):
            return f"{condition} of version {version} is something else"
        if content is None and version != SOME and part not in parts:
            self.parts[of] = (*parts, part)
        if there in (None, SOME):
            self._learn(key, known, version, content)
        return ""

    def _fits_parts(self, of: tuple[str, str], content: bytes) -> bool:
        """Return whether a version may have this content, as far as ranges have told of it."""
        return of not in self.parts or all(map(Part(0, content, True).fits, self.parts[of]))

    # --- pages

    def _lists(self, e: Event) -> str:
        """Judge a page: its keys exist, in order, and no key that exists in its range is missing."""
        prefix, after, page, truncated, there = e[5], e[6], e[10], e[11], self.there
        low, high, end = span(prefix, after, page[-1] if truncated and page else "")
        first = bisect_left(there, low)
        last = bisect_left(there, high, first)
        follows = last < len(there) and there[last] < end
        if there[first:last] == [*page] and (follows if truncated and page else not truncated) and self._is_whole(low, high):
            return ""
        ordered = self.rules.ordered
        if len({*page}) < len(page) or (ordered and any(one > two for one, two in pairwise(page))):
            return f"a key is there twice or out of order: {', '.join(page)}"
        for key in page:
            if not key.startswith(prefix) or (ordered and key <= after):
                return f"it shows {key}, which is not among the keys after {after or prefix}"
            if (NOTHING if key not in self and self._is_whole(key, f"{key}\0") else self.get(key)) == NOTHING:
                return f"it shows {key}, which is not there"
        if (truncated and not page) or not (ordered or not (after or truncated)):  # it does not say which keys it leaves out
            return "" if page or self.rules.empty_pages else "it is empty, and not the last page"
        missing = [key for key in there[first:last] if key not in page]
        if missing:
            return f"{missing[0]} is there, and is not shown"
        if truncated and not (follows or self.rules.empty_pages) and self._is_whole(high, end):
            return "it is truncated, and no key follows"
        for key in page:
            if key not in self:
                self._learn(key, None, SOME, None)
        self._learn_range(low, high)
        return ""

    # --- what is known

    def _change(self, key: str, before: Known | None, version: str, body: bytes | None) -> None:
        if self.rules.stale:
            self.past.append((key, before))
        if version == ABSENT:
            if before is not None and before[0]:
                del self.there[bisect_left(self.there, key)]
        elif before is None or not before[0]:
            insort(self.there, key)
        self[key] = version, body

    def _learn(self, key: str, before: Known | None, version: str, body: bytes | None) -> None:
        """Note what a reply has told. A reply that may lag tells nothing."""
        if not self.rules.stale:
            self._change(key, before, version, body)

    def _is_whole(self, low: str, high: str) -> bool:
        if self.usual is not None:
            return True
        at = bisect_right(self.whole, (low, LAST)) - 1
        return at >= 0 and self.whole[at][1] >= high

    def _learn_range(self, low: str, high: str) -> None:
        if self.rules.stale or self._is_whole(low, high):
            return
        merged: list[tuple[str, str]] = []
        for first, last in sorted([*self.whole, (low, high)]):
            if merged and first <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((first, last))
        self.whole = merged

    def _lags(self, e: Event) -> str:
        """Return why no earlier state, as far back as a read may lag, gives this reply."""
        past = [change for change in self.past if e.op == "list" or change[0] == e.key][-self.rules.stale:]
        of = copy(self)
        of.rules = self.rules._replace(stale=0)
        for key, known in reversed(past):
            if known is None and self.usual is None:
                return ""  # it is not known what was there
            of._change(key, of.get(key), *(known or NOTHING))
            if not of.judge(e):
                return ""
        return "no earlier state gives it either"


class Believed(Store):
    """A store whose replies are not judged."""

    judges = False

    def anew(self) -> "Believed":
        return self

    def judge(self, e: Event) -> str:
        return ""


# --- one reply

def misread(status: int, version: str, there: str | None) -> str:
    """Return why a read cannot be answered so; "" if it can. `version`: of the reply; of a 304 the one that the request names.
    `there`: the version of the object; None if it is not known."""
    if there is None or (not there if status == 404 else same(there, version)):
        return ""
    return f"there is {shown(there)}" + f", and not version {version}" * (status != 404)


def same(there: str, version: str) -> bool:
    """Return whether two versions may be the same. Either may be in another form, or not be known."""
    return there == version or (ABSENT not in (there, version) and (SOME in (there, version) or bare(there) == bare(version)))


def shown(version: str) -> str:
    return ("an object" if version == SOME else f"version {version}") if version else "nothing"


def bare(version: str) -> str:
    """Return a version without the forms that stores add or drop: quotes, and the mark of a weak one."""
    return version.removeprefix("W/").strip('"')


@lru_cache(10_000)
def span(prefix: str, after: str, last: str) -> tuple[str, str, str]:
    """Return the range of a page's keys, from the first up to before the second, and the end of all keys with the prefix.
    `last`: the last key of a page that is not the last; else ""."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else LAST
    return f"{after}\0" if after >= prefix else prefix, f"{last}\0" if last else end, end
