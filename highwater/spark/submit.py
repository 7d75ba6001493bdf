"""Run a verb of highwater as a Spark application: spark-submit [OPTIONS] submit.py campaign run --seeds 0:100000 ..

Safety: the exit code of spark-submit is that of the verb. Without --master, the session is that of spark-submit.
"""

from runpy import run_module

if __name__ == "__main__":
    run_module("highwater", run_name="__main__")
