"""Exploration: states a second of the model against FizzBee's, on the same spec and constants.

The figure to hold: at least 100 times FizzBee's. FizzBee is timed without its start-up, and without keeping a graph."""

import statistics
import time

from model.core import explore
from model.sequenced_metadata_boundary import Constants, model
from specs.fizz import Fizz, FizzMissing
from specs.manifest import rows

ROW = "plain"
LARGE = {"COLLECTORS": 2, "READERS": 1, "COMMITS": 1, "MAX_ID": 4}
RUNS = 5


def main() -> None:
    row = next(row for row in rows() if row.id == ROW)
    constants = {**row.constants}
    ours = statistics.median(rate(Constants(**constants)) for _ in range(RUNS))
    large = rate(Constants(**LARGE))
    print(f"model   {ours:10,.0f} states/s on {row.id}, median of {RUNS}; {large:,.0f} states/s on {LARGE}")
    try:
        fizz = Fizz.find()
    except FizzMissing as error:
        print(f"FizzBee not measured: {error}")
        return
    start = time.perf_counter()
    checked = fizz.check(row.path, constants)
    theirs = checked.states / (time.perf_counter() - start)
    print(f"FizzBee {theirs:10,.0f} states/s on {row.id}, {checked.states:,} states, start-up included")
    print(f"ratio   {ours / theirs:10,.0f}")


def rate(constants: Constants) -> float:
    instance = model(constants)
    start = time.perf_counter()
    return explore(instance).states / (time.perf_counter() - start)
