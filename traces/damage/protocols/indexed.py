"""Define what else may hold of a damaged trace of a metadata index.

Its events are what the state machines apply, what clients do to objects, and what callers are told. Objects are independent if
their ULIDs differ, and an entry depends on the objects that its bytes name.
"""

import json
import re

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.names import unit_tombstone_name
from highwater.impl.codecs.index.partitions import Partition
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.nodes import OF_NODES, begun, contents, life, of_node
from highwater.traces.damage.possible import OF_RESPONSES, response
from highwater.traces.damage.responses import ANOTHER, EARLY, EXCHANGE, VALUE
from highwater.traces.damage.survivors import Equivalences, Survivor, same_but
from highwater.traces.event import Event
from highwater.traces.machines import node_of
from highwater.traces.protocols.indexed.rows import shown

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


def shows_a_state(s: Survivor) -> bool:
    """Return whether the damaged read shows the blocks that it asks for in one state of the index, and all that callers knew of
    before the call began were added by then."""
    told, question = s.after, begun(s, s.after.client)
    if question is None:
        return False
    rows: dict[bytes, bytes] = {}
    states, known, first = [frozenset[str]()], 0, 0
    for e in s.good[:s.damage.at]:
        if is_first(e):
            for key, value in said(e)["rows"].items():
                if value is None:
                    rows.pop(bytes.fromhex(key), None)
                else:
                    rows[bytes.fromhex(key)] = bytes.fromhex(value)
            states.append(frozenset(shown(rows).visible))
        elif (e.kind, e.op) == ("told", "added"):
            known = max(known, next((n for n, there in enumerate(states) if e.body.decode() in there), 0))
        elif e is question:
            first = known
    asked = {*question.body.decode().split()}
    return any(asked & there == {*told.body.decode().split()} for there in states[first:])


def another_state(s: Survivor) -> bool:
    """Return whether a read shows another state of the index during its call."""
    return s.before.op == "read" and same_but(s, "body") and shows_a_state(s)


# --- of responses

def concerns(e: Event, response_: Event) -> bool:
    """Return whether an applied entry concerns a response: it changed an object that this names, it is the entry of a lease
    that this names by its fencing token, or it changed anything if this names nothing."""
    ulids, tokens = response_.body.decode().split(), TOKEN.findall(" ".join(response_.keys[3:]))
    if not ulids and not tokens:
        return has_effect(e)
    return has_effect(e) and (str(said(e)["index"]) in tokens or any(mentions(e, ulid) for ulid in ulids))


def nothing_applied(s: Survivor) -> bool:
    """Return whether a response moved before entries that do not concern it, or behind one that adds its block; or a read to
    where it is true, too."""
    if s.damage.kind != EARLY:
        return False
    if response(s).op == "read" and shows_a_state(s):
        return True
    return is_added(s, response(s)) or not any(concerns(e, response(s)) for e in s.good[s.damage.at:s.damage.to])


def is_added(s: Survivor, e: Event) -> bool:
    """Return whether a response says that a block is added, and an entry before adds it."""
    return e.op == "added" and any(has_effect(o) and mentions(o, e.body.decode()) for o in s.good[:s.damage.at])


def read_at_that_moment(s: Survivor) -> bool:
    """Return whether a caller is told of no tombstones. No event tells which, or when its node looked."""
    return s.damage.kind in (ANOTHER, EARLY) and response(s).op == "overdue"


def exchange_commutes(s: Survivor) -> bool:
    """Return whether two objects are written in another order, or by the other client, and nothing between depends on that."""
    if s.damage.kind != EXCHANGE or s.before.op not in OF_CLIENTS:
        return False
    one, *between, two = s.good[s.damage.at:s.damage.to + 1]
    return one.op == "asks" or not any(depend(one, e) or depend(e, two) for e in between)


def another_state_told(s: Survivor) -> bool:
    """Return whether a read shows what another one shows, in another state of the index during its call."""
    return s.damage.kind == VALUE and s.before.op == "read" and s.before.keys == s.after.keys and shows_a_state(s)


TOKEN = re.compile(r"/(\d+)\b")
RESPONSES_OF_INDEXES: Equivalences = {
    **OF_RESPONSES,
    "read at that moment": ("no event tells what it shows, or when that was so", read_at_that_moment),
    "nothing applied": ("the entries that follow the response change nothing that it is about", nothing_applied),
    "another state": ("a read shows any state of the index since what was told before the call", another_state_told),
    "exchange commutes": ("anybody may write either object first, because nothing between depends on it", exchange_commutes),
}
OF_INDEXES: Equivalences = {
    **{name: OF_NODES[name] for name in ("between its neighbours", "empty life", "dead is dead", "claims less",
                                         "another caller")},
    "they commute": ("the two events do not depend on each other, nor on those between", commute),
    "written again": ("an object may be written or deleted twice, and a reader may ask twice", written_again),
    "in vain": ("nobody shows the result that is written, or it was written before", in_vain),
    "asked in vain": ("the question has no answer, or may have been about other blocks", asked_in_vain),
    "no entry": ("the entry is the last one, or changed nothing: the log may have none in its place", no_entry),
    "deleted as well": ("others delete the same objects, or there are none", deleted_as_well),
    "another term": ("the log may have the entry at another place of this order, or of a later leader", another_term),
    "another order": ("a client may delete the objects of a tombstone in any order", another_order),
    "another state": ("a read shows any state of the index since what was told before the call", another_state),
    "not seen again": ("nothing is seen of this process any more, or it has applied nothing more", not_seen_again),
    "another node": ("nothing was seen of this process, so it may be another node's", empty_life),
}
OF_AN_INDEX = Knowledge(contents=contents, equivalences=OF_INDEXES, responses=RESPONSES_OF_INDEXES, held=6)
