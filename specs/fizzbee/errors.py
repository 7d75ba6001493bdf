"""What can go wrong when FizzBee is asked."""


class FizzError(Exception):
    """FizzBee could not do what was asked; the message opens with one line that says why."""


class FizzMissing(FizzError):
    """There is no FizzBee CLI on this machine."""


class SpecError(FizzError):
    """The spec does not parse, or does not have the constants that were set."""
