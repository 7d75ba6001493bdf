"""Simulate the boundary protocol's clients with update ids, the amendment of docs/protocols/committed-but-rejected.md.

Writers repeat a refused or indeterminate update and look for its id (`MetadataStore.update_once`). The model is
sequenced_metadata_boundary's with ON_REFUSAL = "recognised". Collectors and readers are as in that scenario.

In some runs writers use sessions (impl/protocols/update_ids.py), of which few may be remembered. The update "w.k" opens the
session of this name if k is a multiple of `per_session`; the updates up to the next multiple are those of the session. So a
writer that crashed knows them. A writer whose session was forgotten goes on with update ids.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from highwater.dst.actors import Actors, raise_anomalies, said_by
from highwater.dst.scenario import RARE, BaseShape, Cached, Draw
from highwater.dst.scenarios import sequenced_metadata_boundary as boundary
from highwater.dst.scenarios.sequenced_metadata_boundary import key_of, made, shown
from highwater.dst.scripts import update_ids as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies, Recognised
from highwater.impl.protocols.update_ids import Session, SessionForgotten, Table, noted
from highwater.impl.world import World
from highwater.traces.calls import UNFINISHED, own
from highwater.traces.event import Event
from highwater.traces.protocols.sequenced_metadata_boundary import CLAIMS, Trace, constants, refiner, update_of
from highwater.traces.protocols.sequenced_metadata_boundary_calls import CALLS
from highwater.traces.refine import STUTTER, Match, Refiner, refiner_of


@dataclass(frozen=True)
class Shape(boundary.Shape):
    per_session: int = 0  # updates of a session, its opening among them; 0: no sessions
    capacity: int = 1000  # number of sessions that are remembered


class Content(Manifest):
    """A content in which a session that is opened counts as an update with the session's name."""

    def _replace(self, **changes: Any) -> "Content":
        made = super()._replace(**changes)
        new = [session for session, number in made.sessions if not number and session not in dict(self.sessions)]
        return made._replace(updates=(*made.updates, *new)) if new else made


class ContentCodec:
    """The codec of contents."""

    encode = staticmethod(UPDATES.encode)

    @staticmethod
    def decode(body: bytes) -> Content:
        return Content(*UPDATES.decode(body))


Codec = Cached(ContentCodec)


class Store(MetadataStore):
    """A client. Mutants replace its kind of session."""

    session: type[Session] = Session


