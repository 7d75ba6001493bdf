"""Run campaigns, checks and explorations on Spark. No other room of dst/ imports it.

    session.py   start a session, end it; Java
    shipping.py  send our sources to the workers
    tasks.py     watch a job; collect one answer for each task
    engine.py    a campaign's ranges of seeds; its shrinking
    stages.py    an exploration's stages
    errors.py    an error of Spark in one line
    bulk.py      the traces of many runs
    footers.py   the footers of an index's objects
    saving.py    rows, by Spark's writer
"""
