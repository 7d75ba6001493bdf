"""Safety: a run that could not be judged is never taken for one that is in order."""

import pyarrow as pa

SCHEMA = pa.schema([
    ("run", pa.string()),
    ("namespace", pa.string()),
    ("protocol", pa.string()),
    ("verdict", pa.string()),  # ok | failed | damaged: it could not be judged
    ("kind", pa.string()),  # "" if it is ok; refinement, safety; input where it is damaged; harness: the checker's own fault
    ("signature", pa.string()),
    ("message", pa.string()),
    ("events", pa.int64()),
    ("first_bad", pa.int64()),  # number of the event, in the order of the run, from 0; null if there is none
    ("explanation", pa.string()),  # of a run that failed; else ""
])
INPUT = "input"  # the kind of what could not be judged


class BulkError(Exception):
    """Nothing was checked, or not all; one line that says why."""


class BadInput(BulkError):
    """What was given cannot be read; it names the file, and what to do."""
