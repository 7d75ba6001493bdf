"""Mutants of impl.py, each with one safeguard removed. The simulation must find each of them.

CHANGE: write one for each safeguard.
"""

from highwater import Mutants, World

from .impl import Claims, key_of
from .scenario import Shape


class Overwrites(Claims):
    """Puts its claim without a condition."""

    async def claim(self, job: int, body: bytes) -> bool:
        await self.world.store.put(key_of(job), body)
        return True


def overwrites(world: World, shape: Shape, number: int) -> Overwrites:
    return Overwrites(world)


MUTANTS = Mutants(
    builds={"overwrites": ("a claim is put without a condition", overwrites)},  # name -> (its bug, what makes a client)
    oracles={"overwrites": (("refinement:put",), ("history:lost update",))},  # how its failures begin: by the model; by harm
)
