"""highwater dst timeline: draw one run as an HTML page that needs no network.

The page has lanes for clients, clock and store, arcs for requests, the model's state at the cursor, and the causes of the
failing event. It is timeline.html with page.css, timeline.css, timeline.js and the data.
"""

import re
from pathlib import Path
from typing import Annotated

import typer

from highwater import project
from highwater.cli.console import Protocol, Scenario, console, write_text
from highwater.cli.dst.explain import Mutant, Shrunk, Strategy, Told, look, run_of
from highwater.cli.dst.replay import seed_of
from highwater.cli.dst.report import Limit, found_by, which
from highwater.cli.trace.app import In, PageSize, Retries, Root, Shaped, SkewMs, recorded, trace_protocol
from highwater.dst.sim.alarm import LONGEST_RUN_S
from highwater.dst.simulate import Outcome
from highwater.reports.page import written
from highwater.traces.event import Event
from highwater.traces.explain.explain import (
    Replayed,
    client_of,
    failing_events,
    in_the_model,
    instead,
    mattered,
    reasons,
    replay,
    reply,
    request,
    skipped,
    step_before,
    thing,
)
from highwater.traces.explain.timeline import Watched, timeline
from highwater.traces.refine import Failure
from highwater.traces.trace import Trace

KINDS = {"refinement": "Not a behaviour of the model", "safety": "Safety", "liveness": "Liveness"}


def page(outcome: Outcome, mutant: str | None = None, command: str = "") -> str:
    """Return the HTML text: the same bytes for the same outcome. Replays the tape to see what the trace does not show."""
    return page_of(look(outcome, mutant, command))


def page_of(told: Told) -> str:
    outcome = told.outcome
    what = f"{told.mutant}, " * bool(told.mutant) + f"seed {outcome.seed}"
    wrong = f"{KINDS.get(outcome.kind, outcome.kind)}: {plain(outcome.message)}. {seen_before(told)}{needs(told)}"
    story = [["wrong", wrong]] if outcome.kind else []
    if not outcome.by_model and told.replayed.failing is not None:
        e = told.replayed.rows[told.replayed.failing].event
        text = f"Event {told.replayed.failing}, {e.client}: {request(e)}, is the first step that the model forbids"
        story.append(["forbidden", plain(f"{text}: {told.replayed.error}.")])
    if told.nearest and told.nearest.passing:
        story.append(["well", f"If {told.nearest.passing[0].change.words}, the run would have passed."])
    facts = f"{outcome.requests} requests, {outcome.virtual_ms:,} ms of virtual time, strategy {outcome.strategy}"
    facts += f"; {told.which}" * bool(told.which)
    error = told.replayed.error if outcome.by_model else None
    why = guards(told.replayed, told.failing) if outcome.by_model else ""
    return drawn(f"{what}: {outcome.signature or 'passes'}", facts, story, told.command, told.replayed, told.failing,
                 error or outcome.failure, why, told.causes, told.watched)


def drawn(title: str, facts: str, story: list, command: str, replayed: Replayed, failing: list[int],
          error: BaseException | None, why: str, causes: list, watched: list[Watched]) -> str:
    data = {"title": title, "facts": facts, "story": story, "command": command, "error": plain(str(error or "")),
            "why": why, **timeline(replayed, failing, causes, watched)}
    return written("timeline", title, data, "page")


def seen_before(told: Told) -> str:
    """Describe the last step of the client whose response failed, and why it could not be another step."""
    number = step_before(told.replayed, told.failing)
    if number is None or not told.outcome.by_model:
        return ""
    if left_out := skipped(told.replayed, told.failing):
        return without_lines(plain(f"{left_out}."))
    e, steps, _ = told.replayed.rows[number]
    was = f", in the model {in_the_model(steps)}" if steps else ""
    why = "".join(f"; {text}" for text in instead(told.replayed, number)[:1])
    return without_lines(plain(f"Its step before: {request(e)}, {reply(e)}{was}{why}."))


def without_lines(text: str) -> str:
    """Return `text` without its references to lines of source files."""
    return re.sub(r" \([\w/]+\.py:\d+\)", "", text)


def needs(told: Told) -> str:
    """Return the first false guard of a refused event, or ""."""
    if told.outcome.kind != "refinement":
        return ""
    return without_lines(guards(told.replayed, told.failing).partition("\n")[0])


def plain(text: str) -> str:
    """Return `text` with "id 4" for a key, and with a name for the store."""
    text = re.sub(r"^ has done", "The store has done", text)
    text = re.sub(r"\S*/\d{20}\.\w+|\S*/gc/\w+\.boundary", lambda match: thing(match[0]), text)
    return re.sub(r"\s+(?=,)", "", re.sub(r"\s+", " ", text)).strip()


def guards(replayed: Replayed, failing: list[int]) -> str:
    """Return the false guards of a refused event, or what its client could have done instead."""
    error = replayed.error
    if not isinstance(error, Failure) or not failing:
        return ""
    parts = list(reasons(error, replayed.record, client_of(error, replayed.rows[failing[-1]].event)))
    return "\n\n".join(part for part in parts if " in the model (what is empty" not in part)


def timeline_command(what: Annotated[str, typer.Argument(help="a seed, a bundle's folder, a tape.json, or a trace.ndjson")],
                     out: Annotated[Path, typer.Option("--out", "-o", help="the HTML file to write")],
                     mutant: Mutant = None, strategy: Strategy = "portfolio", scenario: Scenario = None,
                     shrunk: Shrunk = None, limit_s: Limit = LONGEST_RUN_S,
                     root: Root = "db", namespace: In = "compactions", page_size: PageSize = 0, skew_ms: SkewMs = 0,
                     retries: Retries = False, protocol: Protocol = None, shape: Shaped = None) -> None:
    """Draw a run, or a recorded trace (described by the last seven options), as one HTML page that works offline."""
    if what.endswith(".ndjson"):
        html = page_of_trace(Path(what), *recorded(Path(what), root, namespace, page_size, skew_ms, retries,
                                                  trace_protocol(protocol, scenario), shape))
    else:
        with project.elsewhere():
            outcome, mutant, command, of_two = run_of(what, mutant, strategy, protocol, scenario, shrunk, limit_s)
            again = command if seed_of(what) is not None else found_by(Path(what).resolve(), of_two)
        html = page_of(look(outcome, mutant, again, which=which(of_two, outcome), limit_s=limit_s))
    write_text(out, html)
    console.print(f"written: {out} ({len(html.encode()) / 1024:,.0f} KiB)", markup=False)


def page_of_trace(file: Path, events: list[Event], trace: Trace) -> str:
    """Draw a recorded trace. It has no send times, so a request is drawn from its client's previous event."""
    replayed = replay(events, trace)
    failing = failing_events(replayed, None)
    story = [["wrong", plain(str(replayed.error))]] if replayed.error else []
    causes = mattered(replayed, failing, trace)
    title = f"{file.name}: {getattr(replayed.error, 'signature', 'fails') if replayed.error else 'refines the model'}"
    facts = f"{len(replayed.rows)} events of a trace, which has no send times"
    return drawn(title, facts, story, "", replayed, failing, replayed.error, guards(replayed, failing), causes, [])
