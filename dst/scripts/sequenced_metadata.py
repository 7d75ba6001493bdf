"""Scripts of the one client of sequenced metadata, impl/protocols/sequenced_metadata.py: what each of its policies adds.

Each combination of policies either goes through the same story, or is refused when the client is made.
"""

from itertools import product

from highwater.dst.script import LOST, Alone, Script, check, fails_with, same
from highwater.impl.codecs.json.manifest import UPDATES, Checkpoint
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import FencedInDoubt, OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies, Recognised
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists

FILES = Namespace("db", "manifest")
COMBINATIONS = tuple(
    Policies(boundary, epoch, recognise, keep_latest, spare) for epoch in ("", "writer_epoch")
    for boundary, recognise, keep_latest, spare in product((True, False), repeat=4))


async def every_combination(alone: Alone) -> None:
    for policies in COMBINATIONS:
        if policies.refusal():
            fails_with(ValueError, lambda policies=policies: MetadataStore(alone.world, FILES, policies=policies))
        else:
            await story(Alone(), policies)


def adds(update: str):
    return lambda _, manifest: manifest.with_update(update)


async def story(alone: Alone, policies: Policies) -> None:
    await alone.real.create(FILES.key(1), UPDATES.encode(Manifest()))
    store = MetadataStore(alone.world, FILES, policies=policies)
    await commits(alone, store)
    await resolves_a_conflict(alone, store)
    await finds_out_about_a_lost_reply(alone, store)
    if policies.boundary:
        await is_refused(alone, store)
    await is_fenced(alone, store)
    if policies.recognise:
        await gives_up_in_doubt(alone, store)
    await collects(alone, store)


def update_of(policies: Policies, latest: int, kept: bool = False) -> list[str]:
    """Return the requests of an update that builds on file `latest`."""
    reads = [] if kept and policies.keep_latest else ["list manifest", f"get {latest}.manifest"]
    return [*reads, f"create {latest + 1}.manifest", *["get manifest.boundary"] * policies.boundary]


async def commits(alone: Alone, store: MetadataStore) -> None:
    same(await store.update(adds("a")), Committed(2, Manifest(updates=("a",))))
    same(alone.sent(), update_of(store.policies, 1))
    same((await store.update(adds("b"))).value.updates, ("a", "b"))
    same(alone.sent(), update_of(store.policies, 2, kept=True))


async def resolves_a_conflict(alone: Alone, store: MetadataStore) -> None:
    async def another() -> None:
        await alone.real.create(FILES.key(4), UPDATES.encode(Manifest(updates=("a", "b", "x"))))

    alone.fails("create", "manifest/", another)
    same((await store.update(adds("c"))).value.updates, ("a", "b", "x", "c"))
    reads = [] if store.policies.keep_latest else ["list manifest", "get 3.manifest"]
    same(alone.sent(), [*reads, "create 4.manifest", *update_of(store.policies, 4)])


async def finds_out_about_a_lost_reply(alone: Alone, store: MetadataStore) -> None:
    alone.fails("create", "manifest/", LOST)
    await alone.raises(OutcomeUnknown, store.update(adds("d")))
    alone.sent()
    if not store.policies.recognise:
        await alone.raises(ValueError, store.update_once("e", adds("e")))
        same((await store.update(adds("e"))).value.updates[-2:], ("d", "e"))
        return
    alone.fails("create", "manifest/", LOST)
    done = await store.update_once("e", adds("e"))
    same(done, Recognised(7, done.value))
    same(done.value.updates[-2:], ("d", "e"))
    check = ["get manifest.boundary"] * store.policies.boundary  # a verdict counts only if it is ahead of the boundary
    same(alone.sent(), ["list manifest", "get 6.manifest", "create 7.manifest", "list manifest", "get 7.manifest", *check])


async def is_refused(alone: Alone, store: MetadataStore) -> None:
    """Others build on a file, and the boundary passes it before its writer reads the boundary."""
    async def pass_it() -> None:
        body = (await alone.real.get(FILES.key(8))).body
        await alone.real.create(FILES.key(9), body)
        await alone.real.create(FILES.boundary_key, b"8")

    alone.fails("get", "gc/", pass_it)
    if store.policies.recognise:
        done = await store.update_once("f", adds("f"))
        same(done, Recognised(9, done.value))
    else:
        await alone.raises(ObjectVersionBehindBoundary, store.update(adds("f")), id=8, boundary=8)
    same((await store.current()).value.updates.count("f"), 1)


async def is_fenced(alone: Alone, store: MetadataStore) -> None:
    if not store.policies.epoch:
        await alone.raises(ValueError, store.claim())
        return
    same((await store.claim()).value.writer_epoch, 1)
    same((await store.update_recognised(lambda m: "g" in m.updates, adds("g"), epoch=1)).value.updates[-1], "g")
    same((await store.claim()).value.writer_epoch, 2)
    alone.sent()
    call = store.update_recognised(lambda m: "h" in m.updates, adds("h"), epoch=1)
    await alone.raises(FencedInDoubt, call, role="writer", epoch=1, stored=2)
    check(not [sent for sent in alone.sent() if sent.startswith("create")], "a fenced client creates nothing")


async def gives_up_in_doubt(alone: Alone, store: MetadataStore) -> None:
    """The last try meets a conflict. An earlier one had no response, so the update is in doubt, and not refused."""
    async def another() -> None:
        await others.update(adds("x"))

    policies = Policies(store.policies.boundary, spare_checkpoints=False)
    others = MetadataStore(alone.world._replace(store=alone.real), FILES, policies=policies)
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.fails("create", "manifest/", another)
    await alone.raises(OutcomeUnknown, store.update_once("i", adds("i"), attempts=2))
    alone.fails("create", "manifest/", another)
    await alone.raises(ObjectVersionExists, store.update_once("i", adds("i"), attempts=1))


async def collects(alone: Alone, store: MetadataStore) -> None:
    taken = await store.update(lambda next_id, m: m.with_checkpoint(Checkpoint("c", next_id, 1)))  # it has ended, but is listed
    last = await store.update(adds("last"))
    alone.now += 10
    if not store.policies.boundary:
        await alone.raises(ValueError, store.collect(1))
        return
    deleted = await store.collect(1)
    same(taken.id in deleted, not store.policies.spare_checkpoints)
    check(last.id not in deleted, "the latest file is kept")
    same(deleted, [i for i in range(1, last.id) if i != taken.id or not store.policies.spare_checkpoints])


SCRIPTS: tuple[Script, ...] = (every_combination,)
