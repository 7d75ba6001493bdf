"""highwater cost: measure what a commit of each protocol costs in requests, round trips, milliseconds and dollars.

The requests are counted in simulation (dst/cost.py). Milliseconds and dollars are computed from the inputs in cost.toml, which
are shown with the results.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from html import escape
from math import log10
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table

from highwater.cli.console import announce_names, check_writable, console, known_scenario, refuse, steps_shown, write_text
from highwater.dst.cost import Cost, Latency, Spread, all_of, dollars, measure
from highwater.dst.scenarios import named, stems
from highwater.outside import document_of, toml_of
from highwater.reports.page import ASSETS

INPUTS = Path(__file__).with_name("cost.toml")
COLOURS = {"list": "#d1495b", "get": "#edae49", "get_range": "#f4d58d", "get_if_changed": "#8fc9a8", "head": "#9a8c98",
           "create": "#00798c", "update": "#30638e", "put": "#003d5b", "delete": "#bbbbbb"}
HEAD = ("protocol", "contention", "requests", "by kind", "conflicts", "round trips per conflict", "checks answered 304",
        "latency ms", "$ per million")
BAR, LEFT, WIDTH = 22, 230, 560  # of a row of a plot, in pixels: its height, the room for its name, its drawing's width
RUNS = 20  # default number for each protocol and contention; docs/operating/cost.md uses it too
TIMED = 50  # requests of each kind to a real server


class Inputs(NamedTuple):
    dollars: dict[str, float]  # per 1,000 requests
    latencies: dict[str, Latency]


def inputs_of(path: Path) -> Inputs:
    """Read prices and latencies from a TOML file. Refuses a file that lacks a kind of request or holds an invalid value."""
    try:
        read = toml_of(document_of(path))
    except (OSError, ValueError) as error:
        refuse(f"{path}: {error}")
    try:
        for table in read.values():
            table.setdefault("get_range", table["get"])  # files of release 0.1 do not have it
        prices = {op: float(read["dollars_per_1000_requests"][op]) for op in COLOURS}
        latencies = {op: Latency(*map(float, read["latency_ms"][op])) for op in COLOURS}
    except KeyError as error:
        refuse(f"{path}: {error} is missing; see `{INPUTS.name}` for all names")
    except (TypeError, ValueError, AttributeError) as error:
        refuse(f"{path}: {error}; write prices as numbers, latencies as [p50, p99]")
    wrong = [op for op, of in latencies.items() if not 0 < of.p50_ms < of.p99_ms] + [op for op, of in prices.items() if of < 0]
    if wrong:
        refuse(f"{path}: {wrong[0]} is out of range: a price must not be negative, a latency must have 0 < p50 < p99")
    return Inputs(prices, latencies)


def cost_command(
        protocol: Annotated[list[str] | None, typer.Option(help="measure only this protocol; may be repeated")] = None,
        runs: Annotated[int, typer.Option(min=1, help="runs for each protocol and contention")] = RUNS,
        inputs: Annotated[Path, typer.Option(help="TOML file of prices and latencies: a changed copy of the default")] = INPUTS,
        html: Annotated[Path | None, typer.Option(help="write the table and a plot to this HTML page")] = None,
        as_json: Annotated[Path | None, typer.Option("--json", help="also write the results to this JSON file")] = None,
        endpoint: Annotated[str | None, typer.Option(help="also time this S3 server's conditional requests")] = None,
        bucket: Annotated[str, typer.Option(help="the server's bucket; creates and deletes objects below cost/, of which "
                                           "a killed run may leave one")] = "highwater",
        ) -> None:
    """Measure what a commit of each protocol costs at several contentions: requests of each kind, round trips per conflict,
    the share of checks answered "not modified", latency, dollars."""
    of = inputs_of(inputs)
    todo = contentions(protocol)
    for path in filter(None, (html, as_json)):
        check_writable(path)
    costs = []
    announce_names((named(name).protocol for name, _ in todo), (name for name, _ in todo), at_once=True)
    with steps_shown("measuring", len(todo)) as show:
        for name, contention in todo:
            show(f"{name}, {contention}")
            try:
                costs.append(measure(name, contention, of.latencies, runs))
            except ValueError as error:
                refuse(str(error))
    table = Table(*HEAD)
    for row in rows_of(costs, of):
        table.add_row(*(cell.replace(", ", "\n") for cell in row))
    console.print(table)
    console.print(note(inputs.name))
    if html:
        write_text(html, page(costs, of, inputs.name))
        console.print(f"written: {html}")
    if as_json:
        write_text(as_json, json.dumps([document(cost, of) for cost in costs], indent=1) + "\n")
    if endpoint:
        told_times(endpoint, bucket)


# --- the table and the page

def note(inputs: str) -> str:
    """Return the footnote of the table. `inputs`: the name of the inputs' file."""
    return ("Counts are measured: mean (p50 / p99) of the requests that the client of one commit sends, in total and by kind. "
            f"Round trips and latencies are p50 / p99. Latencies and dollars are computed from the inputs in {inputs}. Dollars "
            "cover the requests of all clients, including collectors.")


