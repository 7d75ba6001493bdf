"""Scripts of compactors, impl/protocols/manifest_compactions.py."""

from highwater.dst.script import LOST, MANY, Alone, Script, fails_with, same
from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions, Job
from highwater.impl.codecs.json.manifest import COMPACTED, InvalidManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import FencedInDoubt, OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.manifest_compactions import (
    Compactor,
    InputMissing,
    Stores,
    collect,
    flush,
    initialise,
    stores_of,
)
from highwater.impl.protocols.sequenced_metadata import Committed, Recognised
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists

MANIFESTS = Namespace("db", "manifest")
UPDATE = ["list {0}", "get {1}.{0}", "create {2}.{0}", "get {0}.boundary"]


async def begun(alone: Alone) -> Stores:
    stores = stores_of(alone.world, "db")
    await initialise(stores)
    alone.sent()
    return stores


def updated(name: str, latest: int) -> list[str]:
    """Return the requests of an update that builds on file `latest`."""
    return [of.format(name, latest, latest + 1) for of in UPDATE]


async def first_files(alone: Alone) -> None:
    stores = stores_of(alone.world, "db")
    await initialise(stores)
    same(alone.sent(), ["list manifest", "create 1.manifest", "get manifest.boundary",
                        "list compactions", "create 1.compactions", "get compactions.boundary"])
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=0, l0=(), compacted=()))
    same((await stores.compactions.current()).value, Compactions(0, ()))


async def compact(alone: Alone) -> None:
    stores, merged = await begun(alone), []

    async def merge(job: Job) -> None:
        merged.append(job)

    same(await flush(stores, "a"), Committed(2, Manifest(compactor_epoch=0, l0=("a",), compacted=())))
    same(type(await flush(stores, "a")), Recognised)
    await flush(stores, "b")
    compactor = Compactor(stores)
    same(compactor.epoch, 0)
    await alone.raises(ValueError, compactor.compact(merge))
    alone.sent()
    same(await compactor.open(), 1)
    same(alone.sent(), updated("manifest", 3) + updated("compactions", 1))
    same(await compactor.compact(merge), ("a", "b"))
    same(alone.sent(), ["list manifest", "get 4.manifest", "get manifest.boundary", *updated("compactions", 2),
                        *updated("manifest", 4), *updated("compactions", 3)])
    same(merged, [("a", "b")])
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=1, l0=(), compacted=("a", "b")))
    same((await stores.compactions.current()).value, Compactions(1, ()))
    same(type(await flush(stores, "a")), Recognised)
    alone.sent()
    same(await compactor.compact(merge), ())
    same(alone.sent(), ["list manifest", "get 5.manifest", "get manifest.boundary"])
    same(len(merged), 1)
    await flush(stores, "c")
    same(await compactor.compact(merge), ("c",))
    same((await stores.manifest.current()).value.compacted, ("a", "b", "c"))


async def continued(alone: Alone) -> None:
    """A compactor stops between two requests; another continues its claim, and fences it."""
    stores, merged = await begun(alone), []

    async def merge(job: Job) -> None:
        merged.append(job)

    async def dies(job: Job) -> None:
        raise Unavailable("it dies")

    await flush(stores, "a")
    first, second = Compactor(stores), Compactor(stores)
    await first.open()
    await alone.raises(Unavailable, first.compact(dies))
    await flush(stores, "b")
    same(await second.open(), 2)
    same((second.job, second.claimed, second.applied), (("a",), True, False))
    same(await second.compact(merge), ("a",))
    same(merged, [("a",)])
    await alone.raises(FencedInDoubt, first.compact(merge), epoch=1, stored=2)
    same(await second.compact(merge), ("b",))
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=2, l0=(), compacted=("a", "b")))


async def fenced_before_it_finishes(alone: Alone) -> None:
    """Another compactor opens when the result is applied and the claim is not yet removed."""
    stores = await begun(alone)
    await flush(stores, "a")
    first, second = Compactor(stores), Compactor(stores_of(alone.world, "db"))
    await first.open()

    async def merge(job: Job) -> None:
        alone.fails("get", "gc/manifest.boundary", second.open)  # the next: after the result is put

    async def merge_again(job: Job) -> None:
        same(job, ("a",))

    await alone.raises(FencedInDoubt, first.compact(merge), epoch=1, stored=2)
    same((await stores.compactions.current()).value, Compactions(2, (("a",),)))
    same(await second.compact(merge_again), ("a",))
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=2, l0=(), compacted=("a",)))
    same((await stores.compactions.current()).value, Compactions(2, ()))


