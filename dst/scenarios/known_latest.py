"""Simulate the boundary protocol's clients whose writers begin an update from their own last commit, without LIST and GET.

This is a MetadataStore with the policy keep_latest, the cheapest commit (docs/operating/cost.md). The model is
sequenced_metadata_boundary's with KNOWN = "accepted". All else is as in that scenario.
"""

from highwater.dst.scenario import RARE, Draw
from highwater.dst.scenarios import sequenced_metadata_boundary as boundary
from highwater.dst.scenarios.sequenced_metadata_boundary import Codec, Shape
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_metadata import MetadataStore, Policies
from highwater.impl.world import World
from highwater.traces.protocols.sequenced_metadata_boundary import KnowingTrace, constants, refiner
from highwater.traces.refine import refiner_of


def draw_shape(of: Draw) -> Shape:
    return boundary.draw_shape(of)._replace(sdk="")


def trace_of(shape: Shape) -> KnowingTrace:
    page = shape.page_size if shape.page_size < 1000 else 0
    of = constants(*boundary.MOST.values(), page_size=page, checkpoints=shape.manifest, known=True)
    return KnowingTrace(refiner_of(refiner, of), boundary.namespace(shape), shape.skew_ms)


def production(world: World, where: Namespace, spare_checkpoints: bool, client: int) -> MetadataStore:
    return MetadataStore(world, where, Codec, Policies(keep_latest=True, spare_checkpoints=spare_checkpoints))


SCENARIO = boundary.SCENARIO._replace(
    stem="known_latest",
    model=boundary.SCENARIO.stem,
    draw_shape=draw_shape,
    production=production,
    scripts=(),
    trace_of=trace_of,
    trace_options=boundary.shape_options,
    moments=boundary.WITHOUT_SDK,
    breaks=DAMAGE,
    rare=RARE,
)
