"""Safety: a spec and its model have the same states and the same labelled edges. Each run of the table beside the spec has its
expected result, in FizzBee and in the model.
"""

from collections.abc import Iterable
from typing import NamedTuple

from highwater import project
from highwater.conformance.covering import covering
from highwater.conformance.difference import compare, described, differing, label_text, property_read, short
from highwater.messages import meant
from highwater.model.core import Bounds, Exploration, Model, Progress, Step, malformed_property, without_client
from highwater.model.explore.auto import explore
from highwater.model.liveness import Lasso, eventually
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzError, SpecError
from highwater.specs.fizzbee.reader import read
from highwater.specs.fizzbee.rewrite import with_constants
from highwater.specs.fizzbee.values import link_names
from highwater.specs.fizzbee.verdict import CheckResult
from highwater.specs.runs import Row, rows_for, silent


class Result(NamedTuple):
    row: Row
    ok: bool
    kind: str  # of a failure: "spec" (spec and model differ), "safety", "liveness" (a verdict is not as expected), "harness"
    figure: str
    message: str


class Searched(NamedTuple):
    """The results of searching the row's model. Both are one search unless a property fails."""

    explored: Exploration  # up to a violation
    counted: Exploration | None  # the whole graph, also past violations; None: the row does not ask for it


def model_of(row: Row, **constants: object) -> Model:
    """Make the model of a row. Raises ValueError for a constant that the model does not have, and for what is no Model."""
    module = project.load("model", row.stem)
    unknown = [name for name in {**row.constants, **constants} if name not in module.Constants._fields]
    if unknown:
        file = short(project.file_of("model", row.stem))
        raise ValueError(f"{file} has no constant {unknown[0]}{meant(unknown[0], module.Constants._fields)}, which the run "
                         f"{row.id} sets")
    model = module.model(module.Constants(**{**row.constants, **constants}))
    if not isinstance(model, Model):
        raise ValueError(f"{short(project.file_of('model', row.stem))}: model(..) returns {model!r}, not a highwater.Model")
    return model


def conform(row: Row, fizz: Fizz | None, model: Model | None = None, cache: bool = True, searched: Searched | None = None,
            progress: Progress | None = None) -> Result:
    """Run one row on FizzBee and on the model, and compare the results. `fizz`: None if the protocol has no .fizz; then the row
    is compared with the model alone. `searched`: what `search` found, if it has run."""
    judge = {"graph": whole, "check": verdicts, "guided": verdicts, "live": live}[row.how]
    try:
        model = model or model_of(row)
        if wrongly := malformed_property(model) or misnamed(row, model) or unjudged(row, model):
            return wrong(row, "spec", wrongly)
    except ValueError as error:
        return wrong(row, "spec", str(error))
    if fizz is None:
        return alone(row, model, searched or search(row, model, True, most(row) + 1, progress))
    try:
        if differing := unlike_constants(row, model):
            return wrong(row, "spec", differing)
        return judge(row, fizz, model, cache, searched or search(row, model, False, most(row) + 1, progress))
    except (ValueError, SpecError) as error:
        return wrong(row, "spec", str(error))
    except FizzError as error:
        return wrong(row, "harness", str(error))


def misnamed(row: Row, model: Model) -> str:
    """Return which property of the row the model does not have; "" if it has all."""
    of_kind = {"violates": {**model.always, **model.eventually}, "eventually": model.eventually, "never": model.sometimes}
    for field, known in of_kind.items():
        names = getattr(row, field)
        for name in (names,) if isinstance(names, str) else names:
            if name and name not in known:
                return (f"{table(row)}: {field} of the run {row.id} names {name!r}{meant(name, known)}, and the model has "
                        f"{', '.join(known) or 'none'}")
    return ""


def unjudged(row: Row, model: Model) -> str:
    """Say which property no row of the table checks, because no row has a client of its role; "" if there is none."""
    missing = without_client(model)
    for other in rows_for(row.stem) if missing else ():
        roles = {process.role for process in model_of(other).processes}
        missing = {name: role for name, role in missing.items() if role not in roles}
    return "\n".join(f"the property {name} is never checked: no row of {table(row)} has a client of the role {role!r}"
                     for name, role in missing.items())


def wrong(row: Row, kind: str, *message: str, figure: str = "") -> Result:
    return Result(row, False, kind, figure, "\n".join(message))


