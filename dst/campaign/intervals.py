"""Turn a day or a commit into an interval of seeds.

Safety: the intervals of different days, or of different commits, are disjoint, so nightly campaigns run no seed twice. An
interval depends on the day or the commit alone.
"""

import re
from datetime import date

from highwater.dst.campaign.what import Refused, Seeds

EACH = 1 << 32  # seeds for a day or a commit
OF_COMMITS = 1 << 62  # commits have the seeds from this one on
DIGITS = 7  # of a commit's hash that are used: git's own short form


def interval(text: str) -> Seeds:
    """Return the seeds of "N@2026-11-22" or "N@COMMIT". Raises Refused."""
    count, _, of = text.partition("@")
    if not re.fullmatch(r"\d{1,10}", count, re.ASCII) or not 1 <= int(count) <= EACH:
        raise Refused(f"seeds {text!r}: before the @ write how many, 1 to {EACH:,}")
    low = EACH * place(text, of)
    return low, low + int(count)


def place(text: str, of: str) -> int:
    """Return the number of a day's or commit's interval. Raises Refused."""
    if re.fullmatch(rf"[0-9a-f]{{{DIGITS},64}}", of):
        return OF_COMMITS // EACH + int(of[:DIGITS], 16)
    try:
        days = (date.fromisoformat(of) - date(1970, 1, 1)).days
    except ValueError:
        days = -1
    if days < 0:
        raise Refused(f"seeds {text!r}: after the @ write a day, as 2026-11-22, or a commit's hash, {DIGITS} digits or more")
    return days
