"""Safety: an update is committed only if the store created the register with it."""

from highwater import AlreadyExists, Definite, World

KEY = "db/register"


class Taken(Definite):
    """The register has a value already."""


class Register:
    def __init__(self, world: World):
        self.world = world

    async def write(self, body: bytes) -> None:
        """Write the register. Raises Taken, OutcomeUnknown, Unavailable."""
        try:
            await self.world.store.create(KEY, body)
        except AlreadyExists:
            raise Taken(KEY) from None
