"""Safety: a letter that an operator adds again is deleted only after its block is in the index.

The letters as an operator sees them: those that wait, and those that sweepers have moved because they could not add them.
"""

from typing import NamedTuple

from highwater.impl.errors import NotFound
from highwater.impl.index.letters.letter import ASIDE, LONGEST_LETTER_BYTES, QUEUE, REJECTED, InvalidLetter, letter_of
from highwater.impl.index.letters.sweeper import Add
from highwater.impl.world import Entry, ObjectStore, list_all

STATES = {QUEUE: "waits", REJECTED: "rejected", ASIDE: "aside"}


class Letter(NamedTuple):
    """A letter. `block`: its ULID; `wrong`: why it has none that an index would take, or ""."""

    key: str
    state: str
    size_bytes: int
    put_ms: int  # by the store's clock
    block: str
    wrong: str


async def letters(store: ObjectStore) -> list[Letter]:
    """Return all letters: those that wait, the rejected ones, those kept aside. Raises what listing and reading raise."""
    found = []
    for prefix, state in STATES.items():
        for entry in await list_all(store, prefix):
            try:
                block, wrong = await looked_at(store, entry)
            except NotFound:
                continue  # a sweeper was faster
            found.append(Letter(entry.key, state, entry.size_bytes, entry.last_modified_ms, block, wrong))
    return found


async def looked_at(store: ObjectStore, entry: Entry) -> tuple[str, str]:
    """Return the ULID of a letter's block, and what is wrong with the letter."""
    if entry.size_bytes > LONGEST_LETTER_BYTES:
        return "", f"no letter has more than {LONGEST_LETTER_BYTES:,} bytes"
    try:
        return letter_of(entry.key, (await store.get(entry.key)).body).id, ""
    except InvalidLetter as error:
        return "", str(error)


async def add_again(store: ObjectStore, key: str, add: Add) -> str:
    """Add the block of a letter, wherever the letter is, and delete the letter. Return the block's ULID.

    Raises ValueError if the key is none of a letter, InvalidLetter, NotFound, and what `add` raises: the letter stays then.
    """
    if not key.startswith(tuple(STATES)):
        raise ValueError(f"{key!r} is no letter: its key begins with one of {', '.join(STATES)}")
    block = letter_of(key, (await store.get(key)).body)
    await add(block)
    await store.delete(key)
    return block.id