def unlike_constants(row: Row, model: Model) -> str:
    """Say where the constants of spec and model differ in this row. Computed constants are skipped."""
    spec, ours = read(with_constants(row.path.read_text(), row.constants, row.path)), model.constants._asdict()
    where = {constant.name: f"{short(row.path)}:{constant.line}" for constant in spec.constants}
    in_spec = {name: value for name, value in spec.values.items() if name.isupper()}
    lines = [f"{name} is {in_spec[name]!r} in the spec, {where[name]}, and {value!r} in the model"
             for name, value in ours.items() if name in in_spec and in_spec[name] != value]
    lines += [f"the spec has no constant {name}" for name in ours if name not in where]
    lines += [f"the model has no constant {name}" for name in in_spec if name not in ours]
    return "\n".join(lines)


def alone(row: Row, model: Model, searched: Searched) -> Result:
    """Compare a row with the model, without FizzBee."""
    explored, counted = searched
    if counted and (unlike := unlike_count(row, counted)):
        return wrong(row, "spec", unlike)
    if row.how == "live":
        lasso = eventually(model, [row.eventually])[row.eventually]
        if bool(lasso) != bool(row.violates):
            return wrong(row, "liveness", f"the model: {around(lasso) if lasso else 'PASSED'}",
                         f"{table(row)} expects: {expected(row)}")
    else:
        if unlike := unlike_verdict(row, explored):
            return wrong(row, "safety", *unlike)
        if counted and (unlike := unlike_silence(row, model, counted)):
            return wrong(row, "spec", unlike)
    states = f"{counted.states:,} states" if counted else f"{len(explored.trace) - 1} steps to the violation"
    return Result(row, True, "", f"{states}, {row.expect} as expected, by the model alone", "")


def whole(row: Row, fizz: Fizz, model: Model, cache: bool, searched: Searched) -> Result:
    """Compare the graphs, then the verdicts."""
    try:
        checked, graph = fizz.explored(row.path, row.constants, cache=cache)
    except FizzError:  # an assertion cannot be evaluated, say: `verdicts` raises that, if the graphs are equal
        checked, graph = None, fizz.graph(row.path, row.constants, cache=cache)
    compared = compare(row, model, graph)
    if compared.difference:
        return wrong(row, "spec", described(row, model, compared.difference), figure="graphs differ")
    result = verdicts(row, fizz, model, cache, searched, checked)
    return result._replace(figure=f"{compared.states:,} states, {compared.edges:,} edges equal") if result.ok else result


def most(row: Row) -> int:
    """Return the maximum number of states to count: many more than the row should have."""
    return 2 * row.states + 1000


def search(row: Row, model: Model, alone: bool, states: int | None = None, progress: Progress | None = None) -> Searched:
    """Explore the row's model up to a violation, and count its whole graph. Both stop at `states` states. A row that must fail
    and has no number of states is not counted if there is no FizzBee to compare the graph with."""
    counts = not (alone and row.expect == "FAILED" and row.how != "live" and not (row.states or row.silent))
    bounds, unjudged = Bounds(states=states), model._replace(always={}, sometimes={})
    if row.how == "live":  # the verdict on its property comes from model/liveness.py
        counted = explore(unjudged, bounds, progress)
        return Searched(counted, counted)
    explored = explore(model, bounds if counts else None, progress)
    if not counts:
        return Searched(explored, None)
    return Searched(explored, explore(unjudged, bounds, progress) if explored.violated else explored)


def table(row: Row) -> str:
    """Name the table that lists the row."""
    return short(project.spec(row.spec, ".toml")).removeprefix("specs/")


def counted_in_words(row: Row, counted: Exploration) -> str:
    """Say how many states the model has, as far as they were counted."""
    return f"more than {most(row):,} states (the count stopped there)" if counted.stopped else f"{counted.states:,} states"


def unlike_count(row: Row, counted: Exploration) -> str:
    """Say how the number of states differs from the row's; "" if it does not."""
    if not counted.stopped and counted.states == row.states:
        return ""
    ours = counted_in_words(row, counted)
    if not row.states:
        return f"the model has {ours}, the row has no number yet: `--accept` writes it"
    return (f"the number of states differs: {table(row)} expects {row.states:,}, the model has {ours}. If the model is right, "
            f"write its number: highwater model conform {row.id} --accept{project.option()}")


def unlike_verdict(row: Row, explored: Exploration) -> list[str]:
    """Say how the model's verdict differs from the row's; [] if it does not."""
    ours, steps = explored.violated or "", [label_text(step.label) for step in explored.trace[1:]]
    if ours == row.violates and (ours or explored.never == row.never):
        return []
    return [f"the model: {failing(ours, steps)}{unwitnessed(() if ours else explored.never)}",
            f"{table(row)} expects: {expected(row)}{unwitnessed(row.never)}"]


