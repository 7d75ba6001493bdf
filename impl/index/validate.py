"""Safety: no client's block stops the state machine or shows another tenant's strings.

Codecs read whatever protobuf allows. What may be added is decided here, before an entry is proposed, and once more when it is
applied, where what is invalid has no effect.
"""

from typing import Any

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index.messages import encode
from highwater.impl.codecs.index.partitions import partition_of
from highwater.impl.codecs.index.strings import check_references

LARGEST_BLOCK_BYTES = 4 << 20  # of metadata: what one request of gRPC may hold by default
LONGEST_TENANT_BYTES = 150
RESERVED = ("-", "anonymous", ".", "..")  # names that the rows or the paths of objects have for something else


def invalid_tenant(tenant: str) -> str | None:
    """Return what is wrong with a tenant's name, or None. The empty name is the anonymous tenant."""
    if tenant in RESERVED:
        return f"the tenant may not be called {tenant!r}"
    if "\0" in tenant or "/" in tenant:
        return f"the tenant {tenant!r} has a zero byte or a slash"
    if len(tenant.encode()) > LONGEST_TENANT_BYTES:
        return f"the tenant's name has {len(tenant.encode())} bytes; {LONGEST_TENANT_BYTES} are allowed"
    return None


def invalid_times(block: Any) -> str | None:
    """Return what is wrong with the times of a block and its datasets, or None. A dataset may have none."""
    if not 0 < block.min_time <= block.max_time:
        return f"min_time {block.min_time} and max_time {block.max_time} are no range of times after 0"
    for number, dataset in enumerate(block.datasets):
        times = dataset.min_time, dataset.max_time
        if times != (0, 0) and not block.min_time <= times[0] <= times[1] <= block.max_time:
            return f"dataset {number} is from {times[0]} to {times[1]}, which is no range inside the block's"
    return None


def invalid_block(block: Any) -> str | None:
    """Return what is wrong with a BlockMeta, or None if it may be added."""
    size = block.ByteSize()
    if size > LARGEST_BLOCK_BYTES:
        return f"the metadata has {size} bytes; {LARGEST_BLOCK_BYTES} are allowed"
    try:
        encode(block)
        partition_of(block.id)
        check_references(block)
    except (Undecodable, ValueError) as error:
        return str(error)
    if block.string_table and block.string_table[0] != "":
        return f"the first string is {block.string_table[0]!r}, and has to be empty"
    return invalid_times(block) or invalid_tenants(block)


def invalid_tenants(block: Any) -> str | None:
    """Return what is wrong with the tenants of a block whose references hold, or None."""
    table = block.string_table or [""]
    tenant = table[block.tenant]
    for number, dataset in enumerate(block.datasets):
        own = table[dataset.tenant]
        if tenant and own != tenant:
            return f"dataset {number} is of the tenant {own!r}, and the block of {tenant!r}"
        if wrong := invalid_tenant(own):
            return wrong
    return invalid_tenant(tenant)
