"""Safety: no client makes a node hold or send more than its operator allows. What is above a limit is refused by its name."""

from typing import Any, NamedTuple


class Limits(NamedTuple):
    """The limits of one node. They may differ between nodes: what the log means does not depend on them.

    Proposals that wait are limited by `max_uncommitted_bytes` of Raft's Config.
    """

    block_bytes: int = 1 << 20  # of one block's metadata, at most Raft's `max_entry_bytes`
    datasets: int = 10_000  # of one block
    strings: int = 100_000  # in one block's table
    labels: int = 300_000  # numbers in the labels of one block's datasets: a query holds some 80 bytes for each
    request_bytes: int = 4 << 20  # of one request
    answer_bytes: int = 16 << 20  # of one answer to a query
    ids: int = 10_000  # in one GetBlockMetadata
    calls: int = 1_000  # under way at once
    connection_bytes: int = 64 << 20  # requests and answers of the calls under way on one connection
    all_bytes: int = 256 << 20  # and on all
    reads: int = 8  # that are worked on at a time; the others wait, at most query_ms
    query_ms: int = 20_000  # that one query takes at most
    query_rows: int = 10_000_000  # that one query reads
    query_bytes: int = 256 << 20  # that one query holds at a time, beside the cache
    query_text: int = 64 << 10  # letters of its selector
    query_names: int = 1_000  # tenants, shards and labels of one query, each
    matchers: int = 100  # of one query
    updates: int = 10_000  # reports and confirmations in one poll

    def refusal(self) -> str:
        """Return what is wrong with these numbers; "" if nothing is."""
        wrong = [name for name, value in self._asdict().items() if value < 1]
        return f"the limit {wrong[0]} is {getattr(self, wrong[0])}: at least 1 is needed" if wrong else ""


def too_large(block: Any, limits: Limits) -> str | None:
    """Return which limit a block is above, or None."""
    sizes = (("bytes", block.ByteSize(), limits.block_bytes), ("datasets", len(block.datasets), limits.datasets),
             ("strings", len(block.string_table), limits.strings),
             ("labels", sum(len(dataset.labels) for dataset in block.datasets), limits.labels))
    for what, size, most in sizes:
        if size > most:
            return f"block {block.id[:40]!r} has {size:,} {what} of metadata, and this node takes {most:,}"
    return None
