"""Renders what a protocol's model says and does, for its reference page.

Fields and guards are read from the model's source. Steps between states come from explored graphs, and requests from simulated
runs. The instances are the runs of the spec that hold, so a protocol has no settings here. What is shown of one protocol
alone, such as the drawing of a branch, is said in bench/pages/shown/STEM.toml.
"""

import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from types import ModuleType
from typing import Any, NamedTuple

from bench.pages.diagram import Edges, order, svg
from highwater.conformance.conform import model_of
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import STEMS, named
from highwater.dst.simulate import simulate
from highwater.model.core import Model, Process, init
from highwater.model.guards import definition, guards_of, helpers_of, notes, sections, segment, show
from highwater.reports.page import doc, tabulate
from highwater.specs.runs import deeper, rows
from highwater.traces.event import NODE_KINDS, Event
from highwater.traces.explain.explain import OF_DISKS, Record, request

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs/protocols"
SHOWN = ROOT / "bench/pages/shown"
LOST = {"timeout": "no response", "crash": "client crash", "refused": "503"}
LATER = "client no longer waits"
NOWHERE = "in no run of the spec"
STORE = "the&nbsp;store"
WRAP = 52  # letters of a line in a wide table
SEEDS = 100  # simulated runs from which the requests are taken


class Instances(NamedTuple):
    """The instances of one protocol whose states and steps its page shows."""

    stem: str
    constants: tuple[tuple[tuple[str, Any], ...], ...]

    @property
    def module(self) -> ModuleType:
        return import_module(f"highwater.model.protocols.{self.stem}")

    def models(self) -> Iterator[Model]:
        for constants in self.constants:
            yield self.module.model(self.module.Constants(**dict(constants)))


def instances(stem: str, *constants: dict[str, Any]) -> Instances:
    return Instances(stem, tuple(tuple(of.items()) for of in constants))


MANY = 3_000  # states


def instances_of(stem: str) -> Instances:
    """Return the runs of the spec that hold, and the further `instances` of bench/pages/shown/STEM.toml. Together they should
    take every step that larger instances take. Of a run of two sizes the larger one counts, unless it has many states."""
    held = [(deeper(row) if row.deep.get("states", 0) < MANY else row).constants
            for row in rows() if row.stem == stem and row.expect == "PASSED"]
    settings = dict.fromkeys(tuple(of.items()) for of in (*held, *page_data(stem).get("instances", ())))
    return Instances(stem, tuple(settings))


def stems() -> list[str]:
    return list(dict.fromkeys(row.stem for row in rows()))


def reading_order() -> list[str]:
    """List the protocols in the order of the index in docs/README.md."""
    linked = dict.fromkeys(re.findall(r"\]\(protocols/(\w+)\.md", (ROOT / "docs/README.md").read_text()))
    return [stem for stem in linked if stem in stems()]


def page_data(stem: str) -> dict[str, Any]:
    """Read bench/pages/shown/STEM.toml: `instances`, `parts`, `branch` and `failure`; empty if there is no such file."""
    path = SHOWN / f"{stem}.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


class Done(NamedTuple):
    """The effects of an action that exploration met."""

    between: dict[tuple[str, str], None]  # pc -> pc
    shared: dict[str, None]  # the fields that it changed
    own: dict[str, None]


Facts = dict[tuple[str, str], Done]  # (role, action) ->


@cache
def facts(of: Instances) -> tuple[Facts, tuple[int, ...]]:
    """Return the effects of each action in these instances, and the number of states of each instance."""
    found: Facts = {}
    return found, tuple(gather(model, found) for model in of.models())


def gather(model: Model, found: Facts) -> int:
    tables = tabulate(model, [init(model)])
    for p, process in enumerate(model.processes):
        for (shared, local), moves in tables.moves[p].items():
            for action, _, shared2, local2 in moves:
                done = found.setdefault((process.role, action), Done({}, {}, {}))
                before, after = tables.values[p + 1][local], tables.values[p + 1][local2]
                if hasattr(before, "pc"):
                    done.between[before.pc, after.pc] = None
                done.shared.update(dict.fromkeys(differing(tables.values[0][shared], tables.values[0][shared2])))
                done.own.update(dict.fromkeys(field for field in differing(before, after) if field != "pc"))
    return len(tables.states)


