"""Safety: each dataset of the sources is in exactly one result, byte for byte, and equal sources make equal objects.

An object is the data of its datasets, and a footer with the block's metadata. A dataset's data begins at the first entry of its
table of contents, whose offsets are from the start of the object, and has the dataset's size. Merging concatenates the datasets
of each tenant, in the order of the sources, and shifts their tables of contents. It does not look into the data.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index import names
from highwater.impl.codecs.index.footer import footer, footer_size_bytes, metadata_of
from highwater.impl.codecs.index.labels import positions
from highwater.impl.codecs.index.messages import BlockMeta, copied

CREATOR = "highwater"


class DamagedObject(Undecodable):
    """An object whose datasets are not where its metadata says."""


class Source(NamedTuple):
    """An object, and the metadata in its footer."""

    block: Any
    body: bytes


class Result(NamedTuple):
    """A new object, and the metadata for the index, with the object's size."""

    block: Any
    body: bytes


def source_of(ulid: str, body: bytes) -> Source:
    """Return a source after a check of its footer. Raises DamagedFooter, DamagedObject."""
    block = metadata_of(body, len(body))
    if block.id != ulid:
        raise DamagedObject(f"the object of block {ulid} is that of {block.id}", field="id")
    return Source(block, body)


def merged(shard: int, level: int, sources: Sequence[Source]) -> list[Result]:
    """Return the blocks of level `level` that are made of these, one a tenant, in the order of their names.

    Raises DamagedObject, MalformedLabels, IndexError for a reference that its table lacks."""
    ids = [source.block.id for source in sources]
    by_tenant: dict[str, list[tuple[Source, Any]]] = {}
    for source in sources:
        for dataset in source.block.datasets:
            by_tenant.setdefault(text(source.block, dataset.tenant), []).append((source, dataset))
    return [result_of(names.compacted_id(ids, level, tenant), shard, level, tenant, by_tenant[tenant])
            for tenant in sorted(by_tenant)]


def text(block: Any, reference: int) -> str:
    return block.string_table[reference] if reference or block.string_table else ""


def result_of(ulid: str, shard: int, level: int, tenant: str, datasets: Sequence[tuple[Source, Any]]) -> Result:
    strings, data = {"": 0}, bytearray()
    block = BlockMeta(id=ulid, shard=shard, compaction_level=level)
    block.format_version = max(source.block.format_version for source, _ in datasets)
    block.tenant, block.created_by = (strings.setdefault(name, len(strings)) for name in (tenant, CREATOR))
    for source, dataset in datasets:
        moved = copied(dataset)
        moved.tenant = block.tenant
        moved.name = strings.setdefault(text(source.block, dataset.name), len(strings))
        for at in positions(moved.labels):
            moved.labels[at] = strings.setdefault(text(source.block, dataset.labels[at]), len(strings))
        start, part = data_of(source, dataset)
        moved.table_of_contents[:] = [offset - start + len(data) for offset in dataset.table_of_contents]
        data += part
        block.datasets.append(moved)
    ranges = [times_of(source.block, dataset) for source, dataset in datasets]
    block.min_time, block.max_time = min(low for low, _ in ranges), max(high for _, high in ranges)
    block.metadata_offset = len(data)
    block.string_table[:] = list(strings)
    body = bytes(data) + footer(block)
    block.size = len(body)
    return Result(block, body)


def times_of(block: Any, dataset: Any) -> tuple[int, int]:
    """Return a dataset's times; its block's if it has none."""
    return (dataset.min_time, dataset.max_time) if dataset.max_time else (block.min_time, block.max_time)


def data_of(source: Source, dataset: Any) -> tuple[int, bytes]:
    """Return where a dataset's data begins, and the data. Raises DamagedObject."""
    toc = dataset.table_of_contents
    if not toc and not dataset.size:
        return 0, b""
    end_of_data = len(source.body) - footer_size_bytes(source.body[-8:])
    start = toc[0] if toc else -1
    end = start + dataset.size
    if not 0 <= start <= end <= end_of_data or any(not start <= offset <= end for offset in toc):
        raise DamagedObject(f"a dataset of block {source.block.id} is at {list(toc)} with {dataset.size} bytes, and the data "
                            f"has {end_of_data}", field="table_of_contents")
    return start, source.body[start:end]
