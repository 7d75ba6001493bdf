"""Safety: a share is never said without how sure it is: 95 %, both sides by Wilson; where there is none, at most, by the rule
of three (the exact form of it: what would give none of N with 5 % at least)."""

from math import floor, sqrt

Z = 1.959964  # of a normal distribution: 95 % within


def wilson(k: int, n: int) -> tuple[float, float]:
    """Between which the share is of which k of n were seen. (0, 1) of nothing."""
    if not n:
        return 0.0, 1.0
    share, more = k / n, Z * Z / n
    middle, half = share + more / 2, Z * sqrt(share * (1 - share) / n + more / 4 / n)
    return max(0.0, (middle - half) / (1 + more)), min(1.0, (middle + half) / (1 + more))


def at_most(n: int) -> float:
    """The share, 95 %, of what was seen in none of n: 3/n, nearly. 1 of nothing."""
    return 1 - 0.05 ** (1 / n) if n else 1.0


def sure(k: int, n: int) -> str:
    """E.g. "at most 30 in a million" or "1.2 to 3.4 %"."""
    if not n:
        return "nothing is known"
    if not k:
        return f"at most {share(at_most(n))}"
    if k == n:
        return f"at least {floor(1000 * (1 - at_most(n))) / 10:g} %"
    low, high = wilson(k, n)
    return between(low, high)


def share(x: float) -> str:
    """Small ones in a million."""
    return f"{digits(100 * x)} %" if x >= 0.001 else f"{digits(1e6 * x)} in a million"


def of_runs(words: str) -> str:
    """How many fail: `words` is as `sure` and `share` say it."""
    return f"{words} {'of ' * words.endswith('%')}runs fail"


def between(low: float, high: float) -> str:
    times, unit = (100, "%") if high >= 0.001 else (1e6, "in a million")
    return f"{digits(times * low)} to {digits(times * high)} {unit}"


def digits(x: float) -> str:
    """Two that count."""
    if x >= 100:
        return f"{x:,.0f}" if x < 1000 else f"{round(x, -2):,.0f}"
    if x >= 10:
        return f"{x:.0f}"
    return f"{x:.2g}" if x >= 0.0001 else "0"


def short(n: float) -> str:
    """E.g. 12,345, 130 k, 1.2 M."""
    if n < 100_000:
        return f"{n:,.0f}"
    return f"{n / 1e3:,.0f} k" if n < 1e6 else f"{n / 1e6:,.1f} M" if n < 1e9 else f"{n / 1e9:,.1f} G"


def lasting(seconds: float) -> str:
    """E.g. 12 s, 3 min, 4.5 h."""
    if seconds < 120:
        return f"{digits(seconds)} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