async def claims_of_nothing(alone: Alone) -> None:
    """A claim names an SST that was never flushed: nothing is applied."""
    stores = await begun(alone)
    await flush(stores, "a")
    await stores.compactions.update(lambda _, c: c._replace(jobs=(("a", "x"),)))
    compactor = Compactor(stores)
    await compactor.open()

    async def merge(job: Job) -> None:
        same(job, ("a", "x"))

    await alone.raises(InputMissing, compactor.compact(merge))
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=1, l0=("a",), compacted=()))
    await stores.manifest.update(lambda _, m: m._replace(l0=("x",), compacted=("a",)))  # a part is compacted
    await alone.raises(InputMissing, compactor.compact(merge))


async def many(alone: Alone) -> None:
    stores, merged = await begun(alone), []
    ssts = tuple(f"{i}" for i in range(MANY))
    await stores.manifest.update(lambda _, m: m._replace(l0=ssts))

    async def merge(job: Job) -> None:
        merged.append(job)
        await flush(stores, "last")

    compactor = Compactor(stores)
    await compactor.open()
    same(await compactor.compact(merge), ssts)
    same(merged, [ssts])
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=1, l0=("last",), compacted=ssts))


async def several_claims(alone: Alone) -> None:
    """Another program has left two claims: the least is continued first."""
    stores = await begun(alone)
    for sst in "ab":
        await flush(stores, sst)
    await stores.compactions.update(lambda _, c: c._replace(jobs=(("b",), ("a", "b"), ("a",))))
    compactor = Compactor(stores)
    await compactor.open()

    async def merge(job: Job) -> None:
        await flush(stores, "c")

    same(await compactor.compact(merge), ("a",))
    same((await stores.compactions.current()).value.jobs, (("b",), ("a", "b")))
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=1, l0=("b", "c"), compacted=("a",)))


async def open_in_doubt(alone: Alone) -> None:
    """An epoch of which nobody knows whether it is written is not used, and there are so many attempts."""
    stores = await begun(alone)
    alone.fails("create", "manifest/", LOST, 2)
    await alone.raises(OutcomeUnknown, Compactor(stores, 2).open())
    same([sent for sent in alone.sent() if sent.startswith("create")], ["create 2.manifest", "create 3.manifest"])
    alone.fails("create", "manifest/", LOST)
    same(await Compactor(stores, 2).open(), 4)
    alone.fails("create", "manifest/", OutcomeUnknown)
    same(await Compactor(stores, 2).open(), 5)
    alone.fails("get", "gc/manifest.boundary", behind(alone, 7))
    same(await Compactor(stores, 2).open(), 8)
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, Compactor(stores, 2).open())
    await alone.raises(ValueError, Compactor(stores, 0).open())
    alone.fails("create", "manifest/", lambda: flush(stores_of(alone.world._replace(store=alone.real), "db"), "faster"))
    await alone.raises(ObjectVersionExists, Compactor(stores, 1).open())


def behind(alone: Alone, file_id: int):
    """Return what passes this file with the boundary: another client has built on it."""
    async def pass_it() -> None:
        await alone.real.create(MANIFESTS.key(file_id + 1), COMPACTED.encode(Manifest(compactor_epoch=7)))
        await alone.real.put(MANIFESTS.boundary_key, b"%d" % file_id)
    return pass_it


async def files_of_no_history(alone: Alone) -> None:
    """A compactor believes nothing of a manifest in nobody's history: not that it is fenced, nor that its input is gone.

    Between LIST and GET the latest was collected, and a late create took its id."""
    stores, merged = await begun(alone), []
    for epoch, dead in ((1, Manifest(compactor_epoch=9, l0=("a1",))), (2, Manifest(compactor_epoch=2))):
        sst = f"a{epoch}"
        await flush(stores, sst)
        compactor = Compactor(stores)
        same(await compactor.open(), epoch)

        async def replaced(dead: Manifest = dead) -> None:
            latest = await stores.manifest.current()
            await alone.real.create(MANIFESTS.key(latest.id + 1), COMPACTED.encode(latest.value))
            await alone.real.put(MANIFESTS.boundary_key, b"%d" % latest.id)
            await alone.real.delete(MANIFESTS.key(latest.id))
            await alone.real.create(MANIFESTS.key(latest.id), COMPACTED.encode(dead))

        async def merge(job: Job) -> None:
            merged.append(job)
            alone.fails("get", "manifest/", replaced)

        same(await compactor.compact(merge), (sst,))
    same(merged, [("a1",), ("a2",)])
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=2, compacted=("a1", "a2")))


