"""The answers of the index to a log entry, by the names of gRPC's codes."""

from typing import Any, NamedTuple

OK, INVALID, PRECONDITION, ABORTED = "OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "ABORTED"


class Answer(NamedTuple):
    """The outcome of an entry. With another code than OK it had no effect and never will have one."""

    code: str = OK
    text: str = ""
    value: Any = None  # a PlanUpdate, for the two entries of a poll


DONE = Answer()
