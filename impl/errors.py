"""Safety: nobody may read a time-out as «nothing happened».

Every error that a store or a protocol raises is definite (the operation had no effect) or indefinite (it may have had
one, now or later). A caller may repeat an operation by itself only after a definite error.
"""


class StoreError(Exception):
    """Base of all errors of a store and of the protocols above it."""


class Definite(StoreError):
    """The operation had no effect, and never will have one."""


class Indefinite(StoreError):
    """The operation may have had its effect, or may have it later."""


class NotFound(Definite):
    """There is no object of this key (404)."""


class AlreadyExists(Definite):
    """Create-if-absent found an object of this key (412 to PUT If-None-Match: *)."""


class PreconditionFailed(Definite):
    """The object is not the version that the request named (412 to If-Match)."""


class Unavailable(Definite):
    """A read got no answer (it has no effect to doubt), or a mutation's status tells that nothing was applied (403, 409)."""


class OutcomeUnknown(Indefinite):
    """A mutation got no answer (time-out, reset), or a status that does not tell whether it was applied (408, 5xx)."""


class ListingNeverEnds(Definite):
    """A page of a listing is truncated and yet brings no key beyond the one that it was to begin after."""

    def __init__(self, prefix: str, after: str):
        super().__init__(f"the listing of {prefix!r} after {after!r} is truncated, but brings no further key")
