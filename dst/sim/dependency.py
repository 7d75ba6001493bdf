"""Decide which requests commute. Safety: two requests that are not `dependent` give the same replies and store in any order.

The decision uses the requests alone, not the store's content. So some pairs that commute count as dependent, such as a listing
and a create that fails. tests/dst/test_strategies.py counts them.
"""

from highwater.dst.sim.kernel import Delivery, Request

READS = ("get", "get_range", "get_if_changed", "head", "list")


def dependent(one: Request | Delivery, other: Request | Delivery) -> bool:
    """Tell whether the order of two requests, or of two messages, may matter.

    Messages depend on messages to the same node, and on no request.

    Reads do not depend on reads, nor deletes on deletes. A listing depends on puts and deletes of keys that it could show. All
    else depends on requests for the same key."""
    if isinstance(one, Delivery) or isinstance(other, Delivery):
        return isinstance(one, Delivery) and isinstance(other, Delivery) and one.to == other.to
    if (one.op in READS and other.op in READS) or one.op == other.op == "delete":
        return False
    if one.op == "list":
        return other.key.startswith(one.key) and other.key > one.condition
    if other.op == "list":
        return dependent(other, one)
    return one.key == other.key
