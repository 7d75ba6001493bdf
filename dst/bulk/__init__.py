"""Checks of the traces of many runs, on Spark or without it.

Safety: a run in a bulk check gets the verdict that `trace check` gives it alone, with any engine and any split of the
input.

Every engine does the same two steps. `packets` packs the events of a split, a part of the input, by run into parts. `judge`
takes the packets of all splits for one part, puts each run's events in order, and checks them against the protocol
(dst/verdict.py). In between, packets travel through Spark's shuffle or through files.

    sources.py   input files -> splits; a split -> events
    packets.py   events -> a packet for each part, and packets -> runs
    checking.py  a run -> its row
    engines.py   this process or others; dst/spark/bulk.py: Spark
    export.py    events of runs -> Parquet or NDJSON
"""