def contentions(protocols: list[str] | None = None) -> list[tuple[str, str]]:
    """List the (protocol, contention) pairs to measure, in order; all protocols if none is named. Refuses unknown protocols."""
    return [(name, contention) for name in map(known_scenario, protocols or stems()) for contention in all_of(name)]


def rows_of(costs: list[Cost], of: Inputs) -> list[tuple[str, ...]]:
    rows, before = [], ""
    for cost in costs:
        kinds = ", ".join(f"{kind} {spread(each)}" for kind, each in cost.kinds.items())
        rows.append((cost.protocol if cost.protocol != before else "", cost.contention, spread(cost.requests), kinds,
                     spread(cost.conflicts), f"{cost.trips.p50:.0f} / {cost.trips.p99:.0f}" if cost.trips else "",
                     f"{cost.unchanged:.0%}" if cost.unchanged is not None else "",
                     f"{cost.latency_ms.p50:,.0f} / {cost.latency_ms.p99:,.0f}", f"{dollars(cost.all_kinds, of.dollars):,.2f}"))
        before = cost.protocol
    return rows


def spread(of: Spread) -> str:
    return f"{of.mean:.2f} ({of.p50:.0f} / {of.p99:.0f})"


def document(cost: Cost, of: Inputs) -> dict[str, Any]:
    return {**cost._asdict(), "kinds": {kind: each._asdict() for kind, each in cost.kinds.items()},
            **{name: each and each._asdict() for name, each in (("requests", cost.requests), ("conflicts", cost.conflicts),
                                                               ("trips", cost.trips), ("latency_ms", cost.latency_ms))},
            "dollars_per_million": round(dollars(cost.all_kinds, of.dollars), 4)}


def page(costs: list[Cost], of: Inputs, inputs: str) -> str:
    """Return the HTML page of the results: the same bytes for the same arguments."""
    table = ["<table><tr>" + "".join(f"<th>{escape(name)}</th>" for name in HEAD) + "</tr>"]
    for row in rows_of(costs, of):
        cells = [escape(cell).replace(", ", "<br>") if name == "by kind" else escape(cell) for name, cell in zip(HEAD, row)]
        table.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    key = "".join(f'<span style="background:{colour}"></span>{op}' for op, colour in COLOURS.items()
                  if any(op in cost.kinds for cost in costs))
    parts = {"$COMMITS": f"{sum(cost.commits for cost in costs):,}", "$NOTE": escape(note(inputs)), "$KEY": key,
             "$REQUESTS": plot(costs, of_requests(costs)), "$LATENCY": plot(costs, of_latency(costs)),
             "$TABLE": "\n".join([*table, "</table>"])}
    text = ASSETS.joinpath("cost.html").read_text()
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


def plot(costs: list[Cost], draw: Callable[[Cost, int], list[str]]) -> str:
    """Draw one row for each contention as SVG: its name, and what `draw(cost, y)` returns for it."""
    lines, y = [], 0
    for cost, before in zip(costs, [None, *costs]):
        if not before or before.protocol != cost.protocol:
            y += BAR
            lines.append(f'<text x="0" y="{y - 6}" font-weight="bold">{escape(cost.protocol)}</text>')
        lines += [f'<text x="12" y="{y + BAR - 8}">{escape(cost.contention)}</text>', *draw(cost, y)]
        y += BAR
    return f'<svg viewBox="0 0 {LEFT + WIDTH + 110} {y + 4}" width="100%">' + "\n".join(lines) + "</svg>"