async def collection(alone: Alone) -> None:
    stores = await begun(alone)
    await flush(stores, "a")
    await Compactor(stores).open()
    alone.now += 10
    same(await collect(stores, 10), ([], []))
    alone.sent()
    same(await collect(stores, 9), ([1, 2], [1]))
    same([sent.partition(" ")[0] for sent in alone.sent()],
         ["list", "get", "create", "delete", "delete", "list", "get", "create", "delete"])


async def pins(alone: Alone) -> None:
    """Inputs are pinned in an update of their own, and again if a collector has dropped the pin."""
    stores = stores_of(alone.world, "db", pins=True)
    await initialise(stores)
    await flush(stores, "a")
    compactor, moments = Compactor(stores, pin_ms=10), []

    async def merge(job: Job) -> None:
        moments.append(alone.now)

    async def ends() -> None:
        """Let a collector drop the pin between its update and the next one."""
        alone.now += 20
        moments.append(await stores_of(alone.world, "db", pins=True).manifest.drop_ended())

    await compactor.open()
    alone.sent()
    alone.fails("create", "5.manifest", ends)
    same(await compactor.compact(merge), ("a",))
    manifest = await stores.manifest.current()
    pin, = manifest.value.checkpoints
    same(manifest.value._replace(checkpoints=()), Manifest(compactor_epoch=1, compacted=("a",)))
    same((pin.manifest_id, pin.name, pin.expiry_ms), (6, "compaction of a", alone.now + 10))
    kept = await stores.manifest.read(pin.manifest_id)
    same((kept.l0, kept.checkpoints), (("a",), (pin,)))
    alone.now += 10
    same(await collect(stores, 1000), ([], []))
    same((await stores.manifest.current()).value.checkpoints, ())
    await flush(stores, "b")
    again = alone.counted.count("compactor_pins_again")
    same(await compactor.compact(merge), ("b",))
    same([one.name for one in (await stores.manifest.current()).value.checkpoints], ["compaction of b"])
    same(alone.counted.count("compactor_pins_again"), again)


async def pins_nothing_applied(alone: Alone) -> None:
    """A claim is left whose result is applied, and whose pin is gone: there is nothing to pin any more."""
    stores = stores_of(alone.world, "db", pins=True)
    await initialise(stores)
    await stores.manifest.update(lambda _, m: m._replace(compacted=("a",)))
    await stores.compactions.update(lambda _, c: c._replace(jobs=(("a",),)))
    compactor = Compactor(stores, pin_ms=10)

    async def merge(job: Job) -> None:
        same(job, ("a",))

    await compactor.open()
    same(await compactor.compact(merge), ("a",))
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=1, compacted=("a",)))
    same((await stores.compactions.current()).value, Compactions(1, ()))


async def bytes_of_files(alone: Alone) -> None:
    codec = COMPACTED
    body = b'{"compacted":["c"],"compactor_epoch":3,"l0":["a","b"]}'
    same(codec.encode(Manifest(compactor_epoch=3, l0=("a", "b"), compacted=("c",))), body)
    same(codec.decode(body), Manifest(compactor_epoch=3, l0=("a", "b"), compacted=("c",)))
    same(compactions_json.decode(b'{"jobs":[["a","b"]]}'), Compactions(0, (("a", "b"),)))
    for strange in (b"", b"{", b"[]", b"1", b'{"strange":1}', b"\xff"):
        fails_with(InvalidManifest, lambda strange=strange: codec.decode(strange))


SCRIPTS: tuple[Script, ...] = (
    first_files, compact, continued, fenced_before_it_finishes, claims_of_nothing,
    many, several_claims, open_in_doubt, files_of_no_history, collection, pins, pins_nothing_applied, bytes_of_files)
