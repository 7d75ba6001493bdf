"""Reads durations as the released command line does: "7days 30min 10s"."""

import re

UNITS_MS = {  # unit, in all its spellings -> milliseconds
    **dict.fromkeys(("ms", "msec", "millis"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
    **dict.fromkeys(("M", "month", "months"), 2_630_016_000),  # 30.44 days
    **dict.fromkeys(("y", "year", "years"), 31_557_600_000),  # 365.25 days
}
PART = re.compile(r"([0-9]{1,20})\s*([A-Za-z]+)\s*")
EXAMPLE = 'give numbers with units, for example "7days 30min 10s"'


def duration_ms(text: str) -> int:
    """Return a duration in milliseconds. Raises ValueError, which names the part that is wrong."""
    total_ms, at = 0, len(text) - len(text.lstrip())
    while at < len(text):
        part = PART.match(text, at)
        if not part:
            raise ValueError(f"{text[at:]!r} in {text!r} is not a number with a unit: {EXAMPLE}")
        number, unit = part.groups()
        if unit not in UNITS_MS:
            raise ValueError(f"{unit!r} in {text!r} is no unit: {EXAMPLE}")
        total_ms, at = total_ms + int(number) * UNITS_MS[unit], part.end()
    if total_ms == 0:
        raise ValueError(f"{text!r} is no time at all: {EXAMPLE}; without a lifetime a checkpoint does not end")
    return total_ms