def differing(old: Any, new: Any) -> list[str]:
    return [field for field, x, y in zip(getattr(old, "_fields", ()), old, new) if x != y]


@cache
def roles(of: Instances) -> dict[str, Process]:
    """Return the first process of each role, in the model's order."""
    found: dict[str, Process] = {}
    for model in of.models():
        for process in model.processes:
            found.setdefault(process.role, process)
    order = [process.role for process in next(of.models()).processes]
    return dict(sorted(found.items(), key=lambda item: (item[0] == "", order.index(item[0]) if item[0] in order else 99)))


# --- pieces of Markdown -------------------------------------------------------------------------------------------------

def code(text: object) -> str:
    """Quote a text as code for a cell of a Markdown table; an empty text stays empty."""
    return "`" + str(text).replace("|", "\\|") + "`" if str(text) else ""


def table(head: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *body)]
    return "\n".join(lines).replace("|  |", "| |") + "\n"


def details(summary: str, *parts: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n" + "\n".join(parts) + "\n</details>\n"


def fence(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def set_to(constants: Any) -> str:
    return ", ".join(f"{name} = {value}" for name, value in dict(constants).items())


def sentence(function: Callable) -> str:
    """Return a property's docstring, or the expression that it returns."""
    if function.__doc__:
        return escape(doc(function), quote=False)
    found = definition(function.__module__, function.__code__)[0]
    return code(segment(found.body[-1].value, function.__module__))


# --- the state ----------------------------------------------------------------------------------------------------------

def state(of: Instances) -> str:
    shared = next(of.models()).shared
    parts = ["Shared:\n\n" + fields_of(shared)]
    parts += [f"Each {role.lower()}:\n\n" + fields_of(process.local) for role, process in roles(of).items()
              if hasattr(process.local, "_fields")]
    own = [type(shared), *(type(process.local) for process in roles(of).values() if hasattr(process.local, "_fields"))]
    kinds = " ".join(kind for record in own for kind in annotations(record).values())
    records = [record for name, record in vars(of.module).items() if inspect.isclass(record) and hasattr(record, "_fields")
               and record not in own and re.search(rf"\b{name}\b", kinds)]
    lines = [f"A {code(record.__name__)} has " + " and ".join(f"{code(field)} ({code(kind)})"
             for field, kind in annotations(record).items()) + "." for record in records]
    aliases = re.findall(r"^(\w+) = ((?:tuple|frozenset|dict)\[.*\])\s*# (.*)$", inspect.getsource(of.module), re.M)
    lines += [f"{'An' if name[0] in 'AEIOU' else 'A'} {code(name)} is a {code(kind)}: {said}." for name, kind, said in aliases]
    return "\n".join([*parts, *lines]) + "\n"


def fields_of(record: Any) -> str:
    kinds, said, under = annotations(type(record)), notes(type(record)), sections(type(record))
    return table(("field", "type", "initial value", ""),
                 [(code(field), code(kinds[field]), code(show(getattr(record, field))),
                   f"{f'{under[field].removesuffix(chr(115))}: ' if under[field] else ''}{escape(said[field], quote=False)}")
                  for field in record._fields])


def annotations(record: type) -> dict[str, str]:
    """Return the types of a record's fields as written in its source."""
    return dict(re.findall(r"^    (\w+): ([^=#\n]+?) *(?:=.*|#.*)?$", inspect.getsource(record), re.M))


def constants(of: Instances) -> str:
    """Render the sizes of an instance and its faults. Safeguards have a table of their own."""
    record = of.module.Constants
    said, under = notes(record), sections(record)
    return table(("constant", "default", ""), [
        (code(name), code(show(value)), f"{'fault: ' if 'fault' in under[name].lower() else ''}{said[name]}".removesuffix(": "))
        for name, value in record()._asdict().items() if name not in safeguards_of(of.module)])


def safeguards_of(module: ModuleType) -> dict[str, str]:
    """Return the constants that switch a safeguard off, with their comments."""
    said = notes(module.Constants)
    return {name: said[name] for name, section in sections(module.Constants).items() if "safeguard" in section.lower()}


# --- diagrams -----------------------------------------------------------------------------------------------------------

def drawn(of: Instances) -> list[str]:
    return [role for role, process in roles(of).items() if hasattr(process.local, "pc")]


def diagram(of: Instances, role: str) -> str:
    return svg(role, roles(of)[role].local.pc, edges_of(of, role))


def image_path(stem: str, name: str) -> str:
    """Return the path of an image, relative to the reference pages."""
    return f"../../images/{stem}.{name}.svg"


def edges_of(of: Instances, role: str) -> Edges:
    faults, process = getattr(of.module, "FAULTS", ()), roles(of)[role]
    edges: Edges = {}
    for action in sorted(process.actions, key=lambda action: action in faults):
        for between in facts(of)[0].get((role, action), Done({}, {}, {})).between:
            edges.setdefault(between, []).append((action, action in faults))
    return edges


def image(of: Instances, role: str) -> str:
    article = "an" if role[0] in "AEIOU" else "a"
    return f"![States of {article} {role.lower()} and the actions between them]({image_path(of.stem, role.lower())})\n"


def explored(of: Instances) -> str:
    """List the instances from which the diagrams and the effects of actions are taken."""
    counts = facts(of)[1]
    lines = "\n".join(f"- {set_to(constants) or 'default constants'}: {count:,} states"
                      for constants, count in zip(of.constants, counts))
    return (f"The diagrams and tables cover {sum(counts):,} explored states.\n\n"
            + details("The instances explored", lines + "\n"))


# --- actions ------------------------------------------------------------------------------------------------------------

def actions(of: Instances) -> str:
    asked, faults, parts = requests(of.stem), getattr(of.module, "FAULTS", ()), []
    for role, process in roles(of).items():
        body = [(f"**{name}**" + "<br>(a fault)" * (name in faults),
                 "<br>".join([*asked.get((role, name), ()), *effect(of, role, name)]),
                 "<br>".join(map(code, guards_of(action)))) for name, action in process.actions.items()]
        parts.append("\n".join([f"### {role or 'The store and time'}\n", *([image(of, role)] if role in drawn(of) else []),
                                table(("action", "requests, responses and effect", "guard"), body)]))
    every = [action for process in roles(of).values() for action in process.actions.values()]
    called = re.findall(r"\w+", " ".join(guard for action in every for guard in guards_of(action)))
    texts = [source.rstrip() for name, source in helpers_of(every).items() if name in called]
    called_by_guards = details("The functions that guards call", fence("\n\n\n".join(texts), "python"))
    return "\n".join([*parts, *([called_by_guards] if texts else [])])


def effect(of: Instances, role: str, action: str) -> list[str]:
    """Render an action's docstring, its steps between control states, and the shared fields that it changes."""
    found, only, process = facts(of)[0].get((role, action)), "", roles(of)[role]
    if found is None:
        found, only = only_unsafe(of, role, action)
    lines = [*wrap(escape(doc(process.actions[action]), quote=False), WRAP), only]
    met = order(process.local.pc, edges_of(of, role)) if found.between else []
    place = [*met, *(pc for pair in found.between for pc in pair if pc not in met)].index
    for target in sorted({target for _, target in found.between}, key=place):
        lines.append(f"{', '.join(sorted((pc for pc, to in found.between if to == target), key=place))} → {target}")
    changed = [code(field) for field in found.shared]
    lines.append(f"changes {', '.join(changed)}" if changed else "")
    return list(filter(None, lines))


def only_unsafe(of: Instances, role: str, action: str) -> tuple[Done, str]:
    """Return the effects of an action that needs a safeguard off, from the first run that takes it, and that run's settings."""
    for row in rows():
        if row.stem == of.stem and row.expect == "FAILED" and deeper(row).how == "graph":
            found: Facts = {}
            gather(model_of(row), found)
            if (role, action) in found:
                off = {name: value for name, value in row.constants.items() if name in safeguards_of(of.module)}
                return found[role, action], f"only with {set_to(off or row.constants)}:"
    return Done({}, {}, {}), NOWHERE


@cache
def requests(stem: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return (role, action) -> the implementation's requests that were this action in simulated runs, with responses."""
    if stem not in STEMS:
        return {}
    scenario = named(stem)
    seen: dict[tuple[str, str], dict[str, set[str]]] = {}  # -> reply -> requests

    class Noting(Record):
        def step(self, match: Any, effect: Any = None) -> None:
            self.taken = []
            super().step(match, effect)
            for process, action, _ in self.taken:
                if process:
                    key = process.partition("#")[0], action
                    seen.setdefault(key, {}).setdefault(response(now), set()).add(in_general(now))

    for seed in range(SEEDS):
        outcome = simulate(Run(seed, stem))
        if outcome.shape.broken:
            continue  # no model explains it
        trace = scenario.judge(outcome.shape)
        trace = trace.anew(Noting(trace.refiner.model))
        for now in outcome.events:
            trace.observe(now)
    return {key: tuple(asked_and_answered(found)) for key, found in sorted(seen.items())}


def response(e: Event) -> str:
    """Return an event's status; nothing for a response to a caller, and for what a node does but a failure of its disk."""
    if e.kind == "told":
        return ""
    if e.kind in NODE_KINDS:
        return OF_DISKS[e.status] or "done" if e.kind == "disk" else ""
    return LATER if e.kind in LOST and e.pending else LOST.get(e.kind, str(e.status or "no response"))


def in_general(e: Event) -> str:
    """Return the request without its numbers and its database."""
    if e.kind == "told":
        return f"the caller gets: {e.op.partition('.')[0]}"
    if e.kind in NODE_KINDS:
        return node_event(e)
    return re.sub(r" db/\S+| \d+\b", "", request(e)).replace(" after id", "")


def node_event(e: Event) -> str:
    """Return what a node, or its disk, does, without numbers in the names of files."""
    if e.kind == "disk":
        return f"{e.op} of {re.sub('-.*', '', e.key) or 'the folder'}"
    return f"end of the {e.op}" if e.kind == "died" else f"step {e.op}"


def asked_and_answered(seen: dict[str, set[str]]) -> Iterator[str]:
    """Yield `requests: responses` from response -> requests. A fault that affects any request is listed once."""
    if not seen.keys().isdisjoint(LOST.values()):
        yield f"any: {', '.join(sorted(filter(None, seen.keys() - {LATER})))}"
        return
    for words in sorted(set().union(*seen.values())):
        responses = sorted(filter(None, (response for response, those in seen.items() if words in those)))
        yield f"{words}: {', '.join(responses)}" if responses else words


# --- properties ---------------------------------------------------------------------------------------------------------

def properties(of: Instances) -> str:
    return table(("property", "belongs to", ""), [
        (name, role or STORE, sentence(holds)) for name, (role, holds) in of.module.ALWAYS.items()])


def witnesses(of: Instances) -> str:
    return table(("reachable state", "belongs to", ""), [
        (name, role or STORE, sentence(holds)) for name, (role, holds) in of.module.SOMETIMES.items()])


def liveness(of: Instances) -> str:
    """Render the liveness properties, and the runs that check them."""
    body = []
    for name, (role, holds) in getattr(of.module, "EVENTUALLY", {}).items():
        judged = [row for row in rows() if row.stem == of.stem and row.eventually == name]
        runs = "<br>".join(f"{row.id}: {'holds' if row.expect == 'PASSED' else 'fails'} "
                           f"({set_to(row.constants) or 'default constants'})" for row in judged)
        body.append((name, role or STORE, sentence(holds), runs))
    return table(("property", "belongs to", "", "runs"), body)