class SessionTrace(Trace):
    """The trace of writers that may find their session forgotten. Such a writer reads the boundary, and begins its update anew:
    after telling its caller, if the file that it read is ahead of the boundary."""

    def __init__(self, refiner: Refiner, namespace: Any, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.last_reads: dict[str, tuple[int, int]] = {}  # client -> file and boundary read before its last "forgotten"

    def _boundary(self, e: Event, role: str) -> Match:
        usual = super()._boundary(e, role)
        if role != "Writer" or e.op not in ("get", "get_if_changed"):
            return usual
        value = 0 if e.status == 404 else int(e.body) if e.status == 200 else None  # 304 shows no value
        return usual._replace(actions=(*usual.actions, "LoseReply"), agrees=lambda a, s, l, s2, l2: value in (
            None, s.boundary) and (a != "LoseReply" or l.pc == "Ready"))

    def _told_of(self, e: Event) -> str | None:
        if e.op != "forgotten":
            if e.op in CLAIMS:
                self._decides(e)
            return super()._told_of(e)
        last, (file_id, known) = self._last_of(e), self._last_reads_of(e.client)
        if last is None or last.kind != "applied" or last.key != self.namespace.boundary_key or file_id <= known:
            raise self._misled(e, "it has read no file that is ahead of a boundary read after it")
        return self._tells(e, Match(e.client, (STUTTER,), (), lambda a, s, l, s2, l2: l.pc == "Idle"))

    def _last_reads_of(self, client: str) -> tuple[int, int]:
        """Return the id of the file that a client read last, and the boundary that it read last; 0: it has read none."""
        file_id = known = -1
        for old in own(self, client):
            if old.op == "forgotten":  # what was read before it is known
                before = self.last_reads.get(client, (0, 0))
                file_id, known = before[0] if file_id < 0 else file_id, before[1] if known < 0 else known
            elif old.op in ("get", "get_if_changed") and old.kind == "applied" and old.awaited and old.body:
                if old.key != self.namespace.boundary_key:
                    file_id = self.namespace.file_id(old.key) or 0 if file_id < 0 else file_id
                elif known < 0:
                    known = int(old.body)
            if min(file_id, known) >= 0:
                break
        found = self.last_reads[client] = max(file_id, 0), max(known, 0)
        return found

    def _decides(self, e: Event) -> None:
        """Follow only the states that agree with a response: a boundary that was read twice has left several."""
        writer, number = update_of(e.client, e.body)
        right = {"committed": (self.namespace.file_id(e.key),), "recognised": (0,)}.get(e.op)

        def agrees(a: Any, s: Any, l: Any, s2: Any, l2: Any) -> bool:
            found = sorted(i for i, w, k in s.acked if (w, k) == (writer, number))
            return l.pc == "Idle" and (not right or right[0] in found) and not (found and e.op == "failed")

        self._tells(e, Match(e.client, (STUTTER,), (), agrees))


def draw_shape(of: Draw) -> Shape:
    usual = boundary.draw_shape(of)._replace(manifest=False, sdk="")
    return Shape(**usual._asdict(), per_session=of("per_session", 0, 0, 2, 3), capacity=of("capacity", 1000, 2, 3))


def trace_of(shape: Shape) -> Trace:
    page = shape.page_size if shape.page_size < 1000 else 0
    of = constants(*boundary.MOST.values(), page_size=page, checkpoints=False, on_refusal="recognised")
    return SessionTrace(refiner_of(refiner, of), boundary.namespace(shape), shape.skew_ms)


def production(world: World, where: Namespace, spare_checkpoints: bool, client: int) -> Store:
    return Store(world, where, Codec, Policies(spare_checkpoints=spare_checkpoints))


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    """Try each update until it is acknowledged, also after a crash, so that its number remains the model's."""
    world, store = made(actors, client, world, number)
    sessions: list[Session] = []  # at most one
    unfinished = actors.open[client.name].update if client.name in actors.open else ""
    while actors.left[client.name]:
        again, update = bool(unfinished), unfinished or actors.name_update(client.name)
        actors.begin(client, update)
        if actors.shape.per_session:
            asked = in_session(actors, client, store, sessions, update, again)
        else:
            asked = store.update_once(update, change_of(update), actors.shape.attempts or None)
        said = await said_by(CALLS, "update_once", actors.in_time(client, asked), content=shown,
                             value=lambda of: f"{key_of(actors, of.id)} {shown(of)}",
                             attempts=lambda _, of=update: str(0 if opens(actors.shape, of) else actors.shape.attempts))
        if said.value is None:
            earlier = any(of.update == update for of in reversed(actors.operations)) or was_forgotten(actors, update)
            actors.end(client, UNFINISHED if earlier else said.told, keys=said.keys)
            unfinished = "" if actors.shape.broken else update
            actors.left[client.name] -= bool(actors.shape.broken)
            continue
        unfinished = ""
        actors.left[client.name] -= 1
        actors.end(client, said.told, key_of(actors, said.value.id) if said.told == "committed" else "", keys=said.keys)


def change_of(update: str) -> Callable[[int, Manifest], Manifest]:
    return lambda _, manifest: manifest.with_update(update)


async def in_session(actors: Actors, client: Client, store: MetadataStore, sessions: list[Session], update: str, again: bool
                     ) -> Committed | Recognised:
    """Do an update in its session, or open the session, and keep it in `sessions`."""
    assert isinstance(store, Store), "the scenario makes it"
    shape = actors.shape
    name, place = session_of(shape, update)
    if place == 0:
        sessions.clear()
    if place == 0 and (again or shape.capacity < Shape.capacity):  # it may be forgotten after an attempt
        return await store.update_once(
            update, lambda _, content: content._replace(sessions=noted(content.sessions, name, 0, shape.capacity)))
    if not sessions:
        sessions.append(store.session(store, name, place, shape.capacity))
    session = sessions[0]
    if place == 0:
        return await session.open()
    try:
        call = session.again if session.number == place else session.update
        return await call(change_of(update), shape.attempts or None)
    except SessionForgotten:
        actors.tell(client, "forgotten", update.encode())
        return await store.update_once(update, change_of(update), shape.attempts or None)


def opens(shape: Shape, update: str) -> bool:
    """Tell whether the update opens a session, in as many attempts as it takes."""
    return bool(shape.per_session) and session_of(shape, update)[1] == 0


def was_forgotten(actors: Actors, update: str) -> bool:
    """Tell whether an earlier call for the update ended without an answer, because its session was forgotten."""
    return any(e.op == "forgotten" and e.body == update.encode() for e in actors.told)


def session_of(shape: Shape, update: str) -> tuple[str, int]:
    """Return the session of an update, and its number in it; 0: it opens the session."""
    writer, _, number = update.partition(".")
    place = int(number) % shape.per_session
    return f"{writer}.{int(number) - place}", place


def final_check(actors: Actors, events: list[Event]) -> None:
    boundary.final_check(actors, events)
    if actors.shape.per_session:
        raise_anomalies(wrong_tables(actors.shape, events, {e.body.decode() for e in actors.told if e.op == "forgotten"}))


def wrong_tables(shape: Shape, events: list[Event], forgotten: set[str]) -> list[str]:
    """Return the files whose table of sessions does not follow from the one before. The session used last comes last, and the
    one unused for longest is forgotten. An update of a forgotten session leaves the table alone."""
    if forgotten and shape.capacity == Shape.capacity:
        return [f"sessions: {min(forgotten)} found its session forgotten, and all are to be remembered"]
    tables: dict[tuple[str, ...], set[Table]] = {(): {()}}  # updates -> the tables of files with these
    for e in events:
        if e.kind == "applied" and e.op == "create" and e.status == 200 and not e.key.endswith(".boundary"):
            found = Codec.decode(e.body)
            session = session_of(shape, found.updates[-1])
            may = {(*(of for of in table if of[0] != session[0]), session)[-shape.capacity:]
                   for table in tables.get(found.updates[:-1], ())}
            may |= tables.get(found.updates[:-1], set()) if found.updates[-1] in forgotten else set()
            if found.sessions not in may:
                return [f"sessions: {e.key} has the table {found.sessions}, "
                        f"and should have {' or '.join(sorted(map(str, may)))}"]
            tables.setdefault(found.updates, set()).add(found.sessions)
    return []


def widened(shape: BaseShape) -> Shape:
    return Shape(**shape._asdict())


SCENARIO = boundary.SCENARIO._replace(
    stem="update_ids",
    model=boundary.SCENARIO.stem,
    shape=Shape,
    mildest=widened(boundary.SCENARIO.mildest),
    tiny=widened(boundary.SCENARIO.tiny),
    cost={name: widened(shape) for name, shape in (boundary.SCENARIO.cost or {}).items()},
    final_check=final_check,
    draw_shape=draw_shape,
    production=production,
    work={**boundary.SCENARIO.work, "Writer": writer},
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=boundary.shape_options,
    told=("committed", "recognised", "failed", "unknown", UNFINISHED, "read", "not read", "deleted", "not deleted",
          "forgotten"),
    moments=boundary.WITHOUT_SDK,
    breaks=DAMAGE,
    rare=RARE,
)
