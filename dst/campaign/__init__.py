"""Safety: a campaign passes only if every seed that was asked for has exactly one row, and no row is a failure.

A row is a function of what is simulated (`Campaign`), seed and code (all but `cpu_us`, and which seeds are too slow or too
large for their limits): the same with either engine, for any cut into ranges, on any machine. What goes wrong in a seed is its
row: a simulation's failure, an exception of the harness (kind "harness"), a seed that hangs ("timeout"), that uses up the
memory ("memory") or kills its process ("death"), one of a sample that is not the same when it is run again ("nondeterminism").

    rows.py      a range of seeds -> a table, one row a seed
    folder.py    where the rows are, and which are missing
    waves.py     runs what is missing, some ranges at a time, until all is done or the budget is used up
    processes.py, spark.py   the engines: who runs the ranges of a wave
    summary.py   what the rows say
"""
