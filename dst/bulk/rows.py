"""The columns and the errors of a bulk check. Safety: a run that could not be judged is never reported as ok."""

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
INPUT = "input"  # the kind of a run that could not be judged


class BulkError(Exception):
    """The check did not finish. Its one line gives the reason."""


class BadInput(BulkError):
    """The input cannot be read. The message names the file and what to do."""
