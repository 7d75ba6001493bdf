"""Safety: labels are cut into whole groups, or refused. A group `n, k1, v1, .., kn, vn` is one set of labels."""

from collections.abc import Iterable, Sequence

from highwater.impl.codecs.codec import Undecodable

Group = tuple[tuple[int, int], ...]  # (name, value) as references into a string table


class MalformedLabels(Undecodable):
    """A negative length, or a group that is cut short. The offset counts the numbers, not bytes."""


def groups_of(labels: Sequence[int]) -> tuple[Group, ...]:
    """Return the groups, in order; a length of 0 is legal. Raises MalformedLabels."""
    found, at = [], 0
    while at < len(labels):
        pairs, start = labels[at], at + 1
        at = start + 2 * pairs
        if pairs < 0:
            raise MalformedLabels(f"a group of {pairs} pairs", start - 1, "labels")
        if at > len(labels):
            raise MalformedLabels(f"a group of {pairs} pairs has {len(labels) - start} numbers", start - 1, "labels")
        found.append(tuple(zip(labels[start:at:2], labels[start + 1:at:2])))
    return tuple(found)


def flat(groups: Iterable[Group]) -> list[int]:
    """Return the labels that these groups stand in."""
    return [number for group in groups for number in (len(group), *(part for pair in group for part in pair))]


def positions(labels: Sequence[int]) -> list[int]:
    """Return where references stand: everywhere but at the lengths. Raises MalformedLabels."""
    found, at = [], 0
    for group in groups_of(labels):
        found += range(at + 1, at + 1 + 2 * len(group))
        at += 1 + 2 * len(group)
    return found
