"""Define what else may hold of a damaged trace of a metadata index.

Its events are what the state machines apply, what clients do to objects, and what callers are told. Objects are independent if
their ULIDs differ, and an entry depends on the objects that its bytes name.
"""

import json

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.names import unit_tombstone_name
from highwater.impl.codecs.index.partitions import Partition
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.nodes import OF_NODES, contents, life, of_node
from highwater.traces.damage.survivors import Equivalences, Survivor, same_but
from highwater.traces.event import Event
from highwater.traces.machines import node_of

ULID_BYTES, ULID_TAG = 26, b"\x12\x1a"  # field 2 of a BlockMeta, and its length
TIME_AND_PLACE = {row.APPLIED.hex(), row.CLOCK.hex()}
OF_CLIENTS = ("put", "delete", "asks")
UNIT = "unit"  # key of a deletion: of all that a unit has


# --- questions about events

def said(e: Event) -> dict:
    """Return what a node says of an entry or a snapshot; nothing if the event is another one."""
    return json.loads(e.body) if e.kind == "step" and e.op not in OF_CLIENTS else {}


def is_first(e: Event) -> bool:
    """Return whether a node applies an entry that no other one has applied."""
    return "entry" in said(e)


def has_effect(e: Event) -> bool:
    """Return whether an entry, which is applied for the first time, changed more than the time of the log."""
    return is_first(e) and not said(e)["rows"].keys() <= TIME_AND_PLACE


def named(e: Event) -> set[str]:
    """Return the ULIDs of the objects that a client writes or deletes, or that it is told of."""
    if e.op == "put":
        at = e.body.find(ULID_TAG) + len(ULID_TAG)
        return {e.body[at:at + ULID_BYTES].decode("ascii", "replace")}
    if e.op == "delete":
        return {key.split("/")[3] for key in e.keys}
    return {*e.body.decode().split()} if e.kind == "told" else set()


def mentions(e: Event, ulid: str) -> bool:
    """Return whether an entry, its answer or the rows that it changes have this ULID."""
    of = said(e)
    texts = (of.get("entry") or "", of.get("value") or "", *(text or "" for row in of.get("rows", {}).items() for text in row))
    return any(ulid.encode().hex() in text for text in texts)


def units(e: Event) -> set[str]:
    """Return the beginning of the name of the tombstone by which all objects of a unit are deleted."""
    if e.key != UNIT:
        return set()
    tenant, start_ns = json.loads(e.body)
    return {unit_tombstone_name(Partition(start_ns), tenant, 0).removesuffix("0")}


def depend(one: Event, two: Event) -> bool:
    """Return whether the first event could not stand after the second one, or would then mean something else. What a caller
    is told may be told later, and earlier if it was so, which is judged. Whose question or response it is means nothing."""
    if {one.kind, two.kind} & {"started", "died"}:
        return node_of(one.client) == node_of(two.client)
    if "asks" in (one.op, two.op):
        return False  # a read answers the latest question before it
    if said(one) and said(two):
        firsts = is_first(one) + is_first(two)
        return node_of(one.client) == node_of(two.client) or firsts == 2 or (
            firsts == 1 and said(one)["index"] == said(two)["index"])
    if said(one) or said(two):
        entry, other = (one, two) if said(one) else (two, one)
        return has_effect(entry) and other.kind != "told" and any(mentions(entry, name) for name in named(other) | units(other))
    if "told" in (one.kind, two.kind):
        return False
    return bool(named(one) & named(two)) and (one.op, two.op) != ("delete", "delete")


def answer(s: Survivor) -> Event | None:
    """Return what the client was told next."""
    after = next((e for e in s.rest if e.client == s.before.client), None)
    return after if after is not None and after.kind == "told" else None


def others_do(s: Survivor, e: Event) -> bool:
    """Return whether others write the same object, or delete the same ones."""
    others = [o for o in s.good if o.op == e.op and o is not e]
    return (e.op == "put" and any(o.body == e.body for o in others)) or (
        e.op == "delete" and named(e) <= set[str]().union(*map(named, others)))


# --- equivalences

def commute(s: Survivor) -> bool:
    if not s.damage.kind.startswith("swap"):
        return False
    one, *between, two = s.good[s.damage.at:s.damage.to + 1]
    if all(e.kind == "told" or others_do(s, e) for e in (one, two)):
        return True
    if node_of(one.client) == node_of(two.client) and not said(one) and not said(two):
        # the process of both lives at both moments
        between = [e for e in between if e.kind not in ("started", "died")]
    between = [e for e in between if not (e.op == "delete" and others_do(s, e))]
    return one._replace(t_ms=0) == two._replace(t_ms=0) or (
        not depend(one, two) and not any(depend(one, e) or depend(e, two) for e in between))


def written_again(s: Survivor) -> bool:
    """Return whether an object is written, or deleted, once more."""
    return s.damage.kind == "duplicate" and s.before.op in (*OF_CLIENTS, "load")