def unlike_silence(row: Row, model: Model, counted: Exploration) -> str:
    """Say where the idle actions differ from those that the table of runs lists: nothing is checked of an idle action."""
    idle = {f"{role}.{action}".lstrip(".") for role, action in counted.idle(model)}
    declared = silent(row.spec, model.constants._asdict()) | set(row.silent)
    lines = [f"{name} never fires in this run, and {table(row)} does not list it as silent" for name in sorted(idle - declared)]
    fired = {f"{role}.{action}".lstrip(".") for role, action in counted.fired}
    lines += [f"{table(row)} lists {name} as silent, but it fires in this run: say in `where` with which constants it is silent"
              for name in sorted(declared & fired)]
    roles = {process.role for process in model.processes}
    strange = sorted(name for name in declared - idle - fired if name.rpartition(".")[0] in roles)
    lines += [f"{table(row)} lists {name} as silent, and the model has no such action" for name in strange]
    return "\n".join(lines)


def verdicts(row: Row, fizz: Fizz, model: Model, cache: bool, searched: Searched, checked: CheckResult | None = None) -> Result:
    """Compare the verdicts on the `always` properties with each other and with the table of runs. `checked` is FizzBee's, if it
    has run."""
    explored, counted = searched
    assert counted is not None  # where there is a FizzBee, every row is counted
    if unlike := unlike_count(row, counted):
        return wrong(row, "spec", unlike)
    ours, steps = explored.violated or "", [label_text(step.label) for step in explored.trace[1:]]
    if row.how == "guided":
        result = driven(row, fizz, explored, cache) if ours else shown(row, fizz, model, explored, cache)
        if result and not result.ok:
            return result
    else:
        checked = judged(row, checked or fizz.check(row.path, row.constants, cache=cache, liveness=False,
                                                    graph=row.expect == "FAILED"))  # else it would run twice
        theirs, result = checked.failed_assertion or "", None
        if ours != theirs:
            return wrong(row, "spec", f"the model: {failing(ours, steps)}", f"FizzBee: {failing(theirs, links(checked))}",
                         *(line for name in (ours, theirs) if name for line in property_read(row, model, name)),
                         figure="verdicts differ")
    if unlike := unlike_verdict(row, explored):
        return wrong(row, "safety", *unlike,
                     *(property_read(row, model, row.violates) if row.violates else []))
    if unlike := unlike_silence(row, model, counted):
        return wrong(row, "spec", unlike)
    return result or Result(row, True, "", f"{row.expect} as expected", "")


def judged(row: Row, checked: CheckResult) -> CheckResult:
    """Return FizzBee's verdict, PASSED or FAILED. Raises FizzError for any other outcome."""
    if checked.verdict not in ("PASSED", "FAILED"):
        raise FizzError(checked.error or f"FizzBee's verdict is {checked.verdict}, neither PASSED nor FAILED")
    return checked


def failing(name: str, steps: list[str]) -> str:
    return f"{name} fails after {len(steps)} steps: {', '.join(steps)}" if name else "PASSED"


def expected(row: Row) -> str:
    return f"{row.violates} fails" if row.violates else "PASSED"


def unwitnessed(names: tuple[str, ...]) -> str:
    return f"; never witnessed: {', '.join(names)}" if names else ""


def links(checked: CheckResult) -> list[str]:
    """List the actions of its trace, each with its choices."""
    steps: list[str] = []
    for name, _ in checked.trace[1:]:
        steps[-1:] = [f"{steps[-1]} {name}"] if name.startswith(("Any:", "Stmt:")) else [*steps[-1:], name]
    return steps


def driven(row: Row, fizz: Fizz, explored: Exploration, cache: bool) -> Result:
    """Let FizzBee follow the model's counterexample."""
    asked = as_links(row, explored.trace[1:])
    result = fizz.guided(row.path, row.constants, asked, cache=cache)
    if result.verdict != "FAILED" or result.failed_assertion != explored.violated or result.followed != len(asked):
        return wrong(row, "spec", f"FizzBee followed {result.followed} of {len(asked)} links of the model's counterexample to "
                     f"{explored.violated}. Its verdict: {result.verdict} {', '.join(result.failed_assertions)}",
                     f"the links: {', '.join(asked)}")
    return Result(row, True, "", f"{len(explored.trace) - 1} steps followed, {explored.violated} fails", "")


