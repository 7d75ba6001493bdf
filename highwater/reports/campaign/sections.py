"""Make the sections of a campaign's report: the failures, where they occur, the coverage, and the runs."""

from collections.abc import Iterable
from os.path import relpath
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from highwater import project
from highwater.dst.campaign.what import UNJUDGED, replayed_in
from highwater.reports.campaign.figures import Cell, Failed, Figures, Growth, cells_of
from highwater.reports.campaign.numbers import digits, lasting, share, short, sure
from highwater.reports.campaign.plot import growth_plot
from highwater.reports.campaign.verdict import LEVEL, SLOWER, most_more
from highwater.reports.markup import Html, el, joined, row, table

EMBEDDED = 12  # timelines in a page; the others are linked
LARGEST = 2_000_000  # characters of one
MEANING = {
    "levelled off": "More seeds like these would reach little that is new. Other strategies, faults or sizes might.",
    "slowing": "More seeds still reach something new, but less and less.",
    "still growing": "More seeds would reach much that is new.",
    "not sampled": "Coverage is recorded for one seed in four, and there are too few seeds to tell.",
}


class Bundle(NamedTuple):
    """The bundle that `campaign triage` kept for a signature. `folder` is relative to the campaign's; "" if not shrunk."""

    state: str  # new, known, gone; "": not said
    folder: str = ""
    requests: str = ""  # before -> after
    report: str = ""
    timeline: str = ""


class Place(NamedTuple):
    """The folder of the page, and the number of timelines that it may still embed."""

    target: Path
    budget: list[int]

    def seen(self, path: Path) -> str:
        """Return a path relative to the page, so that links work after page and campaigns move together."""
        return relpath(path, self.target.parent)

    def of(self, folder: Path) -> str:
        """Return a folder for a command in a shell in the page's folder."""
        return quote(self.seen(folder))


def sections(f: Figures, bundles: dict[str, Bundle], place: Place) -> list[Html]:
    parts = [failures(f, bundles, place)]
    if f.done:
        parts += [by_strategy(f), coverage(f), never_reached(f)]
    return [part for part in (*parts, what_ran(f, place)) if part]


# --- what failed

def failures(f: Figures, bundles: dict[str, Bundle], place: Place) -> Html | None:
    gone = [signature for signature, bundle in bundles.items() if bundle.state == "gone"]
    if not f.failures and not gone:
        return None
    parts = []
    if not f.here:
        parts.append(el("p", f"Code {f.campaign.code} wrote the rows. The current code differs, and may behave differently for "
                        "the same seed. The replay of a bundle says so if its tape does not fit.", class_="soft"))
    if f.failures and not any(bundle.folder for bundle in bundles.values()):
        parts.append(el("p", "No failure is shrunk yet. This command does it, and the next report shows why each one fails:",
                        command(f"highwater campaign triage {place.of(f.out)}{project.option()}"), class_="soft"))
    parts += [failure_of(f, failure, bundles.get(failure.signature, Bundle("")), place) for failure in f.failures]
    if gone:
        parts.append(el("p", f"Failures of the earlier campaign that {'are not seen yet' if f.left else 'are gone'}: "
                        f"{', '.join(gone)}"))
    kinds = f"{len(f.failures)} kind{'s' * (len(f.failures) != 1)} of failure"
    return el("section", el("h2", kinds), *parts, class_="card")


def failure_of(f: Figures, failure: Failed, bundle: Bundle, place: Place) -> Html:
    n = f.done if failure.kind in UNJUDGED else f.judged
    by = ", ".join(f"{name or 'not known'} {count:,}" for name, count in failure.strategies.items())
    state = [el("span", bundle.state, class_=f"tag {'bad' if bundle.state == 'new' else 'open'}")] if bundle.state else []
    parts = [el("h3", failure.signature, el("span", failure.kind, class_="chip"), *state),
             el("p", failure.message, class_="message"),
             el("p", f"{failure.count:,} of {n:,} runs ({sure(failure.count, n)}, 95 %); smallest seed {failure.seed}" +
                (f"; by strategy: {by}" if by else ""), class_="soft"),
             command(replayed_in(failure.replay, place.seen(f.out)))]
    if bundle.folder:
        parts += shrunk(f.out / bundle.folder, failure, bundle, place)
    return el("article", *parts, class_="failure")


