"""Find mutants (dst/mutants/STEM.py) by name, and the bugs of real systems that they represent.

The simulation must find each mutant within its budget, and by the expected oracle.
"""

from highwater.dst.mutants.catalogue import CATALOGUE
from highwater.dst.scenario import Build
from highwater.dst.scenarios import DEFAULT, mutants_of, named
from highwater.messages import meant


def build_of(mutant: str | None, scenario: str = DEFAULT) -> Build:
    """Return the implementation to run: production's, or a mutant's. Raises LookupError."""
    if not mutant:
        return named(scenario).production
    mutants = mutants_of(scenario).builds
    if mutant not in mutants:
        raise LookupError(f"there is no mutant {mutant!r} of {scenario}{meant(mutant, mutants)}; there are: "
                          f"{', '.join(mutants)}")
    return mutants[mutant][1]


def expected(mutant: str, by_model: bool, scenario: str = DEFAULT) -> tuple[str, ...]:
    """Return the prefixes of a mutant's expected signatures."""
    oracles = mutants_of(scenario).oracles
    return oracles[mutant][not by_model] if mutant in oracles else ("",)


def ids_of(protocol: str, mutant: str) -> str:
    """Name the catalogue's bugs that this protocol's mutant has, e.g. "Z1"; "" if there is none.

    Two protocols may have a mutant of the same name, so a name alone does not say which bug it is."""
    entry = mutant if protocol == DEFAULT else f"{protocol}/{mutant}"
    return ", ".join(name for name, (_, mutants) in CATALOGUE.items() if not isinstance(mutants, str) and entry in mutants)