def shown(row: Row, fizz: Fizz, model: Model, explored: Exploration, cache: bool) -> Result:
    """Let FizzBee follow paths of the model that take every action and reach every witness. After each step it must be in the
    model's state, and its assertions must hold."""
    paths = covering(model, explored.fired, explored.never)
    for path in paths:
        ends = [len(as_links(row, path[:number])) for number in range(1, len(path) + 1)]
        links = as_links(row, path)
        result = fizz.guided(row.path, row.constants, links, cache=cache)
        differences = [f"after link {end} FizzBee's state differs from the model's in {', '.join(names)}"
                       for step, end in zip(path, ends) if end < len(result.trace)
                       and (names := differing(row.stem, model, step.state, result.trace[end][1]))]
        if differences:
            return wrong(row, "spec", differences[0], f"the links: {', '.join(links)}")
        if result.verdict != "PASSED" or result.followed != len(links):
            return wrong(row, "spec", f"FizzBee followed {result.followed} of {len(links)} links of a path of the model. Its "
                         f"verdict: {result.verdict} {', '.join(result.failed_assertions)}", f"the links: {', '.join(links)}")
    steps = sum(map(len, paths))
    figure = f"{len(paths)} paths of the model to all {len(explored.fired)} actions followed, {steps} steps"
    return Result(row, True, "", figure, "")


# --- `eventually`

def live(row: Row, fizz: Fizz, model: Model, cache: bool, searched: Searched) -> Result:
    """Compare the verdicts on one `eventually` property, under the same fairness."""
    name, counted, fair = row.eventually, searched.explored, fair_actions(row.path.read_text())
    roles = {p.role for p in model.processes}
    differing = sorted(f"{role}.{action}" for role in roles for action in fair.get(role, set()) ^ model.fair.get(role, set()))
    if differing:
        return wrong(row, "spec", f"fair in only one of spec and model: {', '.join(differing)}")
    checked = judged(row, fizz.check(row.path, row.constants, cache=cache, only=[name]))
    if counted.stopped or counted.states != checked.states:
        return wrong(row, "spec", f"the model has {counted_in_words(row, counted)}, FizzBee {checked.states:,}, "
                     f"{table(row)} expects {row.states:,}")
    if unlike := unlike_count(row, counted):
        return wrong(row, "spec", unlike)
    lasso = eventually(model, [name])[name]
    ours = around(lasso) if lasso else "PASSED"
    if bool(lasso) != (checked.verdict == "FAILED"):
        theirs = failing(checked.failed_assertion or "", links(checked))
        theirs += "; FizzBee does not search every cycle (see specs/fizzbee/check.py)" if lasso and lasso.cycle else ""
        return wrong(row, "spec", f"the model: {ours}", f"FizzBee: {theirs}", *property_read(row, model, name),
                     figure="verdicts differ")
    if bool(lasso) != bool(row.violates):
        return wrong(row, "liveness", f"the model: {ours}", f"FizzBee: {checked.verdict}",
                     f"{table(row)} expects: {expected(row)}")
    return driven_around(row, fizz, lasso, cache) if lasso else Result(
        row, True, "", f"{name} holds along every fair run of {counted.states:,} states", "")


def around(lasso: Lasso) -> str:
    stem, cycle = (", ".join(label_text(step.label) for step in steps) for steps in (lasso.stem[1:], lasso.cycle))
    whose = f" for {lasso.process}" if lasso.process else ""
    return f"{lasso.violated} fails{whose}: after {stem or 'Init'}, {cycle or 'nothing'} forever"


def driven_around(row: Row, fizz: Fizz, lasso: Lasso, cache: bool) -> Result:
    """Let FizzBee follow the model's lasso: it must return to the state where the cycle begins."""
    stem, cycle = as_links(row, lasso.stem[1:]), as_links(row, lasso.cycle)
    figure = f"{row.violates} fails: {len(lasso.stem) - 1} steps and a cycle of {len(lasso.cycle)} followed"
    if not stem + cycle:
        return Result(row, True, "", figure, "")
    result = fizz.guided(row.path, row.constants, stem + cycle, assertions=False, cache=cache)
    if result.followed != len(stem + cycle) or result.trace[len(stem)][1] != result.trace[-1][1]:
        return wrong(row, "spec", f"FizzBee followed {result.followed} of {len(stem + cycle)} links of the model's lasso, and "
                     f"did not return to its state after link {len(stem)}, where the cycle begins",
                     f"the links: {', '.join(stem + cycle)}")
    return Result(row, True, "", figure, "")


# --- the model's steps as FizzBee's links

def as_links(row: Row, steps: Iterable[Step]) -> list[str]:
    variables = choice_variables(row.path.read_text())
    return [link for (process, action, choices), _ in steps for link in link_names(
        (process, action, tuple(zip(variables.get((process.partition("#")[0], action), ()), choices))))]


def fair_actions(spec: str) -> dict[str, set[str]]:
    """Return the weakly fair actions of each role; "" for those without a role."""
    found: dict[str, set[str]] = {}
    for action in read(spec).actions:
        if action.atomic and action.fair:
            found.setdefault(action.role, set()).add(action.name)
    return found


def choice_variables(spec: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Map (role or "", action) to the variables that its `oneof` choices are bound to."""
    return {(action.role, action.name): action.choices for action in read(spec).actions}