def shrunk(folder: Path, failure: Failed, bundle: Bundle, place: Place) -> list[Html]:
    """Show the shrunk run of a failure: command, report and timeline."""
    report, timeline = map(elsewhere, (bundle.report, bundle.timeline))
    parts = [el("p", f"Shrunk, requests {bundle.requests}:", class_="soft"),
             command(f"highwater dst replay {place.of(folder)}{project.option()} --shrunk"),
             el("details", el("summary", "What happened, and why that is wrong"), el("pre", report), open=True)]
    if 0 < len(timeline) <= LARGEST and place.budget[0] > 0:
        page = el("iframe", srcdoc=timeline, sandbox="allow-scripts", title=f"timeline of {failure.signature}")
        parts.append(el("details", el("summary", "Its timeline"), page, open=place.budget[0] == EMBEDDED))
        place.budget[0] -= 1
    link = el("a", "Its timeline, in the bundle", href=place.seen(folder / "shrunk.timeline.html"))
    return [*parts, el("p", link, class_="soft")]


def elsewhere(text: str) -> str:
    """Rewrite a bundle's reference to its own folder for another page."""
    return text.replace("in this folder: ", "in the bundle's folder: ")


def command(text: str) -> Html:
    return el("code", text, class_="command")


# --- where

def by_strategy(f: Figures) -> Html:
    strategies, profiles = sorted({cell.strategy for cell in f.cells}), sorted({cell.profile for cell in f.cells})
    of, by, stores = {cell[:2]: cell for cell in f.cells}, added(f.cells, "strategy"), added(f.cells, "profile")
    rows = [row(name or "not known", found_cell(by[name], True), *(
        found_cell(of[name, store]) if (name, store) in of else el("td", "·", class_="not") for store in profiles))
        for name in strategies]
    whole = Cell("", "", *map(sum, zip(*(cell[2:] for cell in f.cells))))
    rows.append(row("all", found_cell(whole, True), *(found_cell(stores[name]) for name in profiles)))
    head = ["strategy", "all stores, 95 %", *(store or "not known" for store in profiles)]
    return el("section", el("h2", "Failed runs, by strategy and store"), table(head, rows, class_="grid"), class_="card")


def added(cells: Iterable[Cell], field: str) -> dict[str, Cell]:
    """Sum the cells by one field, over all values of the other."""
    found: dict[str, Cell] = {}
    for cell in cells:
        before = found.get(getattr(cell, field), Cell("", "", 0, 0, 0, 0))
        found[getattr(cell, field)] = Cell("", "", *(a + b for a, b in zip(before[2:], cell[2:])))
    return found


def found_cell(cell: Cell, interval: bool = False) -> Html:
    """Make a table cell. It is redder if more runs failed."""
    n = cell.runs - cell.unjudged
    text = [counted(cell.failed, n), *([el("span", sure(cell.failed, n), class_="sub")] if interval else [])]
    if not cell.failed:
        return el("td", *text, class_="none")
    return el("td", *text, class_="hit", title=f"{sure(cell.failed, n)}, 95 %", style=f"--of: {cell.failed / n:.3f}")


def counted(k: int, n: int) -> str:
    return f"{k:,}/{n:,}"


# --- what was reached

def level(growth: Growth) -> str:
    if not growth.total:
        return "not sampled"
    return "levelled off" if growth.last_tenth < LEVEL else "slowing" if growth.last_tenth < SLOWER else "still growing"


def coverage(f: Figures) -> Html:
    words = level(f.states)
    lines = [f"{growth.total:,} distinct {name}. {share(growth.last_tenth)} of them were new in the last tenth of the seeds. "
             f"One more run would reach {digits(growth.next_run)} new ones, as many runs again at most "
             f"{most_more(growth, f.done)} (Good–Turing)"
             for name, growth in (("states", f.states), ("steps from state to state", f.model_steps)) if growth.total]
    lines.append(f"These are estimates from samples of {f.sketched:,} runs")
    plot = growth_plot({"states": f.states, "steps": f.model_steps})
    return el("section", el("h2", f"Coverage of the model: {words}"), el("p", MEANING[words]),
              el("div", plot, el("ul", *(el("li", line) for line in lines), class_="more soft"), class_="two"), class_="card")


