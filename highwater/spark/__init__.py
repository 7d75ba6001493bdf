"""Check traces and run campaigns in a Spark session of one's own, or as a job of spark-submit.

    from highwater.spark import campaign, check_traces

docs/guide/spark.md describes both functions and their columns; docs/guide/spark-submit.md describes the job.

    frames.py    the two functions
    submit.py    the file that spark-submit starts
"""

from highwater.spark.frames import campaign, check_traces

__all__ = ["campaign", "check_traces"]
