"""Safety: no caller can read a time-out as «nothing happened».

Every error of a store or a protocol is definite or indefinite. After a definite error the operation had no effect. After an
indefinite error it may have had one, or may have it later. A caller may repeat an operation by itself only after a definite
error.
"""


class StoreError(Exception):
    """The base of all errors of stores and of the protocols above them. A store sets the fields below if it knows them."""

    status: int  # of HTTP
    attempts: int  # how often the store's client sent the request


class Definite(StoreError):
    """An error after which the operation had no effect and never will have one."""


class Indefinite(StoreError):
    """An error after which the operation may have had its effect, or may have it later."""


class NotFound(Definite):
    """No object has this key (404)."""


class AlreadyExists(Definite):
    """Create-if-absent found an object with this key (412 to PUT If-None-Match: *)."""


class PreconditionFailed(Definite):
    """The object does not have the version that the request named (412 to If-Match)."""


class Unavailable(Definite):
    """A request that had no effect: an unanswered read, or a mutation whose status says that nothing was applied (403, 409)."""


class OutcomeUnknown(Indefinite):
    """A mutation that got no answer (time-out, reset), or a status that does not say whether it was applied (408, 5xx)."""


class TimedOut(Indefinite):
    """The caller's time was over before the call had ended. The call was cancelled; its requests may still be applied."""


class ListingNeverEnds(Definite):
    """A page of a listing is truncated, but brings no key after the one it was asked to start from."""

    def __init__(self, prefix: str, after: str):
        super().__init__(f"the listing of {prefix!r} after {after!r} is truncated, but brings no further key")
