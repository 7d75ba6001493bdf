"""Safety: campaigns of different days, or of different commits, share no seed, so who runs one each night runs nothing twice;
and the interval is a function of the day, or of the commit, alone.
"""

import re
from datetime import date

from highwater.dst.campaign.what import Refused, Seeds

EACH = 1 << 32  # seeds of a day or a commit
OF_COMMITS = 1 << 62  # seeds from there on
DIGITS = 7  # of a commit's hash that tell: git's own short form


def interval(text: str) -> Seeds:
    """Of "N@2026-11-22" or "N@COMMIT". Raises Refused."""
    count, _, of = text.partition("@")
    if not re.fullmatch(r"\d{1,10}", count, re.ASCII) or not 1 <= int(count) <= EACH:
        raise Refused(f"seeds {text!r}: before the @ write how many, 1 to {EACH:,}")
    low = EACH * place(text, of)
    return low, low + int(count)


def place(text: str, of: str) -> int:
    """Raises Refused."""
    if re.fullmatch(rf"[0-9a-f]{{{DIGITS},64}}", of):
        return OF_COMMITS // EACH + int(of[:DIGITS], 16)
    try:
        days = (date.fromisoformat(of) - date(1970, 1, 1)).days
    except ValueError:
        days = -1
    if days < 0:
        raise Refused(f"seeds {text!r}: after the @ write a day, as 2026-11-22, or a commit's hash, {DIGITS} digits or more")
    return days
