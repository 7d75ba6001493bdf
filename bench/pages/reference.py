"""Renders the reference page of a protocol, docs/protocols/reference/STEM.md: a whole file, which nobody edits by hand."""

from collections.abc import Iterator
from importlib import import_module

from bench.pages.protocol import (
    Instances,
    actions,
    code,
    constants,
    explored,
    image_path,
    liveness,
    page_data,
    properties,
    roles,
    state,
    table,
    witnesses,
)
from bench.pages.readme import proofs_of
from bench.pages.safeguards import counterexamples, failing, safeguards
from highwater import project
from highwater.dst.scenarios import STEMS, mutants_of

HEAD = """# Reference of `{stem}`

[{stem}.md](../{stem}.md) explains the protocol. This page lists its states, actions, properties and counterexamples.
`make docs` generates it from the [model](../../../model/protocols/{stem}.py), the runs in
[{spec}.toml](../../../specs/{spec}.toml) and simulated runs. A test checks that it is current.
"""
CONSTANTS = """## The constants

An instance of the model sets these constants and the [safeguards](#what-each-safeguard-prevents).
"""
ACTIONS = """## The actions

One action is one request to the store, together with the client's decision from its response. Guards are written as
in the model: `c` is the constants, `me` the number of the client and `s` the shared state. {locals} `for x in ..` is
a choice. Requests and responses are those of the implementation in simulated runs. Diagrams show faults in another
colour.
"""
ALWAYS = """## What always holds
"""
PROVED = """[model/proofs/{stem}.py](../../../model/proofs/{stem}.py) proves safety without bounds;
`highwater model prove {stem}` runs the proof.
"""
WITNESSES = """These states are reached, so the properties do not hold vacuously:
"""
EVENTUALLY = """## What eventually holds

Each property becomes true again and again under weak fairness: a client step that stays enabled forever is eventually
taken. A fault need never happen.
"""
SAFEGUARDS = """## What each safeguard prevents

Each safeguard can be switched off. The steps are those of the shortest counterexample.
`highwater model explore {stem} --set NAME=VALUE` prints it. With `--html FILE` it writes a page on which to step
through it, and to leave it for other states.
"""
BRANCH = """The run `{run}` builds this branch in the history:

![The branch that the run {run} builds in the history]({image})
"""
COUNTEREXAMPLES = """Each step shows what it changed in the shared state, or in its client if it changed nothing there.
"""
CALLS = """## What each call says

The simulation judges every answer of a call by this table: its class, whether the error is definite, and the truth about the
update in the model, then and at the end of the run. It also judges the returned values that the last column names.
[traces/protocols/{of}_calls.py](../../../traces/protocols/{of}_calls.py) has the table.
"""
MUTANTS = """## Implementations known to be wrong

Each mutant is the implementation without one of its safeguards. `highwater dst zoo` runs the mutants until they fail;
[the zoo](../../simulation/zoo.md) reports how soon.
"""


def reference(of: Instances) -> str:
    return "\n".join(section.rstrip("\n") + "\n" for section in sections_of(of))


def sections_of(of: Instances) -> Iterator[str]:
    yield HEAD.format(stem=of.stem, spec=of.stem.title().replace("_", ""))
    yield "## The state\n\n" + state(of)
    yield CONSTANTS + "\n" + constants(of)
    yield ACTIONS.format(locals=locals_of(of))
    yield explored(of)
    yield actions(of)
    yield ALWAYS + "\n" + properties(of)
    if proofs_of(of.stem):
        yield PROVED.format(stem=of.stem)
    yield WITNESSES + "\n" + witnesses(of)
    if getattr(of.module, "EVENTUALLY", {}):
        yield EVENTUALLY + "\n" + liveness(of)
    if failing(of):
        yield SAFEGUARDS.format(stem=of.stem) + "\n" + safeguards(of)
        if branch := page_data(of.stem).get("branch"):
            yield BRANCH.format(run=branch["run"], image=image_path(of.stem, "branch"))
        yield COUNTEREXAMPLES + "\n" + counterexamples(of)
    if answers := calls(of.stem):
        yield CALLS.format(of=owner_of_calls(of.stem)) + "\n" + answers
    if of.stem in STEMS:
        yield MUTANTS + "\n" + mutants(of.stem)


def locals_of(of: Instances) -> str:
    """Say what the guards call the local state of each role: the name of the actions' parameter."""
    called: dict[str, list[str]] = {}
    for role, process in roles(of).items():
        if role:
            article = "an" if role[0] in "AEIOU" else "a"
            parameter = next(iter(process.actions.values())).__code__.co_varnames[3]
            called.setdefault(parameter, []).append(f"{article} {role.lower()}")
    return " ".join(f"`{name}` is the local state of {' or '.join(those)}." for name, those in called.items())


def calls(stem: str) -> str:
    """Render the table of calls of a protocol's mapping; "" if it has none."""
    return "\n".join(
        f"### `{call}`\n\n" + table(("answer", "kind", "the update", "what it means", "judged values"), [
            (code(result), of.kind, of.update or "none", of.means, ", ".join(of.claims)) for result, of in answers.items()])
        for call, answers in import_module(f"highwater.traces.protocols.{stem}").Trace.calls.items()) if project.has(
            "mapping", stem) else ""


def owner_of_calls(stem: str) -> str:
    """Return the protocol whose file has the table of calls of this one: itself, or another one with the same calls."""
    owners = [other for other in (stem, *STEMS) if project.has("mapping", f"{other}_calls")]
    table = import_module(f"highwater.traces.protocols.{stem}").Trace.calls
    return next(other for other in owners if other == stem or import_module(
        f"highwater.traces.protocols.{other}_calls").CALLS is table)


def mutants(stem: str) -> str:
    return table(("mutant", "what it does wrong"), [
        (code(name), what.replace("|", "\\|")) for name, (what, _) in mutants_of(stem).builds.items()])
