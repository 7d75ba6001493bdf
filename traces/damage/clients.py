"""Safety: a survivor is explained only if a correct client could have sent those requests, and drawn the same conclusions.

These equivalences hold for every protocol, as those of survivors.py do. They rest on three facts. A request that changes
nothing at the store may be sent more often than necessary. A response of which a client makes no use need not have been
received. A true response to a caller stays true until an event changes that.
"""

import re
from collections.abc import Iterator
from itertools import takewhile

from highwater.traces.damage.survivors import (
    ENDS,
    GENERAL,
    Equivalences,
    Survivor,
    arrival,
    exchanged,
    independent,
    lost,
    of_client,
    same_but,
    there,
    unread,
    unseen,
    write,
)
from highwater.traces.event import EMPTY, Event
from highwater.traces.form import MUTATIONS, PUTS, READS

WEAK = (  # responses that claim nothing
        "unknown", "not open", "not begun", "not flushed", "not compacted", "remains", "closed",
        "not read", "deleted", "not deleted", "unfinished", "initialising", "change unknown")
NO_EFFECT = ("failed", "version_exists", "refused", "not changed")  # responses that claim that the call had no effect
NUMBER = re.compile(r"\d{20}")
FIRST = re.compile(r"/0{19}1\.")  # in the key of a file that a trace begins with
OF_THE_CALL = "not changed"  # its body is what the call was about: an earlier call may have put that
# Responses that need no read, unless they have one of the answers in BY_READING, which say what a file shows.
CLAIM_NOTHING = (*WEAK, "failed", "version_exists", "not changed")
BY_READING = ("CheckpointEnded", "CheckpointMissing", "DatabaseDestroyed", "InvalidDeletion", "NotInitialized")


# --- questions about clients

def begins(s: Survivor, e: Event) -> bool:
    """Return whether a client may send this request whatever it knows: it begins anew with it."""
    return e.kind != "told" and e.op in s.clients.begins and not (e.op == "list" and e.condition)


def again(one: Event, two: Event) -> bool:
    """Return whether two requests ask for the same: with or without a condition."""
    return one.key == two.key and one.op.removesuffix("_if_changed") == two.op.removesuffix("_if_changed") and (
        one.op != "list" or one.condition == two.condition)


def unused(s: Survivor, e: Event, rest: list[Event]) -> bool:
    """Return whether a client makes no use of a response before it asks again, begins anew, or ends."""
    for o in of_client(e, rest):
        if o.kind == "crash" or (o.kind != "told" and (begins(s, o) or (o.op in READS and again(e, o)))):
            return True
        if (o.kind, o.op) == ("told", "initialising"):
            return True  # its next life begins
        if (o.kind, o.op) == ("told", "fenced") and e.key.endswith(".boundary"):
            return True  # the file alone has told it
        if o.op in MUTATIONS and lost(o, s.damage.events):
            continue
        if o.op in READS and in_vain(e) and e.op in PUTS:
            return True  # it looks again, as it may at any time
        if o.op in MUTATIONS or (o.kind == "told" and not needs_no_read(o)):
            return s.is_free(e) and o.kind != "told"
    return True


def needs_no_read(e: Event) -> bool:
    return e.op in CLAIM_NOTHING and not {*e.keys[1:2]} & {*BY_READING}


def in_vain(e: Event) -> bool:
    """Return whether the store was asked and nothing changed."""
    return e.kind == "applied" and not write(e)


def last_write(s: Survivor, key: str) -> Event | None:
    return next((e for e in reversed(s.good[:s.damage.at]) if write(e) == key), None)


def exists(s: Survivor, key: str) -> bool:
    """Return whether an object of this key exists before the event."""
    last = last_write(s, key)
    return bool(FIRST.search(key)) if last is None else last.op != "delete"


def drops(s: Survivor) -> bool:
    return s.damage.kind == "drop"


# --- equivalences

def asked_again(s: Survivor) -> bool:
    return s.damage.kind == "repeat" and in_vain(s.before) and s.before.op in READS


