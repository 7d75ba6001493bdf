"""Safety: an answer is right only if each acknowledged datum of its question is in exactly one block of it.

The judge of a story. It knows the data from the writers' journals, and from earlier answers: what an answer had, each later one
has. A datum that was kept in a letter has to be found once the letters are swept. Retention may drop a datum only after its
tenant's period has passed since its window and since its time.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from highwater.impl.codecs.index.messages import encode
from highwater.impl.codecs.index.strings import tenant_of
from highwater.index.story.blocks import Datum, data_of, is_over
from highwater.index.story.journal import ADDED, BEGUN, KEPT, PUT, Reading

Key = tuple[str, int, str]  # tenant, shard, ULID
SHOWN = 3  # names in a line


class Ledger:
    """The data of a story, and what became of them."""

    def __init__(self, journals: Iterable[Path]):
        self.journals = [Reading(path) for path in journals]
        self.data: dict[str, Datum] = {}
        self.blocks: dict[str, Sequence[str]] = {}  # ULID -> names
        self.added: dict[str, None] = {}  # names of data, in order
        self.kept: dict[str, None] = {}
        self.seen: dict[str, None] = {}
        self.known: set[Key] = set()  # blocks that were in the index, or are as soon as the letters are swept
        self.ended: Counter[str] = Counter()

    def read(self) -> None:
        """Take in what the writers have noted since."""
        for journal in self.journals:
            for line in journal.new():
                if line.what == BEGUN:
                    made = data_of(line.block)
                    self.data |= {of.name: of for of in made}
                    self.blocks[line.ulid] = [of.name for of in made]
                    continue
                if line.what != PUT:
                    self.ended[line.what] += 1
                if line.what in (ADDED, KEPT):
                    told = self.added if line.what == ADDED else self.kept
                    told |= dict.fromkeys(self.blocks[line.ulid])
                    self.known.add(("", self.data[self.blocks[line.ulid][0]].shard, line.ulid))

    def due(self, letters_too: bool = False) -> dict[str, None]:
        """Return the data that every answer to a question asked from now on has, but for those that retention drops."""
        return {**self.added, **self.seen, **(self.kept if letters_too else {})}

    def judged(self, due: dict[str, None], answer: Any, now_ms: int, tenants: Sequence[str],
               shards: Sequence[int]) -> list[str]:
        """Return what is wrong with an answer to a question for everything of these tenants and shards.

        `due`: what `due` returned before it was asked; `now_ms`: the time after it came."""
        self.read()
        found = Counter(names_of(answer))
        missing = [name for name in due if name not in found and self.data[name].tenant in tenants
                   and self.data[name].shard in shards and not is_over(self.data[name], now_ms)]
        self.known |= {(tenant_of(block), block.shard, block.id) for block in answer}
        self.seen |= dict.fromkeys(name for name in found if name in self.data)
        return said({"missing": missing, "more than once": [name for name, count in found.items() if count > 1],
                     "of nobody": [name for name in found if name not in self.data]}, self.data)


def names_of(blocks: Iterable[Any]) -> list[str]:
    """Return the name of each datum in blocks."""
    return [block.string_table[of.name] for block in blocks for of in block.datasets]


def said(wrong: dict[str, list[str]], data: dict[str, Datum]) -> list[str]:
    """Return a line for each kind of wrong data that there is any of."""
    return [f"{len(names):,} data are {what}, such as {shown([tuple(data.get(name, (name,))) for name in names])}"
            for what, names in wrong.items() if names]


def exported(blocks: Iterable[Any]) -> dict[Key, bytes]:
    """Return blocks, with string tables of their own, by their names."""
    return {(tenant_of(block), block.shard, block.id): encode(block) for block in blocks}


def differences(index: dict[Key, bytes], rebuilt: dict[Key, bytes]) -> list[str]:
    """Return how the blocks of an index differ from those of the index that was made of its bucket."""
    found = {"lacks": [key for key in index if key not in rebuilt],
             "has besides": [key for key in rebuilt if key not in index],
             "has otherwise": [key for key in index if key in rebuilt and rebuilt[key] != index[key]]}
    return [f"the rebuilt index {what} {len(keys):,} blocks, such as {shown(keys)}" for what, keys in found.items() if keys]


def shown(several: Sequence[object]) -> str:
    return ", ".join(map(str, several[:SHOWN]))
