"""Draws the states of one role as an SVG, so that no label lies on another.

States stand in a column, in the order in which they are first reached. A step to the next state is an arrow down; one to a
state further down leaves on the left, one back up or to the same state on the right, each with its label on its own line.
All arrows into one state from the same side share a lane. Letters are counted, not measured: the font is monospaced.
"""

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

Edges = dict[tuple[str, str], list[tuple[str, bool]]]  # (from, to) -> (action, is it a fault)

LETTER, LINE = 7.3, 16  # px, at 12px
NODE, CORNER, HEAD, LANE = 116, 7, 7, 16  # px: width of a state; rounding; arrow head; between lanes
WRAP = 30  # letters of one line of a label

STYLE = """
.back{fill:#fff;stroke:#d8dee3}.state{fill:#eef4fa;stroke:#3572ae}.state+text{font-weight:600}text{fill:#1c2227;
font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}.edge{fill:none;stroke:#6b7780}
.head{fill:#6b7780}.fault{fill:#a05a00}.role{font-weight:600;fill:#5c6870}
@media(prefers-color-scheme:dark){.back{fill:#161b20;stroke:#323b42}.state{fill:#1d2c3a;stroke:#6ea8dc}text{fill:#e3e8eb}
.edge{stroke:#8a959d}.head{fill:#8a959d}.fault{fill:#e3a857}.role{fill:#9fabb3}}
""".replace("\n", "")


class Port(NamedTuple):
    """The start of an arrow on one side of a state, and the label of the arrow."""

    source: str
    target: str
    lines: list[list[tuple[str, bool]]]  # of the label


def lines_of(actions: Iterable[tuple[str, bool]], letters: int = WRAP) -> list[list[tuple[str, bool]]]:
    lines: list[list[tuple[str, bool]]] = [[]]
    for action, fault in actions:
        if lines[-1] and sum(len(name) + 2 for name, _ in lines[-1]) + len(action) > letters:
            lines.append([])
        lines[-1].append((action, fault))
    return lines


def width(lines: list[list[tuple[str, bool]]]) -> float:
    return max((sum(len(name) + 2 for name, _ in line) - 1 for line in lines), default=0) * LETTER


def order(initial: str, edges: Edges) -> list[str]:
    """Order the states breadth first: every state stands after one that leads to it."""
    found = [initial]
    for state in found:  # grows while we walk it
        found += dict.fromkeys(target for source, target in edges if source == state and target not in found)
    return found


def label(x: float, y: float, lines: list[list[tuple[str, bool]]], anchor: str = "start") -> str:
    """Render a label whose last line stands at height y."""
    texts = []
    for number, line in enumerate(lines):
        parts = [f'<tspan class="fault">{escape(name)}</tspan>' if fault else escape(name) for name, fault in line]
        after = "," if number + 1 < len(lines) else ""
        texts.append(f'<text x="{x:.1f}" y="{y - (len(lines) - 1 - number) * LINE:.1f}" text-anchor="{anchor}">'
                     f'{", ".join(parts)}{after}</text>')
    return "".join(texts)


def head(x: float, y: float, dx: int, dy: int) -> str:
    """Render an arrow head whose point is at (x, y)."""
    a, b = (x - HEAD * dx - 4 * dy, y - HEAD * dy - 4 * dx), (x - HEAD * dx + 4 * dy, y - HEAD * dy + 4 * dx)
    return f'<path class="head" d="M{x:.1f} {y:.1f}L{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}Z"/>'


def edge(d: str) -> str:
    return f'<path class="edge" d="{d}"/>'


