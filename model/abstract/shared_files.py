"""Safety: each SST that an initialized clone reads from its parent is there, and a parent goes only once nothing pins it.

A parent and its clones each have a manifest, put if it is still what was read. A checkpoint in the parent's manifest pins SSTs.
A clone's manifest names the SSTs of the parent that it reads; its final checkpoint pins them there. What a client may do
follows from what it has read and been told:

    create a final checkpoint    it knows the clone and the parent's manifest, which is not marked and pins these SSTs already
    initialize a clone           it knows that the final checkpoint is there, unless the clone names nothing
    open a clone for writing     it knows the clone to be initialized
    rewrite a clone              it names no SST more than before
    detach                       it knows that the clone is initialized and names nothing: it removes the final checkpoint
    leave                        it knows that the final checkpoint is gone: it removes the parent from the clone's manifest
    delete an SST                it knows a manifest of the parent that neither has nor pins it
    mark the parent              it knows the parent's manifest, which pins nothing
    delete the parent            it knows a marked manifest of the parent that pins nothing

A request in flight may reach the store at any time, more than once, or never.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, clients, forget, store

Names = frozenset[int]
Pin = tuple[int | None, Names]  # (the clone whose final checkpoint it is, or None; the SSTs that it keeps)
NONE: frozenset[Any] = frozenset()


class Parent(NamedTuple):
    names: Names = NONE  # the SSTs of the latest manifest
    pins: frozenset[Pin] = NONE
    marked: bool = False  # it is to be deleted


class Clone(NamedTuple):
    names: Names = NONE  # the parent's SSTs that its manifest, or one that a checkpoint of it keeps, refers to
    initialized: bool = False
    attached: bool = True  # the manifest has the parent


FIRST = Parent(frozenset({0}))
PINNED = Parent(frozenset({0}), frozenset({(0, frozenset({0}))}))
CLONED = (Clone(frozenset({0}), True),)


class Constants(NamedTuple):
    CLIENTS: int = 1
    CLONES: int = 1
    PENDING: int = 0  # only for exploring this model by itself: requests in flight at once
    FIRST: Parent = FIRST
    FIRST_CLONES: tuple[Clone, ...] = ()  # that there are at the beginning
    # Safeguards. OFF says which property fails without one
    FINAL_NEEDS_SOURCE: bool = True  # a final checkpoint is only put where a checkpoint keeps its SSTs already
    FINAL_FIRST: bool = True  # a clone is initialized only after its final checkpoint is there
    OPEN_INITIALIZED: bool = True  # only an initialized clone is opened for writing
    NAMES_SHRINK: bool = True  # a clone never names an SST of its parent again
    DETACH_UNNAMED: bool = True  # a final checkpoint is removed only if its clone names nothing that it keeps
    PARENT_FIRST: bool = True  # a clone leaves its parent only after its final checkpoint is gone
    SPARE_PINNED: bool = True  # an SST that a checkpoint keeps is not deleted
    CHECK_PINS: bool = True  # a database with a checkpoint is neither marked nor deleted
    CLOSED: bool = True  # a marked database gets no checkpoint
    MARK_FIRST: bool = True  # a database is marked, in an update of the manifest, before anything of it is deleted


INSTANCES: tuple[dict[str, Any], ...] = (  # of which the nearest states are visited
    {},
    {"FIRST": PINNED, "FIRST_CLONES": CLONED},
    {"FIRST": Parent()},
    {"CLONES": 2, "FIRST": PINNED, "FIRST_CLONES": CLONED},
    {"PENDING": 1},
)
OFF: tuple[tuple[dict[str, Any], str], ...] = (  # and the property that fails
    ({"FINAL_NEEDS_SOURCE": False}, "NamedIsKept"),
    ({"FINAL_FIRST": False}, "InitializedIsPinned"),
    ({"OPEN_INITIALIZED": False}, "NamedIsKept"),
    ({"NAMES_SHRINK": False, "FIRST": PINNED, "FIRST_CLONES": CLONED}, "InitializedIsPinned"),
    ({"DETACH_UNNAMED": False, "FIRST": PINNED, "FIRST_CLONES": CLONED}, "InitializedIsPinned"),
    ({"PARENT_FIRST": False, "FIRST": PINNED, "FIRST_CLONES": CLONED}, "NoPinIsLost"),
    ({"SPARE_PINNED": False, "FIRST": PINNED, "FIRST_CLONES": CLONED}, "NamedIsKept"),
    ({"CHECK_PINS": False, "FIRST": PINNED, "FIRST_CLONES": CLONED}, "NamedIsKept"),
    ({"CLOSED": False}, "DeletedIsUnpinned"),
    ({"MARK_FIRST": False}, "DeletedIsUnpinned"),
)
LIMITS = {"CLIENTS": MANY[1:], "CLONES": MANY[1:], "PENDING": MANY}


class Shared(NamedTuple):
    parent: Parent  # its latest manifest, also if it is deleted
    clones: tuple[Clone | None, ...]
    ssts: Names  # of the parent, that are in the store
    flying: frozenset[tuple]  # requests that may still reach the store
    # ghosts
    deleted: bool  # a request to delete the database was sent
    opened: frozenset[int]  # clones with a writer
    finals: frozenset[int]  # clones whose final checkpoint has been put
    removed: frozenset[int]  # clones whose final checkpoint has been removed, though a late client may have put it again


class Client(NamedTuple):
    parents: frozenset[Parent] = NONE  # manifests that it has read or put
    clones: frozenset[tuple[int, Clone]] = NONE  # the same
    pinned: frozenset[int] = NONE  # clones whose final checkpoint was there
    unnamed: frozenset[int] = NONE  # clones that are initialized and name nothing, now or later
    gone: frozenset[int] = NONE  # clones whose final checkpoint is gone, as they name nothing any more
    unpinned: Names = NONE  # SSTs that no manifest of the parent has or pins, now or later


def forgets(before: Client, after: Client) -> bool:
    return all(less <= more for less, more in zip(after, before))


def kept(parent: Parent) -> Names:
    return parent.names | {name for _, names in parent.pins for name in names}


def final(parent: Parent, k: int) -> frozenset[Pin]:
    return frozenset(pin for pin in parent.pins if pin[0] == k)


# --- what a client knows once it has read or put a manifest

def learns_parent(c: Constants, w: Client, parent: Parent) -> Client:
    pinned = frozenset(k for k in range(c.CLONES) if final(parent, k))
    return w._replace(parents=w.parents | {parent}, pinned=w.pinned | pinned, gone=w.gone | (w.unnamed - pinned),
                      unpinned=w.unpinned | (SSTS - kept(parent)))


def learns_clone(w: Client, k: int, clone: Clone) -> Client:
    unnamed = frozenset({k} if clone.initialized and not clone.names else ())
    return w._replace(clones=w.clones | {(k, clone)}, unnamed=w.unnamed | unnamed)


SSTS: Names = frozenset({0})  # that this model makes up


# --- what a client may change in the parent's manifest: each returns whether it may, and what it puts

def may_checkpoint(c: Constants, me: int, w: Client, base: Parent) -> bool:
    return base in w.parents and is_open(c, base)


def checkpointed(base: Parent) -> Parent:
    return base._replace(pins=base.pins | {(None, base.names)})


def may_expire(c: Constants, me: int, w: Client, base: Parent) -> bool:
    return base in w.parents


def expired(base: Parent) -> Parent:
    return base._replace(pins=frozenset(pin for pin in base.pins if pin[0] is not None))


def compacted(base: Parent) -> Parent:
    return base._replace(names=NONE)


def may_create_final(c: Constants, me: int, w: Client, base: Parent, k: int) -> bool:
    return base in w.parents and is_open(c, base) and any([has_source(c, base, clone) for clone in known(w, k)])


def known(w: Client, k: int) -> list[Clone]:
    return [clone for at, clone in w.clones if at == k]


def is_open(c: Constants, base: Parent) -> bool:
    return not base.marked or not c.CLOSED


def has_source(c: Constants, base: Parent, clone: Clone) -> bool:
    return not clone.names or any([clone.names <= names for _, names in base.pins]) or not c.FINAL_NEEDS_SOURCE


def with_final(base: Parent, k: int, names: Names) -> Parent:
    return base._replace(pins=base.pins | {(k, names)})


def may_detach(c: Constants, me: int, w: Client, base: Parent, k: int) -> bool:
    return base in w.parents and is_unnamed(c, w, k)


def is_unnamed(c: Constants, w: Client, k: int) -> bool:
    return k in w.unnamed or not c.DETACH_UNNAMED


def detached(base: Parent, k: int) -> Parent:
    return base._replace(pins=base.pins - final(base, k))


def may_mark(c: Constants, me: int, w: Client, base: Parent) -> bool:
    return base in w.parents and is_unpinned(c, base)


def is_unpinned(c: Constants, base: Parent) -> bool:
    return not base.pins or not c.CHECK_PINS


def marked(base: Parent) -> Parent:
    return base._replace(marked=True)


# --- what a client may change in a clone's manifest

def may_initialize(c: Constants, me: int, w: Client, k: int, clone: Clone) -> bool:
    return (k, clone) in w.clones and is_pinned(c, w, k, clone)


def is_pinned(c: Constants, w: Client, k: int, clone: Clone) -> bool:
    return k in w.pinned or not clone.names or not c.FINAL_FIRST


def initialized(clone: Clone) -> Clone:
    return clone._replace(initialized=True)


def may_open(c: Constants, me: int, w: Client, k: int, clone: Clone) -> bool:
    return (k, clone) in w.clones and is_initialized(c, clone)


def is_initialized(c: Constants, clone: Clone) -> bool:
    return clone.initialized or not c.OPEN_INITIALIZED


def may_rewrite(c: Constants, me: int, w: Client, k: int, clone: Clone, names: Names) -> bool:
    return (k, clone) in w.clones and shrinks(c, clone, names)


def shrinks(c: Constants, clone: Clone, names: Names) -> bool:
    return names <= clone.names or not c.NAMES_SHRINK


def may_leave(c: Constants, me: int, w: Client, k: int, clone: Clone) -> bool:
    return (k, clone) in w.clones and is_gone(c, w, k)


def is_gone(c: Constants, w: Client, k: int) -> bool:
    return k in w.gone or not c.PARENT_FIRST


def left(clone: Clone) -> Clone:
    return clone._replace(attached=False)


# --- what a client may delete

def may_delete(c: Constants, me: int, w: Client, i: int) -> bool:
    return i in w.unpinned or not c.SPARE_PINNED


def may_delete_parent(c: Constants, me: int, w: Client, base: Parent) -> bool:
    return base in w.parents and (base.marked or not c.MARK_FIRST) and is_unpinned(c, base)


# --- a client: GET, and PUT if the manifest is what it knows

def read_parent(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    yield (), s, learns_parent(c, w, s.parent)


def read_clone(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    for k, clone in enumerate(s.clones):
        if clone is not None:
            yield (k,), s, learns_clone(w, k, clone)


def make(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """Create the first manifest of a clone: it names what a manifest of the parent has or pins."""
    for k, clone in enumerate(s.clones):
        for base in sorted(w.parents, key=str):
            if clone is None:
                first = Clone(kept(base))
                yield (k, base), with_clone(s, k, first), learns_clone(w, k, first)


def with_clone(s: Shared, k: int, clone: Clone) -> Shared:
    return s._replace(clones=(*s.clones[:k], clone, *s.clones[k + 1:]))


def with_parent(s: Shared, parent: Parent) -> Shared:
    was, now = ({k for k, _ in of.pins if k is not None} for of in (s.parent, parent))
    return s._replace(parent=parent, finals=s.finals | now, removed=s.removed | (was - now))


def updates(c: Constants, s: Shared, w: Client, me: int) -> Iterator[tuple[str, tuple, Any, Any]]:
    """Each (action, its choice, the manifest that the client knows, what it may put instead)."""
    for base in sorted(w.parents, key=str):
        if may_checkpoint(c, me, w, base):
            yield "Checkpoint", (base,), base, checkpointed(base)
        yield "Expire", (base,), base, expired(base)
        yield "Compact", (base,), base, compacted(base)
        if may_mark(c, me, w, base):
            yield "Mark", (base,), base, marked(base)
        for k, clone in sorted(w.clones, key=str):
            if clone.names and not clone.initialized and may_create_final(c, me, w, base, k):
                yield "CreateFinal", (base, k), base, with_final(base, k, clone.names)
            if may_detach(c, me, w, base, k):
                yield "Detach", (base, k), base, detached(base, k)
    for k, clone in sorted(w.clones, key=str):
        if may_initialize(c, me, w, k, clone):
            yield "Initialize", (k, clone), clone, initialized(clone)
        for names in (NONE, SSTS):
            if clone.initialized and clone.attached and may_rewrite(c, me, w, k, clone, names):
                yield "Rewrite", (k, clone, names), clone, clone._replace(names=names)
        if clone.initialized and may_leave(c, me, w, k, clone):
            yield "Leave", (k, clone), clone, left(clone)


def update(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    for kind, choice, base, after in updates(c, s, w, me):
        if after == base:
            continue
        if isinstance(base, Parent) and base == s.parent:
            yield (kind, *choice), with_parent(s, after), learns_parent(c, w, after)
        elif isinstance(base, Clone) and base == s.clones[choice[0]]:
            yield (kind, *choice), with_clone(s, choice[0], after), learns_clone(w, choice[0], after)


def opens(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """Put a manifest of the clone with a writer's epoch."""
    for k, clone in sorted(w.clones, key=str):
        if clone == s.clones[k] and may_open(c, me, w, k, clone):
            yield (k,), s._replace(opened=s.opened | {k}), w