def deleted_again(s: Survivor) -> bool:
    return s.damage.kind == "repeat" and (s.before.kind, s.before.op) == ("applied", "delete")


def refused_again(s: Survivor) -> bool:
    return s.damage.kind == "repeat" and in_vain(s.before) and s.before.op in PUTS


def lost_again(s: Survivor) -> bool:
    return s.damage.kind == "repeat" and s.before.kind in ENDS


def not_used(s: Survivor) -> bool:
    e = s.before
    if drops(s) and arrival(e) and write(e):
        return unseen(e.key, s.rest)  # it never arrives
    if drops(s) and e.kind == "applied" and write(e):
        return unseen(e.key, s.rest) and unused(s, e, s.rest)  # it was never sent
    if not drops(s) or e.kind == "told" or (e.pending and e.op in MUTATIONS):
        return False
    return arrival(e) or lost(e, s.good) or unused(s, e, s.rest) or repeated(s, e) or is_known(s, e)


def repeated(s: Survivor, e: Event) -> bool:
    """Return whether the client stops waiting, and sends the same request again."""
    o = next(of_client(e, s.rest), None)
    return e.kind in ENDS and o is not None and (o.op, o.key, o.body) == (e.op, e.key, e.body)


def is_known(s: Survivor, e: Event) -> bool:
    """Return whether a client reads what it has put itself, and nobody else has changed since."""
    own = next((o for o in reversed(list(of_client(e, s.good[:s.damage.at]))) if write(o)), None)
    if own is None or own.op not in PUTS:
        return False
    return own.key == max(e.keys, default="") if e.op == "list" else (own.key, own.version) == (e.key, e.version)


def another_asked(s: Survivor) -> bool:
    """Return whether a request that changes nothing moved to another client, and its own client does not need it."""
    e = s.before
    if not same_but(s, "client") or e.kind == "told" or arrival(e) or write(e) or (e.pending and e.op in MUTATIONS):
        return False
    no_harm = e.op in READS or lost(s.after, s.damage.events)
    return no_harm and (lost(e, s.good) or unused(s, e, s.rest) or is_known(s, e))


def another_collects(s: Survivor) -> bool:
    """Return whether a collector does what another one could do as well: it has seen the object."""
    if not same_but(s, "client") or not s.before.client.startswith("Collector") or s.after.client[:9] != "Collector":
        return False
    listed = [o for o in s.good[:s.damage.at] if o.client == s.after.client and o.kind == "applied" and o.awaited]
    return s.is_free(s.before) or (s.before.op == "delete" and any(s.before.key in o.keys for o in listed))


def asked_for_another(s: Survivor) -> bool:
    """Return whether a client asked for another object, made no use of the response, and the same response is true of that."""
    no_effect = s.before.op in READS or s.is_free(s.before) or (s.before.op == "create" and s.after.op == "create")
    if not same_but(s, "key") or not in_vain(s.before) or not no_effect:
        return False
    e, last = s.after, last_write(s, s.after.key)
    content = last is not None and (last.version, last.body) == (e.version, e.body)
    true = content if e.status == 200 else exists(s, e.key) == (e.status != 404)
    return unused(s, s.before, s.rest) and (true or (s.is_free(e) and e.op in READS and not e.body))


def listed_before(s: Survivor) -> bool:
    """Return whether a collector may go on from its listing before: that has the same latest file, and all that it deletes."""
    e = s.before
    if not (drops(s) or same_but(s, "client")) or not e.client.startswith("Collector") or not is_listing(e):
        return False
    earlier = next((o for o in reversed([*of_client(e, s.good[:s.damage.at])]) if o.op == "list" or o.kind == "crash"), None)
    if earlier is None or not is_listing(earlier) or earlier.keys[-1:] != e.keys[-1:]:
        return False
    deletes = {o.key for o in takewhile(lambda o: o.op != "list", of_client(e, s.rest)) if o.op == "delete"}
    return deletes <= {*earlier.keys} and (drops(s) or unused(s, s.after, s.rest))


