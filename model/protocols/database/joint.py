"""Safety: a joint step is one request to a store, together with the steps of the parts that it means.

The parts whose states are files take the step first: it says what is possible. The others follow. If one cannot, the step is
taken nevertheless, and noted: the property PartsFollow fails.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from highwater.model.compose import Follow, Names, Ways, alone, within
from highwater.model.parts import top
from highwater.model.protocols import sequenced_metadata_boundary as sequence
from highwater.model.protocols.database.clients import actor, view
from highwater.model.protocols.database.constants import Constants, parts
from highwater.model.protocols.database.history import LANDS, content_of, follows, intent_of, may_follow
from highwater.model.protocols.database.state import Flight, Shared, Writer

CONTENTS = {"manifest": "manifests", "compactions": "compacting"}  # part -> the field with the contents of its files


def created(before: sequence.Shared, after: sequence.Shared) -> int:
    """Return the id of the file that a step creates, or 0."""
    if before.files is after.files:
        return 0
    return next((i for i, file in enumerate(after.files, 1)
                 if file and not (i <= len(before.files) and before.files[i - 1])), 0)


def with_contents(s: Shared, s2: Shared, part: str, content: Any = None) -> Shared:
    """Keep the contents of the files that are there, and add that of a file that a step creates."""
    before, after = getattr(s, part), getattr(s2, part)
    if before.files is after.files or before.files == after.files:
        return s2
    new, old = created(before, after), getattr(s, CONTENTS[part])
    found = tuple(None if not file else content if i == new else old[i - 1] for i, file in enumerate(after.files, 1))
    return s2._replace(**{CONTENTS[part]: found})



def always(c: Constants, me: int, s: Shared, w: Any) -> bool:
    return True


def any_part(role: str, part: str, s: Shared, w: Any) -> bool:
    return True


def no_more(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    return s2, w2


class Joint(NamedTuple):
    """One request: the part whose store it reaches and what its client does there, and what the other parts do with it."""

    part: str = "manifest"
    takes: Names = ()
    when: Callable[..., bool] = always  # f(constants, own index, shared, local): the composition's own condition
    puts: Mapping[str, Follow] = {}  # kind of update -> what the parts do when it joins the history, or is sent
    unheard: Mapping[str, Follow] = {}  # the same, if the client will not hear of it
    must: Mapping[str, Ways] = {}  # what other parts do with it
    may: Mapping[str, Ways] = {}  # the same, if they can
    believes: Mapping[str, Ways] = {}  # what the client takes it for, with a safeguard of the composition switched off
    whose: Callable[..., bool] = any_part  # f(role, part, shared, local): which of `may`
    then: Callable[..., tuple[Shared, Any]] = no_more  # f(constants, own index, shared, local, both after)


def request(role: str, of: Joint, c: Constants, me: int, s: Shared, w: Any) -> Iterator:
    """Take a joint step: first the client's own part, then the others."""
    if not of.when(c, me, s, w):
        return
    for choices, s2, w2 in within(actor(c, role, me, of.part), of.takes, parts(c), s, w):
        if of.part in CONTENTS and not of.puts:
            s2 = with_contents(s, s2, of.part)
        for chosen, s3, w3 in put(role, of, c, me, s, w, s2, w2) if of.puts else [((), s2, w2)]:
            if not allowed(role, choices):
                continue
            may = {part: ways for part, ways in of.may.items() if of.whose(role, part, s, w)}
            s3, w3 = may_follow(c, role, me, *follows(c, role, me, s3, w3, of.must), may)
            yield (*choices, *chosen), *settled(of.part, w, *of.then(c, me, s, w, s3, w3))


def allowed(role: str, choices: tuple) -> bool:
    """Only an operator changes checkpoints."""
    change = choices[0][0] if choices and isinstance(choices[0], tuple) else ""
    return role not in ("Writer", "Compactor") or change not in ("Take", "Drop", "Renew")


def settled(part: str, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    """Forget a base that is no longer needed, and an update whose outcome is known."""
    if part not in CONTENTS or not hasattr(w2, "base"):
        return s2, w2
    before, after = getattr(w, part), getattr(w2, part)
    if w2.base is not None and after.pc not in ("Ready", "Prechecked"):
        w2 = w2._replace(base=None)
    if after.k > before.k and getattr(w2, "intent", None):
        w2 = w2._replace(intent=None, heard=None)
    return s2, w2


def put(role: str, of: Joint, c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> Iterator:
    """A create: it joins the history, or it is applied at or behind the boundary, or it is in flight."""
    intent = intent_of(role, of.part, s, w)
    content = content_of(c, role, me, intent, w.base)
    if hasattr(w2, "intent"):
        w2 = w2._replace(intent=intent)
    files, i = getattr(s, of.part), created(getattr(s, of.part), getattr(s2, of.part))
    if not i:
        pool = getattr(s2, of.part).pool
        flight = Flight(of.part, next(one for one in pool if pool.count(one) > files.pool.count(one)), intent.kind, content)
        s2 = s2._replace(flights=tuple(sorted((*s.flights, flight), key=lambda one: one[:3])))
        latest_is_base = getattr(w, of.part).n == top(files.files)
        yield (), *follows(c, role, me, s2, w2, of.puts[intent.kind] if latest_is_base else {})
        return
    s2 = with_contents(s, s2, of.part, content)
    if i <= files.boundary:
        yield (), s2, w2 if c.FENCE_CHECKED or intent.kind != "Open" else believes_claim(c, me, w, w2)
        return
    if intent.kind not in of.unheard:
        yield (), *follows(c, role, me, s2, w2, of.puts[intent.kind])
        return
    yield ("heard",), *follows(c, role, me, s2, w2._replace(heard=True), of.puts[intent.kind])
    if getattr(w2, of.part).k == getattr(w, of.part).k:
        yield ("unheard",), *follows(c, role, me, s2, w2._replace(heard=False), of.unheard[intent.kind])


def believes_claim(c: Constants, me: int, w: Writer, w2: Writer) -> Writer:
    """Return the writer with the claim that it would have if its file were in the history."""
    found = alone(actor(c, "Writer", me, "wal"), LANDS["Open"]["wal"], parts(c), view(c, "wal", "manifest", w.base), w.wal)
    return w2._replace(wal=found[1]) if found else w2
