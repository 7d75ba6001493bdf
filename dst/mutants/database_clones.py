"""Mutants."""

from highwater.dst.scenario import Mutants

MUTANTS = Mutants({}, {})