def listed_the_same(s: Survivor) -> bool:
    """Return whether a client was listed the same latest file before in this call, and all that it deletes later."""
    e = s.before
    if not (drops(s) or same_but(s, "client")) or not is_listing(e):
        return False
    call = [*takewhile(lambda o: o.kind not in ("told", "crash"), reversed([*of_client(e, s.good[:s.damage.at])]))]
    earlier = next((o for o in call if o.op == "list" and o.key == e.key), EMPTY)
    if (earlier.kind, earlier.truncated) != ("applied", False) or earlier.keys[-1:] != e.keys[-1:]:
        return False
    deletes = {o.key for o in takewhile(lambda o: o.op != "list", of_client(e, s.rest)) if o.op == "delete"}
    listed = {key for o in call if o.op == "list" and o.kind == "applied" for key in o.keys}
    return {key for key in deletes if key.startswith(e.key)} <= listed


def asked_before(s: Survivor) -> bool:
    """Return whether a client received the same response to the same request just before."""
    e = s.before
    if not (drops(s) or same_but(s, "client")) or not in_vain(e) or e.op not in READS:
        return False
    last = next(of_client(e, reversed(s.good[:s.damage.at])), EMPTY)
    return last.kind == "applied" and again(last, e) and last[7:12] == e[7:12]


def looked_in_vain(s: Survivor) -> bool:
    """Return whether a collector looked in a round in which it neither deletes nor puts anything any more. If it has listed a
    folder without a boundary: in which it deletes nothing of that folder."""
    e = s.before
    if not (drops(s) or same_but(s, "client", "key")) or not e.client.startswith("Collector"):
        return False
    if not in_vain(e) or e.op not in READS:
        return False
    round_ = takewhile(lambda o: o.kind not in ("told", "crash"), of_client(e, s.rest))
    changed = [o.key for o in round_ if o.op in MUTATIONS]
    name = e.key.rstrip("/").rpartition("/")[2]
    bounded = e.op != "list" or any(o.key.endswith(f"/gc/{name}.boundary") for o in s.good)
    return not changed if bounded else not any(key.startswith(e.key) for key in changed)


def response_lost(s: Survivor) -> bool:
    """Return whether the response to a read was lost: its client stopped waiting for it."""
    ends = [o for o in s.rest if o.kind in ENDS and (o.client, o.request) == (s.before.client, s.before.request)]
    edited = same_but(s, "status", "keys", "truncated", "body", "version")
    return bool(ends) and edited and {s.before.op, s.after.op} <= {*READS}


def any_content(s: Survivor) -> bool:
    """Return whether a data object has another content, which nobody reads."""
    return same_but(s, "body") and bool(write(s.before)) and s.before.op in PUTS and (
        s.before.key.startswith(s.clients.opaque or " ")) and unread(s.before.key, s.rest)


def uploaded_early(s: Survivor) -> bool:
    """Return whether a client puts its next data object before its caller receives the response to the call before."""
    return s.damage.kind.startswith("swap") and all(
        independent(one, two) or is_later(one, two) or (
            one.kind == "told" and two.op == "create" and two.key.startswith(s.clients.opaque or " "))
        for one, two in exchanged(s))


def is_listing(e: Event) -> bool:
    """Return whether this is a listing of all files on one page."""
    return (e.kind, e.op, e.awaited, e.truncated, e.condition) == ("applied", "list", True, False, "")


def collected_less(s: Survivor) -> bool:
    """Return whether a collector did less: nobody looks at what it would have deleted or written, or deletes because of it."""
    e = s.before
    if not drops(s) or e.pending or arrival(e) or e.op not in MUTATIONS or not (e.op == "delete" or s.is_free(e)):
        return False
    if e.kind != "applied" or (e.op == "delete" and not there(e.key, s.good[:s.damage.at])):
        return True
    return unseen(e.key, s.rest) and (e.op == "delete" or not any(o.op == "delete" for o in s.rest))


