"""Define how much `make verify` and `make verify-deep` do. They have the same rows."""

from typing import NamedTuple


class Size(NamedTuple):
    name: str
    seeds: int  # of each scenario
    each_strategy: int  # further seeds of each scenario for each strategy
    compared: int  # seeds of each scenario that run again with other hash seeds
    kills: int  # of each mutant
    budget: int  # seeds in which a mutant must be killed so often
    judged: int  # runs of each protocol that FizzBee judges too
    tried: int  # small runs for the rate that FizzBee can follow
    campaign: int  # seeds on Spark
    deep: bool = False  # take the larger instance of a check, if it has one


GATE = Size("make verify", seeds=1_000, each_strategy=0, compared=60, kills=1, budget=2_000, judged=4, tried=50, campaign=500)
DEEP = Size("make verify-deep", seeds=10_000, each_strategy=1_000, compared=500, kills=30, budget=10_000, judged=20, tried=500,
            campaign=5_000, deep=True)
