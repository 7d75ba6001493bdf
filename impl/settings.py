"""Defines the settings of a machine as text, "name=value ..": what decides, beside its commands, how they are applied.

All nodes of a cluster have the same ones, and a node has the same ones for ever (impl/raft/identity.py).
"""


def difference(theirs: str, mine: str) -> tuple[str, str] | None:
    """Return those of the settings that differ, on each side; None if all are equal. Their order does not count."""
    one, other = theirs.split(), mine.split()
    if sorted(one) == sorted(other):
        return None
    only = [" ".join(of for of in those if of not in rest) for those, rest in ((one, other), (other, one))]
    return only[0] or "no others", only[1] or "no others"