def collected_another(s: Survivor) -> bool:
    keys, own = (s.before.key, s.after.key), [o for o in s.good if o.client == s.after.client and o.op == "delete"]
    old = s.is_free(s.before) or any(o.key >= s.after.key for o in own)  # it deletes a later one too
    return same_but(s, "key") and s.before.op == s.after.op == "delete" and old and all(
        unseen(key, s.rest) or not exists(s, key) for key in keys)


def never_read_since(s: Survivor) -> bool:
    """Return whether a boundary is moved to another id, nobody reads it afterwards, and nothing ahead of it is deleted."""
    key = write(s.before)
    if not key.endswith(".boundary") or not same_but(s, "body") or not unread(key, s.rest):
        return False
    return s.is_free(s.before) or (s.after.body.isdigit() and not deleted_beyond(s, int(s.after.body)))


def deleted_beyond(s: Survivor, boundary: int) -> bool:
    """Return whether a file ahead of this boundary is deleted before the boundary is put again."""
    key = s.before.key
    folder = key.replace("/gc/", "/").removesuffix(".boundary") + "/"
    until = takewhile(lambda o: write(o) != key, s.rest)
    ids = [NUMBER.search(o.key) for o in until if o.op == "delete" and o.key.startswith(folder)]
    return any(int(of[0]) > boundary for of in ids if of)


def ended_otherwise(s: Survivor) -> bool:
    """Return whether the client waits no more in either case, and what it knew before is of no use."""
    return same_but(s, "kind") and {s.before.kind, s.after.kind} == {"timeout", "crash"} and (
        unused(s, s.before, s.rest) or s.before.op == "delete")


def heard_or_not(s: Survivor) -> bool:
    """Return whether a call was cancelled before or after a response of which its client makes no use."""
    lost_reply = s.before.kind == "timeout" and not lost(s.before, s.good)
    return same_but(s, "awaited") and lost_reply and (s.before.op == "delete" or unused(s, s.before, s.rest))


def told_again(s: Survivor) -> bool:
    """Return whether a caller receives a response that it received before, or one of a client that has read the same."""
    if s.damage.kind == "duplicate":
        return s.before.kind == "told"
    e, last = s.after, next((o for o in reversed(s.good[:s.damage.at]) if o.client == s.after.client), None)
    same = e.op == "read" and last is not None and (last.kind, last.op, last.key) == ("applied", "get", e.key)
    return s.before.kind == "told" and same_but(s, "client") and (same or any(
        (o.kind, o.client, o.op, o.body) == ("told", e.client, e.op, e.body) for o in s.good[:s.damage.at]))


def claims_little(s: Survivor) -> bool:
    return s.before.kind == "told" and same_but(s, "op", "client", "body") and s.after.op in WEAK


def true_as_well(s: Survivor) -> bool:
    """Return whether a caller is told that its call had no effect, and it had none: neither did its client write anything since
    the response before, nor does any put have the update."""
    if s.before.kind != "told" or not same_but(s, "op", "client", "body") or not (
            s.after.op in NO_EFFECT or (s.damage.field == "body" and s.after.op == "fenced")):
        return False
    own = [o for o in s.good[:s.damage.at] if o.client == s.after.client]
    last = max((i for i, o in enumerate(own) if o.kind == "told"), default=-1)
    puts = [o for o in s.good[:s.damage.at] if o.op in PUTS and (write(o) or o.pending)]
    data = s.clients.opaque or " "  # which no file names yet
    return not any(write(o) or (o.pending and o.op in MUTATIONS) for o in own[last + 1:] if not o.key.startswith(data)) and (
        not s.after.body or s.after.op == OF_THE_CALL or not any(s.after.body in o.body for o in puts))


def in_another_order(s: Survivor) -> bool:
    return s.before.kind == "told" and same_but(s, "body") and sorted(s.before.body.split()) == sorted(s.after.body.split())


def told_later(s: Survivor) -> bool:
    """Return whether a response is received a moment later, or a request is lost at another moment."""
    return s.damage.kind.startswith("swap") and all(
        independent(*pair) or is_later(*pair) or any(is_lost(s, e) for e in pair) for pair in exchanged(s))


def is_lost(s: Survivor, e: Event) -> bool:
    """Return whether a request was lost before it reached the store, and will not reach it."""
    return lost(e, s.good) and not e.pending


