"""Draw the growth of a campaign's coverage as SVG. The same numbers give the same picture."""

from math import floor, log10

from highwater.reports.campaign.figures import Growth
from highwater.reports.campaign.numbers import short
from highwater.reports.markup import Html, el

WIDE, HIGH, LEFT, RIGHT, TOP, FOOT = 720, 260, 54, 122, 14, 44
APART = 15  # minimum distance of two names, in pixels


def growth_plot(named: dict[str, Growth]) -> Html:
    """Draw a curve for each name: distinct hashes over seeds. The last tenth of the seeds is marked; a curve that is flat there
    has levelled off."""
    most_x = max((points[-1][0] for points, *_ in named.values()), default=0)
    most_y = max((growth.total for growth in named.values()), default=0)
    if not most_x or not most_y:
        return el("p", "Nothing was reached yet.", class_="soft")

    def x(seeds: float) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * seeds / most_x

    def y(count: float) -> float:
        return HIGH - FOOT - (HIGH - FOOT - TOP) * count / (1.05 * most_y)

    parts = [el("rect", x=f"{x(0.9 * most_x):.1f}", y=TOP, width=f"{x(0.1 * most_x) - LEFT:.1f}", height=HIGH - FOOT - TOP,
                class_="last"),
             el("text", "last tenth", x=f"{x(0.95 * most_x):.1f}", y=HIGH - FOOT - 6, text_anchor="middle")]
    for tick in ticks(most_y):
        parts += [el("line", x1=LEFT, x2=WIDE - RIGHT, y1=f"{y(tick):.1f}", y2=f"{y(tick):.1f}", class_="rule"),
                  el("text", short(tick), x=LEFT - 6, y=f"{y(tick) + 4:.1f}", text_anchor="end")]
    for tick in ticks(most_x):
        parts.append(el("text", short(tick), x=f"{x(tick):.1f}", y=HIGH - FOOT + 16, text_anchor="middle"))
    parts.append(el("text", "seeds", x=(LEFT + WIDE - RIGHT) // 2, y=HIGH - 8, text_anchor="middle"))
    below = float("inf")
    for number, (name, growth) in sorted(enumerate(named.items()), key=lambda of: of[1][1].total):
        below = min(below - APART, y(growth.total) + 4)
        line = " ".join(f"{x(seeds):.1f},{y(count):.1f}" for seeds, count in growth.points)
        parts.append(el("g", el("polyline", points=line, class_="line"),
                        el("text", f"{short(growth.total)} {name}", x=WIDE - RIGHT + 6, y=f"{below:.1f}", class_="named"),
                        style=f"--of: var(--p{2 * number})"))
    words = "; ".join(f"{growth.total:,} {name} after {most_x:,} seeds" for name, growth in named.items())
    return el("svg", el("title", words), *parts, viewBox=f"0 0 {WIDE} {HIGH}", class_="growth", role="img")


def ticks(most: float) -> list[int]:
    """Return some round numbers up to `most`."""
    size = 10 ** max(0, floor(log10(most / 5)))
    step = next(of * size for of in (1, 2, 5, 10) if most / (of * size) <= 5)
    return list(range(0, int(most) + 1, step))
