"""Safety: an SST is uploaded under an id that nobody else has, before anybody names it."""

from highwater.impl.errors import AlreadyExists, OutcomeUnknown, Unavailable
from highwater.impl.layout import key_of_sst
from highwater.impl.world import World

UPLOADS = 100  # attempts to put one SST


async def uploaded(world: World, root: str, sst: str, body: bytes) -> str:
    """Put an SST with a ULID that nobody else has; return the ULID.

    Raises OutcomeUnknown if no attempt got a reply: it may be there, and nobody names it.
    """
    for _ in range(UPLOADS):
        try:
            await world.store.create(key_of_sst(root, sst), body)
        except (OutcomeUnknown, Unavailable):
            continue
        except AlreadyExists:
            pass  # an earlier attempt put it
        return sst
    raise OutcomeUnknown(f"SST {key_of_sst(root, sst)!r} could not be put, {UPLOADS} times over")