def in_vain(s: Survivor) -> bool:
    """Return whether nobody shows the result that a client writes: another worker has written it before, or the job is gone."""
    e = s.before
    if e.op != "put":
        return False
    (ulid,) = named(e)
    others = any(o.op == "put" and o.body == e.body for o in s.good if o is not e)
    return others or not any(is_first(o) and mentions(o, ulid) for o in s.rest)


def deleted_as_well(s: Survivor) -> bool:
    """Return whether others delete the objects, too, that are not deleted here any more, or no entry ever named them."""
    others = set[str]().union(*[named(o) for o in s.good if o.op == "delete" and o is not s.before])
    of_nothing = s.before.key == UNIT and not s.before.keys
    if s.before.op != "delete" or not (s.damage.kind != "edit" or same_but(s, "keys") or (of_nothing and same_but(s, "body"))):
        return False
    left = named(s.before) - (named(s.after) if s.damage.kind == "edit" else set()) - others
    return not any(is_first(e) and mentions(e, ulid) for ulid in sorted(left) for e in s.good)


def asked_in_vain(s: Survivor) -> bool:
    """Return whether a question has no answer, or is asked for other blocks, or another one stands for it."""
    if s.before.op != "asks" or s.damage.kind.startswith("swap"):
        return False
    told = answer(s)
    before = next((e for e in reversed(s.good[:s.damage.at]) if e.client == s.before.client), None)
    return told is None or told.op != "read" or same_but(s, "body") or (before is not None and before.op == "asks")


def no_entry(s: Survivor) -> bool:
    """Return whether an entry is the last one, or changed only the time of the log and how far it is applied, or rows that
    the next one changes, too."""
    following = next((said(e)["rows"].keys() for e in s.rest if is_first(e)), None)
    return s.damage.kind == "drop" and is_first(s.before) and (
        not has_effect(s.before) or following is None or said(s.before)["rows"].keys() <= following)


def another_block(s: Survivor) -> bool:
    """Return whether a caller is told of a block of which it could have been told as well."""
    return same_but(s, "body") and (s.before.kind, s.before.op) in (
        ("told", said) for said in ("added", "refused", "failed", "unknown", "invalid"))


def another_term(s: Survivor) -> bool:
    """Return whether only the term of an entry differs, and the next one's is no earlier: it means the same."""
    if not same_but(s, "body") or not is_first(s.before) or not is_first(s.after):
        return False
    one, two = said(s.before), said(s.after)
    following = next((said(e) for e in s.rest if is_first(e)), None)
    return {name for name in one if one[name] != two[name]} <= {"term", "index"} and (
        following is None or (following["term"] >= two["term"] and following["index"] > two["index"]))


def another_order(s: Survivor) -> bool:
    return s.before.op == "delete" and same_but(s, "keys") and {*s.before.keys} == {*s.after.keys}


def empty_life(s: Survivor) -> bool:
    """Return whether a process of which nothing was seen is another node's."""
    return s.before.kind == "started" and same_but(s, "client") and not any(life(s))


def not_seen_again(s: Survivor) -> bool:
    """Return whether nothing of a node is seen any more: whether its process ends, or begins once more, does not matter. Nor
    does what it has applied last in a life, or before it loads another state."""
    e = s.before
    if e.kind in ("started", "died"):
        later = [o for o in of_node(e.client, s.rest) if o.kind not in ("started", "died")]
        return not later and (s.damage.kind != "edit" or same_but(s, "client", "kind"))
    then = next((o for o in life(s) if said(o)), None)
    if s.damage.kind == "edit" and e.op == "load" and same_but(s, "body"):
        return then is None or then.op == "load"
    return s.damage.kind == "drop" and bool(said(e)) and not is_first(e) and (then is None or then.op == "load")


def another_state(s: Survivor) -> bool:
    """Return whether a read shows another state of the index during its call."""
    return s.before.op == "read" and same_but(s, "body")


OF_INDEXES: Equivalences = {
    **{name: OF_NODES[name] for name in ("between its neighbours", "empty life", "dead is dead", "claims less", "told again",
                                         "another caller")},
    "they commute": ("the two events do not depend on each other, nor on those between", commute),
    "written again": ("an object may be written or deleted twice, and a reader may ask twice", written_again),
    "in vain": ("nobody shows the result that is written, or it was written before", in_vain),
    "asked in vain": ("the question has no answer, or may have been about other blocks", asked_in_vain),
    "no entry": ("the entry is the last one, or changed nothing: the log may have none in its place", no_entry),
    "deleted as well": ("others delete the same objects, or there are none", deleted_as_well),
    "another block": ("the caller may have been told of the other block as well", another_block),
    "another term": ("the log may have the entry at another place of this order, or of a later leader", another_term),
    "another order": ("a client may delete the objects of a tombstone in any order", another_order),
    "another state": ("a read shows any state of the index since what was told before the call", another_state),
    "not seen again": ("nothing is seen of this process any more, or it has applied nothing more", not_seen_again),
    "another node": ("nothing was seen of this process, so it may be another node's", empty_life),
}
OF_AN_INDEX = Knowledge(contents=contents, equivalences=OF_INDEXES, held=6)
