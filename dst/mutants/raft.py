"""Known-bad Raft nodes."""

from highwater.dst.scenario import Mutants

MUTANTS = Mutants({}, {})
