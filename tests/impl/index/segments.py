"""Objects of an index for tests, with their footers."""

from typing import Any

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.footer import footer
from highwater.impl.codecs.index.labels import groups_of
from highwater.impl.codecs.index.messages import BlockMeta, Dataset
from highwater.impl.index.compaction.merge import Source, source_of
from tests.support.metadata_index import START_S


def made(number: int, datasets: tuple[tuple[str, str, bytes], ...], at_ms: int = START_S * 1000, tenant: str = "") -> Source:
    """Return an object with datasets (tenant, name, data), of which each has two sections."""
    table = ["", *dict.fromkeys([*filter(None, [tenant]), "w", "kind", *(text for of in datasets for text in of[:2] if text)])]
    block = BlockMeta(id=ulids.made(at_ms, b"\0" * 8 + number.to_bytes(2)), shard=1, min_time=at_ms, max_time=at_ms + 10,
                      created_by=table.index("w"), tenant=table.index(tenant), string_table=table)
    data = b"head"
    for of, name, body in datasets:
        times = {"min_time": at_ms, "max_time": at_ms + 5} if name != "z" else {}  # a dataset may have none
        block.datasets.append(Dataset(tenant=table.index(of), name=table.index(name), **times,
                                      size=len(body), table_of_contents=[len(data), len(data) + len(body) // 2],
                                      labels=[1, table.index("kind"), table.index(name), 0]))
        data += body
    block.metadata_offset = len(data)
    body = data + footer(block)
    return source_of(block.id, body)


def data_in(body: bytes, block: Any) -> list[tuple[str, str, bytes, list[list[tuple[str, str]]]]]:
    """Return tenant, name, data and labels of each dataset in an object."""
    strings = block.string_table
    return [(strings[of.tenant], strings[of.name], body[of.table_of_contents[0]:of.table_of_contents[0] + of.size],
             [[(strings[k], strings[v]) for k, v in group] for group in groups_of(of.labels)]) for of in block.datasets]
