"""Safety: two requests that are not `dependent` can be applied in either order: the same replies, the same store."""

from dst.kernel import Request

READS = ("get", "get_if_changed", "head", "list")


def dependent(one: Request, other: Request) -> bool:
    """Reads depend on no read; a listing on every put and delete of its prefix that it could show; the rest on its own key."""
    if one.op in READS and other.op in READS:
        return False
    if one.op == "list":
        return other.key.startswith(one.key) and other.key > one.condition
    if other.op == "list":
        return dependent(other, one)
    return one.key == other.key
