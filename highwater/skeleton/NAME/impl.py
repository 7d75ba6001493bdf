"""Safety: each job is claimed by one client, and the client that was told so is the one.

The code follows model.py request by request. It awaits one request, then decides. It reaches the outside only through its
World, so it runs unchanged on S3, in memory and in the simulation.
"""

from highwater import AlreadyExists, World

PREFIX = "db/NAME/"


def key_of(job: int) -> str:
    return f"{PREFIX}{job:020d}"


class Claims:
    """The claims on jobs, as one client uses them. CHANGE: your protocol."""

    def __init__(self, world: World):
        self.world = world

    async def claim(self, job: int, body: bytes) -> bool:
        """Claim a job for the client that `body` names. Returns False if it is claimed already.

        Raises Unavailable: nothing was applied. Raises OutcomeUnknown: the claim may be applied, now or later.
        """
        try:
            await self.world.store.create(key_of(job), body)
        except AlreadyExists:
            return False
        return True
