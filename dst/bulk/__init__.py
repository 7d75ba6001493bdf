"""Safety: of traces in bulk each run is judged as `trace check` judges it alone, whoever does it, however the work is cut.

Every engine does the same two steps. `packed` reads a part of the input, a split, and packs its events by the run that they are
of into so many parts; `judge` takes what all splits have packed for one part, puts each run's events in order, and holds them
against the protocol (dst/verdict.py). In between the packets go from hand to hand: on Spark by its shuffle, else by files.

    sources.py   which files, cut into which splits; a split -> events
    packets.py   events -> a packet for each part, and back, run by run
    checking.py  a run -> its row
    engines.py   who does it: this process, or others; dst/spark/bulk.py: Spark
    export.py    events of runs -> Parquet or NDJSON
"""