def of_requests(costs: list[Cost]) -> Callable[[Cost, int], list[str]]:
    """Return the function that draws the requests of a commit as a bar, by kind."""
    widest = max((cost.requests.mean for cost in costs), default=1)

    def draw(cost: Cost, y: int) -> list[str]:
        lines, x = [], float(LEFT)
        for kind, each in cost.kinds.items():
            width = WIDTH * each.mean / widest
            lines.append(f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{BAR - 6}" fill="{COLOURS[kind]}">'
                         f"<title>{kind}: {each.mean:.2f}</title></rect>")
            x += width
        return [*lines, f'<text x="{x + 6:.1f}" y="{y + BAR - 8}">{cost.requests.mean:.2f}</text>']

    return draw


def of_latency(costs: list[Cost]) -> Callable[[Cost, int], list[str]]:
    """Return the function that draws the latency of a commit as a line from p50 to p99, on a logarithmic scale."""
    most = log10(max(10.0, *(cost.latency_ms.p99 for cost in costs)))

    def draw(cost: Cost, y: int) -> list[str]:
        p50, p99 = cost.latency_ms.p50, cost.latency_ms.p99
        low, high = (LEFT + WIDTH * log10(max(1.0, ms)) / most for ms in (p50, p99))
        middle = y + BAR // 2
        grid = [f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + BAR}"><title>{10 ** i:,} ms</title></line>'
                for i in range(int(most) + 1) for x in [LEFT + WIDTH * i / most]]
        return [*grid, f'<line class="range" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>',
                f'<circle class="p50" cx="{low:.1f}" cy="{middle}" r="4"/>',
                f'<circle class="p99" cx="{high:.1f}" cy="{middle}" r="4"/>',
                f'<text x="{high + 10:.1f}" y="{y + BAR - 7}">{p50:,.0f} / {p99:,.0f}</text>']

    return draw


# --- a real server: indicative times

def told_times(endpoint: str, bucket: str) -> None:
    """Time requests to a real server and print the medians. Refuses a server that does not respond.

    Each run uses its own prefix, so objects left by an earlier run do not disturb it."""
    import asyncio

    from highwater.impl.errors import StoreError
    from highwater.impl.stores.s3 import S3Store, connect
    from highwater.impl.stores.system import Ulids

    try:
        times = asyncio.run(timed_and_swept(S3Store(connect(endpoint), bucket, f"cost/{Ulids().new_id()}", ids=Ulids())))
    except (StoreError, ValueError) as error:
        refuse(f"{endpoint}: {error}")
    table = Table("request", "median ms")
    for what, each in times.items():
        table.add_row(what, f"{median(each):.2f}")
    console.print(table)
    console.print(f"{endpoint}: medians of {TIMED} requests of each kind, one by one. They hold for this server and machine.")


async def timed_and_swept(store: Any) -> dict[str, list[float]]:
    """Time the requests, then delete the objects that they created, also after an exception."""
    from highwater.impl.errors import StoreError
    from highwater.impl.world import list_all

    try:
        return await timed(store)
    finally:
        with suppress(StoreError):
            for entry in await list_all(store, ""):
                await store.delete(entry.key)


async def timed(store: Any) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"PUT": [], "PUT If-None-Match": [], "PUT If-Match": [], "GET (200)": [], "GET (304)": []}

    async def of(what: str, asked: Any) -> Any:
        start = time.perf_counter()
        found = await asked
        times[what].append(1000 * (time.perf_counter() - start))
        return found

    for number in range(TIMED):
        key, body = f"{number}", b"12" * 500
        await of("PUT If-None-Match", store.create(key, body))
        version = await of("PUT", store.put(key, body + b"1"))
        version = await of("PUT If-Match", store.update(key, body + b"2", version))
        await of("GET (200)", store.get(key))
        await of("GET (304)", store.get_if_changed(key, version))
        await store.delete(key)
    return times
