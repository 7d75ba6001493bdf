"""List the checks of `highwater verify` for one protocol: its specs, proof, simulation, mutants, and the checks of
highwater/gate/protocols/.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

from highwater.gate import mutants, proofs, simulation, specs
from highwater.gate.rows import Check
from highwater.gate.sizes import DEEP, Size


def of_protocol(protocol: str, size: Size, has_scenario: bool) -> Iterator[Check]:
    """Yield all checks of a protocol."""
    yield from specs.checks(protocol, size == DEEP)
    yield from own_checks(protocol)
    yield from proofs.checks(protocol)
    if has_scenario:
        yield from simulation.checks(protocol, size)
        yield from mutants.checks(protocol, size)


def own_checks(protocol: str) -> Iterator[Check]:
    if find_spec(f"highwater.gate.protocols.{protocol}"):
        yield from import_module(f"highwater.gate.protocols.{protocol}").checks()
