"""Safety: the outputs of a compaction show what its inputs show, to every read that may still come, in the order of a run.

The inputs are read as a stream: in memory is a part of one SST of each input, and the rows of one output. An output is uploaded
before anybody names it.
"""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import Sst, Tiered
from highwater.impl.db.build import BLOCK_BYTES, LEAST_FILTERED, VERSION, sst_of
from highwater.impl.db.claims import inputs, is_bottom
from highwater.impl.db.compression import NAMES
from highwater.impl.db.merge import Source, versions
from highwater.impl.db.reader import Reader, State
from highwater.impl.db.retention import retained
from highwater.impl.db.rows import Row
from highwater.impl.db.upload import uploaded
from highwater.impl.manifests.spans import EVERYTHING, effective, in_run
from highwater.impl.world import World

NUMBERS = 32  # bytes of an entry beside key and value, about


class Form(NamedTuple):
    """The form of the outputs, with SlateDB's names."""

    max_sst_size: int = 256 << 20  # bytes of rows before compression; an SST has more only if one key has, or one row
    compression_codec: int = 0  # its place in the names of impl/db/compression.py
    block_size: int = BLOCK_BYTES
    min_filter_keys: int = LEAST_FILTERED
    whole_keys: bool = True  # an output has all versions of its keys; False: it ends where it is full, as in SlateDB 0.17.0

    def refusal(self) -> str:
        """Return why no output can have this form; "" if one can."""
        if self.max_sst_size < 1:
            return f"max_sst_size is {self.max_sst_size}: at least 1 byte"
        if not 0 <= self.compression_codec < len(NAMES):
            return f"compression_codec is {self.compression_codec}: it is the place of one of {', '.join(NAMES)}"
        return ""


USUAL = Form()


async def compacted(world: World, root: str, manifest: Manifest, spec: Tiered, form: Form, new_ulid: Callable[[], str]
                    ) -> tuple[Sst, ...]:
    """Merge the inputs of a compaction, upload the result, and return its SSTs, in the order of their keys; () if no row stays.

    `new_ulid` returns the ULID of the next output. Raises CannotRead, DamagedObject, TwoRows, Malformed, and what `uploaded`
    raises.
    """
    now_ms, bottom = world.clock.now_ms(), is_bottom(manifest, spec)
    outputs: list[Sst] = []
    async for rows in parts(world, root, manifest, spec, now_ms, bottom, form):
        built = sst_of(rows, form.compression_codec, form.block_size, form.min_filter_keys)
        outputs.append(Sst(await uploaded(world, root, new_ulid(), built.body), built.info, VERSION))
    return tuple(outputs)


async def parts(world: World, root: str, manifest: Manifest, spec: Tiered, now_ms: int, bottom: bool, form: Form
                ) -> AsyncIterator[list[Row]]:
    """Yield the rows of each output. All versions of a key are in one, if the form says so: a client without the fix of
    slatedb#1490 looks for a key in one SST of a run only."""
    held: list[Row] = []
    size = 0
    async for versions_of in versions(sources(world, root, manifest, spec)):
        rows = retained(versions_of, manifest.recent_snapshot_min_seq, now_ms, bottom)
        for together in [rows] if form.whole_keys else [[row] for row in rows]:
            more = sum(NUMBERS + len(row.key) + len(row.value) for row in together)
            if held and size + more > form.max_sst_size:
                yield held
                held, size = [], 0
            held += together
            size += more
    if held:
        yield held


def sources(world: World, root: str, manifest: Manifest, spec: Tiered) -> list[Source]:
    """Return the rows of each input, as far as they are visible."""
    reader = Reader(world.store, State(root, manifest, []))
    ssts = reader.state.ssts
    l0, runs = inputs(manifest, spec)
    return [*(reader.of_views([(view, effective(view, ssts))], EVERYTHING, None) for view in l0),
            *(reader.of_views([*in_run(run.id, run.views, ssts)], EVERYTHING, None) for run in runs)]
