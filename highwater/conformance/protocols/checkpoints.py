"""Define runs of the smallest shape and a mutant for the FizzBee judge: the checkpoints protocol."""

from highwater.dst.scenarios.checkpoints import SCENARIO

SMALL = SCENARIO.tiny._replace(ops=4, replaces=3)
IMPOSSIBLE = "first_list_is_kept"
