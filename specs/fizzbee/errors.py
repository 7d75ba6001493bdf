"""Errors of a run of FizzBee."""


class FizzError(Exception):
    """FizzBee could not do what was asked; the message opens with one line that says why."""


class FizzMissing(FizzError):
    """This machine has no FizzBee CLI."""


class SpecError(FizzError):
    """The spec does not parse, or does not have the constants that were set."""
