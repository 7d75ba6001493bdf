"""Safety: two requests that are not `dependent` can be applied in either order: the same replies, the same store.

Of the requests alone: what the store holds is not asked, so some pairs that would commute are called dependent, such as a
listing and a create that fails, or one behind the page's last key. (How many is in tests/dst/test_strategies.py.)
"""

from highwater.dst.sim.kernel import Request

READS = ("get", "get_if_changed", "head", "list")


def dependent(one: Request, other: Request) -> bool:
    """Reads depend on no read, deletes on no delete; a listing on every put and delete of its prefix that it could show; the
    rest on its own key."""
    if (one.op in READS and other.op in READS) or one.op == other.op == "delete":
        return False
    if one.op == "list":
        return other.key.startswith(one.key) and other.key > one.condition
    if other.op == "list":
        return dependent(other, one)
    return one.key == other.key