def svg(role: str, initial: str, edges: Edges) -> str:
    states = order(initial, edges)
    place = {state: number for number, state in enumerate(states)}
    right = {state: [Port(state, target, lines_of(actions)) for (source, target), actions in edges.items()
                     if source == state and place[target] <= place[state]] for state in states}
    left = {state: [Port(state, target, lines_of(actions, 16)) for (source, target), actions in edges.items()
                    if source == state and place[target] > place[state] + 1] for state in states}
    for ports in right.values():  # a loop above; then the nearest state first
        ports.sort(key=lambda port: (port.target != port.source, place[port.source] - place[port.target]))
    down = {state: lines_of(edges.get((state, following), []), 24) for state, following in zip(states, [*states[1:], ""])}
    lanes_right = sorted({port.target for ports in right.values() for port in ports if port.target != port.source},
                         key=lambda state: -place[state])
    lanes_left = sorted({port.target for ports in left.values() for port in ports}, key=lambda state: place[state])

    label_left = max((width(port.lines) for ports in left.values() for port in ports), default=0)
    label_right = max((width(port.lines) + 17 * (port.source == port.target) for ports in right.values() for port in ports),
                      default=0)
    named = 30 + len(role) * LETTER - NODE / 2  # so that the name of the role is beside the arrow of the first state
    x0 = max(named, 24 + (len(lanes_left) * LANE + label_left + 14 if lanes_left else 0))  # the left side of the states
    x1 = x0 + NODE
    lane_right = {state: x1 + label_right + 26 + number * LANE for number, state in enumerate(lanes_right)}
    lane_left = {state: x0 - label_left - 20 - number * LANE for number, state in enumerate(lanes_left)}

    def tall(port: Port) -> float:
        return len(port.lines) * LINE + (14 if port.target == port.source else 12)

    top, bottom, out_right, out_left, y = {}, {}, {}, {}, 52.0
    for state in states:  # from above: what comes in on the left, what leaves, what comes in on the right
        top[state], at = y, y + (20 if state in lanes_left else 8)
        for port in left[state]:
            out_left[port.source, port.target] = at = at + tall(port)
        end, at = at, y + 4
        for port in right[state]:
            out_right[port.source, port.target] = at = at + tall(port)
        at += 22 if state in lanes_right else 0
        bottom[state] = max(y + 38, at + 10, end + 10)
        y = bottom[state] + (len(down[state]) * LINE + 26 if down[state][0] else 34)
    high, wide = max(bottom.values()) + 20, max([x1 + label_right + 46, *(x + 20 for x in lane_right.values())])

    drawn, entered = [], set()

    def around(port: Port, y: float, side: int) -> None:
        """Draw an arrow from (side, y) along the target's lane into the target; `side`: -1 left, 1 right."""
        start, x = (x1, lane_right[port.target]) if side > 0 else (x0, lane_left[port.target])
        end = bottom[port.target] - 12 if side > 0 else top[port.target] + 12
        stub = f"M{start:.1f} {y:.1f}H{x - CORNER * side:.1f}Q{x:.1f} {y:.1f} {x:.1f} {y - CORNER * side:.1f}"
        if (side, port.target) not in entered:  # the furthest draws the lane for all
            entered.add((side, port.target))
            stub += (f"V{end + CORNER * side:.1f}Q{x:.1f} {end:.1f} {x - CORNER * side:.1f} {end:.1f}"
                     f"H{start + HEAD * side:.1f}")
            drawn.append(head(start, end, -side, 0))
        drawn.extend([edge(stub), label(start + 12 * side, y - 5, port.lines, "start" if side > 0 else "end")])

    for state in states:
        for port in left[state]:
            around(port, out_left[port.source, port.target], -1)
        if down[state][0]:
            x, following = x0 + NODE / 2, states[place[state] + 1]
            drawn += [edge(f"M{x:.1f} {bottom[state]:.1f}V{top[following] - HEAD:.1f}"), head(x, top[following], 0, 1),
                      label(x + 9, top[following] - 13, down[state])]
    for state in reversed(states):
        for port in right[state]:
            y = out_right[port.source, port.target]
            if port.target == port.source:
                drawn += [edge(f"M{x1:.1f} {y - 13:.1f}H{x1 + 14:.1f}Q{x1 + 21:.1f} {y - 13:.1f} {x1 + 21:.1f} {y - 6:.1f}"
                               f"Q{x1 + 21:.1f} {y + 1:.1f} {x1 + 14:.1f} {y + 1:.1f}H{x1 + HEAD:.1f}"),
                          head(x1, y + 1, -1, 0), label(x1 + 29, y - 2, port.lines)]
            else:
                around(port, y, 1)
    x = x0 + NODE / 2
    drawn += [f'<circle class="head" cx="{x:.1f}" cy="30" r="4"/>', edge(f"M{x:.1f} 30V45"), head(x, 52, 0, 1)]
    for state in states:
        middle = (top[state] + bottom[state]) / 2 + 4
        drawn.append(f'<rect class="state" x="{x0:.1f}" y="{top[state]:.1f}" width="{NODE}" '
                     f'height="{bottom[state] - top[state]:.1f}" rx="7"/>'
                     f'<text x="{x:.1f}" y="{middle:.1f}" text-anchor="middle">{escape(state)}</text>')
    said = "; ".join(f"{source} to {target}: {', '.join(name for name, _ in actions)}"
                     for (source, target), actions in edges.items())
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" role="img">',
        f"<title>{escape(role)}: states and actions</title>", f"<desc>{escape(said)}</desc>", f"<style>{STYLE}</style>",
        f'<rect class="back" x=".5" y=".5" width="{wide - 1:.0f}" height="{high - 1:.0f}" rx="9"/>',
        f'<text class="role" x="16" y="24">{escape(role)}</text>', *drawn, "</svg>\n"])
