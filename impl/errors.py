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


class BeyondEnd(Definite):
    """The object has no byte where the range begins (416): it ends there, or before."""


class AlreadyExists(Definite):
    """Create-if-absent found an object with this key (412 to PUT If-None-Match: *)."""


class PreconditionFailed(Definite):
    """The object does not have the version that the request named (412 to If-Match)."""


class Unavailable(Definite):
    """A request that had no effect: an unanswered read, or a mutation whose status says that nothing was applied (403, 409)."""


class UpdateConflict(Definite):
    """Other clients were faster in every attempt: nothing of this update is applied."""


class OutcomeUnknown(Indefinite):
    """A mutation that got no answer (time-out, reset), or a status that does not say whether it was applied (408, 5xx)."""


class TimedOut(Indefinite):
    """The caller's time was over before the call had ended. The call was cancelled; its requests may still be applied."""


class TaskCancelled(Indefinite):
    """The task was cancelled before it ended. Its requests may still be applied."""


class ListingNeverEnds(Definite):
    """A page of a listing is truncated, but brings no key after the one it was asked to start from."""

    def __init__(self, prefix: str, after: str):
        super().__init__(f"the listing of {prefix!r} after {after!r} is truncated, but brings no further key")


class Fenced(StoreError):
    """Another instance of this role has opened since, so this one has ended. The subclasses say what has become of its
    update."""

    def __init__(self, role: str, epoch: int, stored: int, what: str):
        self.role, self.epoch, self.stored = role, epoch, stored
        by = f"{stored}: another {role} has opened since" if stored else f"unknown, a later {role} has opened"
        super().__init__(f"this {role} has epoch {epoch}, and the latest is {by}; {what}")


class FencedUnapplied(Fenced, Definite):
    """The update has not been applied, and never will be."""


class FencedApplied(Fenced, Indefinite):
    """The effect of the update is in the history.

    For a writer: its update got no response, but was applied before the other writer opened. For a compactor or collector: this
    instance or its successor made the change. If it was the successor, the output in the history is the successor's.
    """


class FencedInDoubt(Fenced, Indefinite):
    """The update may have been applied, or its successor may apply it. The successor finds out."""
