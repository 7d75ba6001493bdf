"""Safety: what is imported into a shard's table and exported again has the same strings in every place. No argument is changed.

In a shard the blocks share one table of strings, in which each stands once. The string 0 is "". `imported` moves a block's
references into the shard's table; `exported` gives a block a fresh table of its own. Blocks with fewer than two strings are
mapped too: Pyroscope stores these as they come, so they may show another tenant's strings.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index.labels import groups_of, positions
from highwater.impl.codecs.index.messages import copied
from highwater.impl.codecs.index.rows import strings_of

LATELY = 256  # tables that are kept: a writer adds to few units


class UnknownString(Undecodable):
    """A reference that the table does not have."""


class Table(NamedTuple):
    """The strings of a shard: `strings[0]` is "", and `index` has the number of each."""

    strings: tuple[str, ...]
    index: dict[str, int]  # never changed once it is in a table


EMPTY = Table(("",), {"": 0})


def table_of(strings: Sequence[str]) -> Table:
    """Return the table of a shard whose strings from number 1 on are these. Raises UnknownString if one stands twice."""
    whole = ("", *strings)
    index = {text: number for number, text in enumerate(whole)}
    if len(index) != len(whole):
        raise UnknownString("a string stands twice in the table of a shard", field=".strings")
    return Table(whole, index)


@lru_cache(LATELY)
def table_of_rows(values: tuple[bytes, ...]) -> Table:
    """Return the table of a shard from the values of its rows, in order. Raises DamagedRow, UnknownString."""
    return table_of([text for value in values for text in strings_of(value)])


def check_references(block: Any) -> None:
    """Check that each reference of a block is into its own table. Raises UnknownString, MalformedLabels."""
    count = len(block.string_table) or 1  # a block without strings refers to "" only
    for reference in (block.tenant, block.created_by):
        check_reference(reference, count)
    for dataset in block.datasets:
        check_reference(dataset.tenant, count)
        check_reference(dataset.name, count)
        for group in groups_of(dataset.labels):
            for pair in group:
                for reference in pair:
                    check_reference(reference, count)


def check_reference(reference: int, count: int) -> None:
    if not 0 <= reference < count:
        raise UnknownString(f"reference {reference} into a table of {count} strings", field="string_table")


def mapped(block: Any, number_of: Callable[[int], int]) -> None:
    """Replace each reference of `block`, in the order tenant, creator, and per dataset tenant, name, labels.

    Raises MalformedLabels, and what `number_of` raises.
    """
    block.tenant = number_of(block.tenant)
    block.created_by = number_of(block.created_by)
    for dataset in block.datasets:
        dataset.tenant = number_of(dataset.tenant)
        dataset.name = number_of(dataset.name)
        if dataset.labels:
            labels = list(dataset.labels)
            for at in positions(labels):
                labels[at] = number_of(labels[at])
            dataset.labels[:] = labels


def imported(table: Table, block: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the block with references into the shard's table and no table of its own, and the strings to add to that table.

    Raises UnknownString, MalformedLabels.
    """
    new: list[str] = []
    added: dict[str, int] = {}
    numbers: list[int] = []
    for text in block.string_table:
        number = table.index.get(text, added.get(text))
        if number is None:
            number = added[text] = len(table.strings) + len(new)
            new.append(text)
        numbers.append(number)

    def number_of(reference: int) -> int:
        if reference == 0 and not numbers:
            return 0  # a block without strings refers to "" only
        if not 0 <= reference < len(numbers):
            raise UnknownString(f"reference {reference} into a table of {len(numbers)} strings", field="string_table")
        return numbers[reference]

    own = copied(block)
    mapped(own, number_of)
    del own.string_table[:]
    return own, tuple(new)


def fresh_table(strings: Sequence[str]) -> tuple[dict[str, int], Callable[[int], int]]:
    """Return a table of a block's own, from "" on, and the function that moves a reference into a shard's table into it. That
    raises UnknownString."""
    fresh, count = {"": 0}, len(strings)
    put = fresh.setdefault

    def number_of(reference: int) -> int:
        if not 0 <= reference < count:
            raise UnknownString(f"reference {reference} into a table of {count} strings", field=".strings")
        return put(strings[reference], len(fresh))

    return fresh, number_of


def exported(strings: Sequence[str], block: Any) -> Any:
    """Return a shard's block with a table of its own, from "" on, in the order of the references. Raises UnknownString."""
    own = copied(block)
    fresh, number_of = fresh_table(strings)
    mapped(own, number_of)
    own.string_table[:] = list(fresh)
    return own


def tenant_of(block: Any) -> str:
    """Return the tenant's name from the block's own table; "" if it is anonymous. Raises UnknownString."""
    if block.tenant == 0 and not block.string_table:
        return ""
    if not 0 <= block.tenant < len(block.string_table):
        raise UnknownString(f"tenant {block.tenant} of a table of {len(block.string_table)} strings", field="tenant")
    return block.string_table[block.tenant]
