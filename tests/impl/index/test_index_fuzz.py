"""Bad bytes of the metadata index: each input is refused with a line, or taken for what it is, and nothing crashes or hangs.

Inputs are good ones with damage in them. Half of the footers and snapshots have a right checksum, as if they were written so.
`make verify-deep` tries 100,000.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.crc32c import crc32c
from highwater.impl.codecs.index import names, snapshot
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.entries import UnknownEntry, command_of, entry
from highwater.impl.codecs.index.footer import footer, metadata_of
from highwater.impl.codecs.index.messages import AddBlock, BlockMeta, DamagedMessage, decode, encode
from highwater.impl.errors import Definite
from highwater.impl.index.answers import OK
from highwater.impl.index.bucket.objects import metadata_in
from highwater.impl.index.replicated import load
from highwater.impl.index.validate import invalid_block
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.ordered_lmdb import LmdbKV, NoRows
from highwater.index.check import wrong_rows
from tests.impl.index.test_index_walks import tried, walked
from tests.support.metadata_damage import damage, damaged_bytes
from tests.support.metadata_index import Story, block

FEW, MANY = 1_000, 20_000  # inputs of each kind
REFUSED, TAKEN = "refused", "taken"


def blocks(chance: Random) -> list[Any]:
    return [block(number, tenant=chance.choice(("", "t")), level=number % 3, data=tuple(f"d{i}" for i in range(1 + number % 4)))
            for number in range(12)]


def of_metadata(chance: Random, inputs: int, folder: Path) -> Counter[str]:
    """Add blocks whose metadata is damaged. What is refused changes nothing."""
    story, good, found = Story(), blocks(chance), Counter[str]()
    for _ in range(inputs):
        made = BlockMeta()
        made.CopyFrom(chance.choice(good))
        if chance.random() < 0.5:
            damage(made, chance)
            body = encode(made)
        else:
            body = damaged_bytes(encode(made), chance)
        before = rows_of(story)
        try:
            given = decode(BlockMeta, body)
        except DamagedMessage as error:
            assert_is_a_line(error)
            found[REFUSED] += 1
            continue
        wrong, answer = invalid_block(given), story.put(AddBlock(metadata=given))
        assert (answer.code == OK) <= (wrong is None) and "\n" not in (wrong or "")
        if answer.code != OK:
            assert answer.text and rows_of(story) == before
        found[TAKEN if answer.code == OK else REFUSED] += 1
        if len(before) > 100:
            story = Story()
    return found


def rows_of(story: Story) -> list[tuple[bytes, bytes]]:
    """Return the rows but those that say how far the log is applied, and when."""
    return [pair for pair in story.machine.snapshot(())[1] if pair[0] not in (row.APPLIED, row.CLOCK)]


def with_checksum(file: bytes) -> bytes:
    return file[:-4] + struct.pack(">I", crc32c(file[:-4]))


def of_footers(chance: Random, inputs: int, folder: Path) -> Counter[str]:
    """Read objects whose ends are damaged. What is taken is a valid block, under its own key."""
    found = Counter[str]()
    good = [(names.block_path(one.shard, one.string_table[one.tenant], one.id, one.compaction_level), bytes(20) + footer(one))
            for one in blocks(chance)]

    async def read() -> None:
        for _ in range(inputs):
            key, body = chance.choice(good)
            body = damaged_bytes(body[:20 + chance.randrange(2) * len(body)], chance)
            if chance.random() < 0.5 and len(body) > 8:
                size = min(len(body) - 8, struct.unpack(">I", body[-8:-4])[0])
                metadata = body[-8 - size:-8] + struct.pack(">I", size)
                body = body[:-8 - size] + metadata + struct.pack(">I", crc32c(metadata))
            store = MemoryStore()
            await store.create(key, body)
            metadata, wrong = await metadata_in(store, key, len(body))
            assert bool(metadata) != bool(wrong) and "\n" not in wrong
            if metadata:
                assert encode(metadata_of(body, len(body))) == metadata and invalid_block(decode(BlockMeta, metadata)) is None
            found[REFUSED if wrong else TAKEN] += 1

    asyncio.run(read())
    return found


def of_snapshots(chance: Random, inputs: int, folder: Path) -> Counter[str]:
    """Load snapshots that are damaged, also inside of their rows."""
    position, rows = walked(7, 60).machine.snapshot((1, 2))
    good, found = snapshot.encode(position, rows), Counter[str]()
    for _ in range(inputs):
        kind = chance.randrange(3)
        if kind == 0:
            file = damaged_bytes(good, chance)
        elif kind == 1:
            file = with_checksum(damaged_bytes(good, chance))
        else:
            several = dict(rows)
            for _ in range(chance.choice((1, 1, 3))):
                key = chance.choice(rows)[0]
                value = several.pop(key, b"")
                if chance.random() < 0.5:
                    key = damaged_bytes(key, chance)
                several[key] = damaged_bytes(value, chance)
            file = snapshot.encode(position, sorted(several.items()))
        try:
            wrong = wrong_rows(load(file))
        except Undecodable as error:
            assert_is_a_line(error)
            found[REFUSED] += 1
        else:
            assert not any("\n" in line for line in wrong)
            found["found wrong" if wrong else TAKEN] += 1
    return found


def of_entries(chance: Random, inputs: int, folder: Path) -> Counter[str]:
    """Apply entries that are damaged to two replicas."""
    found = Counter[str]()
    for _ in range(-(-inputs // 500)):
        codes = tried(chance.randrange(1 << 30), min(500, inputs), folder)
        found[TAKEN] += codes.pop(OK, 0)
        found[REFUSED] += codes.total()
    return found


def of_kinds(chance: Random, inputs: int, folder: Path) -> Counter[str]:
    """Read entries of kinds that a newer release may have."""
    found, body = Counter[str](), entry(AddBlock(metadata=block(1)))
    for _ in range(inputs):
        kind = body[:4] if chance.random() < 0.3 else struct.pack(">I", chance.getrandbits(chance.choice((4, 32))))
        given = kind + body[4:chance.choice((len(body), chance.randrange(4, len(body))))]
        try:
            command_of(given)
            found[TAKEN] += 1
        except (UnknownEntry, DamagedMessage) as error:
            assert_is_a_line(error)
            found[REFUSED] += 1
    return found


def of_files(chance: Random, inputs: int, folder: Path) -> Counter[str]:
    """Open files of rows that are damaged. None is read: it is replaced, or refused and left."""
    path, found = folder / "rows", Counter[str]()
    old = LmdbKV(path)
    old.restore(walked(7, 60).machine.snapshot(())[1])
    old.close()
    good = path.read_bytes()
    for _ in range(inputs):
        head = chance.random() < 0.5
        body = damaged_bytes(good[:64], chance) + good[64:] if head else damaged_bytes(good, chance)
        path.write_bytes(body)
        try:
            store = LmdbKV(path)
        except NoRows as error:
            assert_is_a_line(error)
            assert path.read_bytes() == body
            found[REFUSED] += 1
            continue
        with store.transaction() as rows:
            assert list(rows.range(b"", None)) == []
            rows.put(b"key", b"value")
        store.close()
        found[TAKEN] += 1
    return found


def assert_is_a_line(error: Definite) -> None:
    assert str(error) and "\n" not in str(error) and len(str(error)) < 2000


KINDS: dict[str, Callable[[Random, int, Path], Counter[str]]] = {
    "metadata": of_metadata, "footers": of_footers, "snapshots": of_snapshots, "entries": of_entries, "kinds": of_kinds,
    "files": of_files}


@pytest.mark.parametrize("kind", KINDS)
def test_bad_bytes_are_refused_and_nothing_crashes(kind, tmp_path):
    found = KINDS[kind](Random(kind), FEW, tmp_path)
    assert found.total() >= FEW and found[REFUSED] > FEW // 10 and found[TAKEN], found


@pytest.mark.slow
def test_a_hundred_thousand_bad_inputs_are_refused(tmp_path):
    several = {}
    for kind, of in KINDS.items():
        found = several[kind] = of(Random(f"many {kind}"), MANY, tmp_path)
        assert found.total() >= MANY and found[REFUSED] > MANY // 10 and found[TAKEN], (kind, found)
    print("seed 0: " + ", ".join(f"{found.total():,} {kind}, {found[REFUSED]:,} refused" for kind, found in several.items()))
