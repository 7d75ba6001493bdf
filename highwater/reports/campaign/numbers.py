"""Safety: a share is always given with a 95 % bound. It is Wilson's interval, or for none of N the exact form of the rule of
three: the share at which none of N has a probability of 5 %."""

from math import floor, sqrt

Z = 1.959964  # of a normal distribution: 95 % within


def wilson(k: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of which k of n were seen; (0, 1) if n is 0."""
    if not n:
        return 0.0, 1.0
    share, more = k / n, Z * Z / n
    middle, half = share + more / 2, Z * sqrt(share * (1 - share) / n + more / 4 / n)
    return max(0.0, (middle - half) / (1 + more)), min(1.0, (middle + half) / (1 + more))


def at_most(n: int) -> float:
    """Return the 95 % upper bound of a share of which none of n was seen: about 3/n; 1 if n is 0."""
    return 1 - 0.05 ** (1 / n) if n else 1.0


def sure(k: int, n: int) -> str:
    """Describe the share of k of n, e.g. "at most 30 in a million" or "1.2 to 3.4 %"."""
    if not n:
        return "nothing is known"
    if not k:
        return f"at most {share(at_most(n))}"
    if k == n:
        return f"at least {floor(1000 * (1 - at_most(n))) / 10:g} %"
    low, high = wilson(k, n)
    return between(low, high)


def share(x: float) -> str:
    """Format a share in %, or a small one in a million."""
    return f"{digits(100 * x)} %" if x >= 0.001 else f"{digits(1e6 * x)} in a million"


def of_runs(words: str) -> str:
    """Say how many runs fail: `words` comes from `sure` or `share`."""
    return f"{words} {'of ' * words.endswith('%')}runs fail"


def between(low: float, high: float) -> str:
    times, unit = (100, "%") if high >= 0.001 else (1e6, "in a million")
    return f"{digits(times * low)} to {digits(times * high)} {unit}"


def digits(x: float) -> str:
    """Format a number with two significant digits."""
    if x >= 100:
        return f"{x:,.0f}" if x < 1000 else f"{round(x, -2):,.0f}"
    if x >= 10:
        return f"{x:.0f}"
    return f"{x:.2g}" if x >= 0.0001 else "0"


def short(n: float) -> str:
    """Format a count: 12,345, 130 k, 1.2 M."""
    if n < 100_000:
        return f"{n:,.0f}"
    return f"{n / 1e3:,.0f} k" if n < 1e6 else f"{n / 1e6:,.1f} M" if n < 1e9 else f"{n / 1e9:,.1f} G"


def lasting(seconds: float) -> str:
    """Format a duration: 12 s, 3 min, 4.5 h."""
    if seconds < 120:
        return f"{digits(seconds)} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