def never_reached(f: Figures) -> Html:
    parts: list[Html] = []
    if f.witnesses is not None:
        never = [name for name, (runs, _) in f.witnesses.items() if not runs]
        there = sorted((runs, name, first) for name, (runs, first) in f.witnesses.items() if runs)
        rows, all_ = [row(name, f"{runs:,}", first) for runs, name, first in there], len(f.witnesses)
        parts += [el("p", f"{len(never)} of {all_} witnesses were never reached, so these runs say nothing about them:" if never
                     else f"All {all_} witnesses were reached."),
                  el("p", *(el("span", name, class_="chip never") for name in never), class_="chips"),
                  el("details", el("summary", "The others: the number of runs that reached them, and the first seed"),
                     table(["witness", "runs", "first seed"], rows))]
    if f.faults:
        parts += [el("p", "How often each fault occurred, by operation. Below a fault: whether the request was applied before "
                     "it, later or never. “none”: it did not occur. “·”: it cannot occur."), fault_grid(f)]
    return el("section", el("h2", "What was reached, and what was not"), *parts, class_="card")


def fault_grid(f: Figures) -> Html:
    cells = cells_of(f.faults)
    columns = sorted({(fault.isdigit(), fault, phase) for fault, _, phase in cells})
    rows = [row(op, *(fault_cell(cells.get((fault, op, phase))) for _, fault, phase in columns))
            for op in sorted({op for _, op, _ in cells})]
    head = [joined(fault, el("span", "refused" if status else phase, class_="sub")) for status, fault, phase in columns]
    return table(["", *head], rows, class_="grid")


def fault_cell(times: int | None) -> Html:
    if times is None:
        return el("td", "·", class_="not")
    return el("td", short(times)) if times else el("td", "none", class_="never")


# --- what ran

def what_ran(f: Figures, place: Place) -> Html:
    c, (low, high) = f.campaign, f.asked.seeds
    until = f", up to {f.asked.stop_after:,} failures" if f.asked.stop_after else ""
    facts = [("scenario", c.scenario), ("mutant", c.mutant or "none: the implementation itself"), ("strategy", c.strategy),
             ("store", c.profile or "drawn for each run"), ("code", c.code + (f", commit {f.commit}" if f.commit else "") + (
                 ", the current code" if f.here else ", not the current code")),
             ("seeds", f"{low} to {high - 1}{until}: {f.done:,} have run, {f.left:,} are missing ({state_of(f)})"),
             *(effort(f) if f.done else []), ("folder", str(f.out))]
    again = [command(f"highwater campaign resume {place.of(f.out)}{project.option()}")] if f.left and not f.running else []
    pairs = [part for name, said in facts for part in (el("dt", name), el("dd", said))]
    return el("section", el("h2", "What ran"), el("dl", *pairs, class_="facts"), *again, class_="card")


def effort(f: Figures) -> list[tuple[str, str]]:
    rate = f"{digits(f.seeds_per_s)} seeds/s in the median wave" if f.seeds_per_s else "not known: too few waves of rows"
    if f.left and f.seeds_per_s:
        rate += f"; about {lasting(f.left / f.seeds_per_s)} to go"
    mean, median, most = (digits(us / 1000) for us in f.cpu_us)
    all_s = sum(cell.cpu_us for cell in f.cells) / 1e6
    return [("rate", rate),
            ("CPU", f"{mean} ms a run (median {median}, 99 of 100 below {most}), {lasting(all_s)} in all"),
            ("work", f"{f.requests:,} requests, {f.steps:,} steps, {lasting(f.virtual_ms / 1000)} of virtual time")]


def state_of(f: Figures) -> str:
    return "running" if f.running else "done" if not f.left else "stopped"
