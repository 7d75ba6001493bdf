"""Mutants of impl/protocols/db_reader.py, each with one safeguard removed. Simulation must find each of them."""

from highwater.dst.scenario import Mutants

MUTANTS = Mutants({}, {})
