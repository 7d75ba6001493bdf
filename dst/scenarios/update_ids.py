"""Simulate the boundary protocol's clients with update ids, the amendment of docs/protocols/committed-but-rejected.md.

Writers repeat a refused or indeterminate update and look for its id (`MetadataStore.update_once`). The model is
sequenced_metadata_boundary's with ON_REFUSAL = "recognised". Collectors and readers are as in that scenario.
"""

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenario import Draw
from highwater.dst.scenarios import sequenced_metadata_boundary as boundary
from highwater.dst.scenarios.sequenced_metadata_boundary import Shape, key_of, made, shown
from highwater.dst.sim.kernel import Client
from highwater.impl.codecs.json import manifest as manifest_json
from highwater.impl.codecs.json.manifest import Manifest
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_metadata_boundary import MetadataStore
from highwater.impl.world import World
from highwater.traces.calls import UNFINISHED
from highwater.traces.protocols.sequenced_metadata_boundary import Trace, constants, refiner
from highwater.traces.protocols.sequenced_metadata_boundary_calls import CALLS
from highwater.traces.refine import refiner_of


class Codec(boundary.Codec):
    holds = staticmethod(manifest_json.holds)


def draw_shape(of: Draw) -> Shape:
    return boundary.draw_shape(of)._replace(manifest=False, sdk="")


def trace_of(shape: Shape) -> Trace:
    page = shape.page_size if shape.page_size < 1000 else 0
    of = constants(*boundary.MOST.values(), page_size=page, checkpoints=False, on_refusal="recognised")
    return Trace(refiner_of(refiner, of), boundary.namespace(shape), shape.skew_ms)


def production(world: World, where: Namespace, spare_checkpoints: bool, client: int) -> MetadataStore:
    return MetadataStore(world, where, Codec, spare_checkpoints)


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    """Try each update until it is acknowledged, also after a crash, so that its number remains the model's."""
    world, store = made(actors, client, world, number)
    while actors.left[client.name]:
        update = actors.name_update(client.name)
        actors.begin(client, update)
        asked = store.update_once(update, lambda _, manifest, update=update: with_update(manifest, update))
        said = await said_by(CALLS, "update_once", actors.in_time(client, asked), content=shown,
                             value=lambda of: f"{key_of(actors, of.id)} {shown(of)}")
        if said.value is None:
            earlier = any(of.update == update for of in actors.operations)
            actors.end(client, UNFINISHED if earlier else said.told, keys=said.keys)
            continue
        actors.left[client.name] -= 1
        actors.end(client, said.told, key_of(actors, said.value.id) if said.told == "committed" else "", keys=said.keys)


def with_update(manifest: Manifest, update: str) -> Manifest:
    return manifest.with_update(update)


SCENARIO = boundary.SCENARIO._replace(
    stem="update_ids",
    model=boundary.SCENARIO.stem,
    draw_shape=draw_shape,
    production=production,
    work={**boundary.SCENARIO.work, "Writer": writer},
    trace_of=trace_of,
    trace_options=boundary.shape_options,
    told=("committed", "recognised", "failed", "unknown", UNFINISHED, "read", "not read", "deleted", "not deleted"),
    moments=boundary.WITHOUT_SDK,
    breaks={},
    rare=({"patience_ms": 300},),
)
