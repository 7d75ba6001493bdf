"""Mutants of the register, each with one safeguard removed."""

from highwater import Mutants, OutcomeUnknown, World
from register.impl import KEY, Register


class Blind(Register):
    async def write(self, body: bytes) -> None:
        await self.world.store.put(KEY, body)


class Hopeful(Register):
    async def write(self, body: bytes) -> None:
        try:
            await super().write(body)
        except OutcomeUnknown:
            return


def client(kind: type[Register]):
    def build(world: World, shape: object, number: int) -> Register:
        return kind(world)

    return build


MUTANTS = Mutants(
    {"blind": ("a write replaces the value", client(Blind)), "hopeful": ("a lost response is a success", client(Hopeful))},
    {"blind": (("refinement:",), ("history:lost update",)), "hopeful": (("told:committed",), ("history:lost update",))})
