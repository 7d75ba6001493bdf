"""Campaigns of many seeds, with one row for each seed.

Safety: a campaign passes only if every requested seed has exactly one row, and no row is a failure.

A row is a function of the `Campaign`, the seed and the code. It is the same with either engine, any cut into ranges, and any
machine. The exceptions are `cpu_us`, and which seeds exceed their limits. Whatever goes wrong in a seed becomes its row: a
failure of the simulation, an exception of the harness (kind "harness"), a hang ("timeout"), too much memory ("memory"), the
death of its process ("death"), or a second run that differs from the first ("nondeterminism", checked for a sample).

    rows.py      a range of seeds -> a table with one row a seed
    folder.py    stores the rows, and knows which are missing
    waves.py     runs the missing seeds in waves, until all are done or the budget is used up
    processes.py, spark.py   the engines, which run the ranges of a wave
    summary.py   summarizes the rows
"""