def is_later(one: Event, two: Event) -> bool:
    """Return whether a response is told after an event that changed nothing; or before it, if it claims nothing."""
    if one.kind == "told":
        return one.op in WEAK or not write(two) or (one.op in CLAIM_NOTHING and one.client != two.client)
    needless = two.op in CLAIM_NOTHING or (two.op == "fenced" and one.key.endswith(".boundary"))
    return two.kind == "told" and not write(one) and (one.client != two.client or needless)


def nothing_to_overwrite(s: Survivor) -> bool:
    """Return whether a create became an unconditional put where no object is."""
    return same_but(s, "op") and (s.before.op, s.after.op) == ("create", "put") and bool(write(s.before))


def means_the_same(s: Survivor) -> bool:
    """Return whether nobody reads the changed content, which has the same meaning."""
    return same_but(s, "body") and s.before.op in PUTS and bool(s.meaning(s.before)) and (
        s.meaning(s.before) == s.meaning(s.after)) and unread(s.before.key, s.rest)


def lists_from_the_first(s: Survivor) -> bool:
    """Return whether no key lies between the old beginning of a listing and the new one."""
    if not same_but(s, "condition") or s.before.op != "list":
        return False
    low, high = sorted((s.before.condition, s.after.condition))
    return not any(key.startswith(s.before.key) and low < key <= high for key in written(s))


def written(s: Survivor) -> Iterator[str]:
    return (e.key for e in s.good[:s.damage.at] if write(e))


OF_ALL: Equivalences = {
    **GENERAL,
    "asked again": ("a read changes nothing, so a client may send it twice", asked_again),
    "deleted again": ("a second delete of the same object changes nothing", deleted_again),
    "refused again": ("a put whose condition failed may be sent twice, and fails again", refused_again),
    "lost again": ("the client sends its request once more, and that one is lost before it reaches the store", lost_again),
    "not used": ("it changed nothing, and its client made no use of the response before it asked again, began anew or ended",
                 not_used),
    "another asked": ("it changed nothing, its own client made no use of it, and any client may ask", another_asked),
    "another collects": ("the other collector has listed that object too", another_collects),
    "asked for another": ("the client asked for another object, and made no use of the response", asked_for_another),
    "listed before": ("a collector may go on from the listing before, which has all that it deletes", listed_before),
    "listed the same": ("its client was listed the same latest file before in this call, and all that it deletes",
                        listed_the_same),
    "asked before": ("its client received the same response to the same request just before", asked_before),
    "looked in vain": ("a collector that deletes and puts nothing more in this round need not look", looked_in_vain),
    "response lost": ("the response to a read was lost, so nobody saw it", response_lost),
    "any content": ("the content of a data object means nothing to the protocol, and nobody reads it", any_content),
    "collected less": ("a collector need not delete or write what nobody looks at any more", collected_less),
    "never read since": ("the boundary moves to another old id, and nobody reads it afterwards", never_read_since),
    "collected another": ("a collector may delete any old object, and nobody looks at either any more", collected_another),
    "ended otherwise": ("a time-out and a crash are the same to a client that begins anew", ended_otherwise),
    "heard or not": ("the call is cancelled before or after a response of which nobody makes use", heard_or_not),
    "told again": ("a caller receives the same true response twice", told_again),
    "claims little": ("the response claims nothing", claims_little),
    "true as well": ("the call had no effect, and its caller is told so", true_as_well),
    "in another order": ("a set of names is told in another order", in_another_order),
    "told later": ("a response is received, or a request is lost, a moment later, and nothing has changed meanwhile",
                   told_later),
    "uploaded early": ("a client may put its next data object, which nothing names, before it tells its caller",
                       uploaded_early),
    "nothing to overwrite": ("an unconditional put where no object exists equals a create", nothing_to_overwrite),
    "means the same": ("nobody reads the content, and its meaning is the same", means_the_same),
    "lists from the first": ("no key lies between the two beginnings of the listing", lists_from_the_first),
}