def delete(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    for i in sorted(s.ssts):
        if may_delete(c, me, w, i):
            yield (i,), s._replace(ssts=s.ssts - {i}), w


def delete_parent(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    for base in sorted(w.parents, key=str):
        if may_delete_parent(c, me, w, base):
            yield (base,), s._replace(ssts=NONE, deleted=True), w


def send(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """A request for whose reply the client does not wait."""
    if len(s.flying) < c.PENDING:
        for kind, choice, base, after in updates(c, s, w, me):
            if after != base:
                yield (kind, *choice), s._replace(flying=s.flying | {(kind, choice, base, after)}), w
        for i in sorted(s.ssts):
            if may_delete(c, me, w, i):
                yield ("Delete", i), s._replace(flying=s.flying | {("Delete", (i,), None, None)}), w


def may_send(c: Constants, me: int, w: Client, kind: str, *what: Any) -> bool:
    return MAY[kind](c, me, w, *what)


# --- the store: a request in flight is applied, or is gone

def apply(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for request in sorted(s.flying, key=str):
        kind, choice, base, after = request
        if kind == "Delete":
            yield (kind, *choice), s._replace(ssts=s.ssts - set(choice)), ()
        elif isinstance(base, Parent) and base == s.parent:
            yield (kind, *choice), with_parent(s, after), ()
        elif isinstance(base, Clone) and base == s.clones[choice[0]]:
            yield (kind, *choice), with_clone(s, choice[0], after), ()


def drop(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for request in sorted(s.flying, key=str):
        yield request[:1], s._replace(flying=s.flying - {request}), ()


# --- properties

def in_use(s: Shared) -> list[tuple[int, Clone]]:
    """The clones that somebody may read or write."""
    return [(k, clone) for k, clone in enumerate(s.clones) if clone and (clone.initialized or k in s.opened)]


def named_is_kept(c: Constants, s: Shared) -> bool:
    return all(clone.names <= s.ssts for _, clone in in_use(s))


def initialized_is_pinned(c: Constants, s: Shared) -> bool:
    return all(any(clone.names <= names for _, names in final(s.parent, k)) or not clone.names
               for k, clone in enumerate(s.clones) if clone and clone.initialized)


def no_pin_is_lost(c: Constants, s: Shared) -> bool:
    """A clone has the parent in its manifest until its final checkpoint is removed, so that somebody removes it."""
    return all(clone.attached or k not in s.finals - s.removed for k, clone in enumerate(s.clones) if clone)


def deleted_is_unpinned(c: Constants, s: Shared) -> bool:
    return not (s.deleted and s.parent.pins)


CLIENT = {"ReadParent": read_parent, "ReadClone": read_clone, "Make": make, "Update": update, "Open": opens, "Delete": delete,
          "DeleteDb": delete_parent, "Send": send, "Forget": forget}
MAY = {"Checkpoint": may_checkpoint, "CreateFinal": may_create_final, "Detach": may_detach, "Mark": may_mark,
       "Initialize": may_initialize, "Open": may_open, "Rewrite": may_rewrite, "Leave": may_leave, "Delete": may_delete,
       "DeleteDb": may_delete_parent}  # requests
STORE = {"Apply": apply, "Drop": drop}
ALWAYS = {
    "NamedIsKept": (None, named_is_kept),
    "InitializedIsPinned": (None, initialized_is_pinned),
    "NoPinIsLost": (None, no_pin_is_lost),
    "DeletedIsUnpinned": (None, deleted_is_unpinned),
}

GUARDS = {  # name -> (guard, True if a log with a step that it refuses counts as one that breaks a property)
    "FINAL_NEEDS_SOURCE": (has_source, True),
    "FINAL_FIRST": (is_pinned, True),
    "OPEN_INITIALIZED": (is_initialized, True),
    "NAMES_SHRINK": (shrinks, True),
    "DETACH_UNNAMED": (is_unnamed, True),
    "PARENT_FIRST": (is_gone, False),
    "SPARE_PINNED": (may_delete, True),
    "CHECK_PINS": (is_unpinned, True),
    "CLOSED": (is_open, True),
}


def model(c: Constants) -> Model:
    clones = c.FIRST_CLONES + (None,) * (c.CLONES - len(c.FIRST_CLONES))
    first = Shared(c.FIRST, clones, SSTS, NONE, False, NONE, frozenset(k for k, _ in c.FIRST.pins if k is not None), NONE)
    return Model("shared_files", c, first, (*clients(("Client", c.CLIENTS, Client(), CLIENT)), store(STORE)), ALWAYS, {})
