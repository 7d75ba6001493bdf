"""Other programs are judged by the models: a mapping has no guards, and each guard that is off in its model changes a verdict.

For each guard one recorded log, or an edit of one, is refused by it.
"""

import ast
import inspect
import re
from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from highwater import project
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.model import guards
from highwater.model.abstract import one_object, sequenced_files, shared_files, write_ahead_log
from highwater.model.core import Model, State, init, moves
from highwater.traces.recorded.orders import search
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.s3store import steps_of
from highwater.traces.recorded.systems.facts import Knobs
from highwater.traces.recorded.systems.slatedb import MODELS, Slatedb
from tests.support.slatedb.kept import BUDGET, deleted_instead, edited, judged, replaced, requests_of, stored

MODULES = (sequenced_files, write_ahead_log, shared_files)
ALL = (*MODULES, one_object)  # test_mapped.py has its guards
RECORDED = project.PACKAGE / "traces/recorded"
PAGE = project.PACKAGE.parent / "docs/checking/strangers.md"
# what no abstract model says: the store's answers, the codecs; and the kind of a simulated run's failure
ELSEWHERE = {"s3store.py": {"store"}, "judge.py": {"Form"}, "db.py": {"refinement"}}


OWN = {"judge.py", "machine.py", "orders.py"}  # they make refusals of what a model says, and hand them on
JUDGE = {"ME", "no_action", "send", "take"}  # what a mapping has of judge.py
MODELS_BY_NAME = {"files": sequenced_files, "log": write_ahead_log, "one_object": one_object, "shared": shared_files}
ABSTRACT = {name: model.__name__ for name, model in MODELS_BY_NAME.items()}


def guards_of(model: ModuleType) -> set[str]:
    return {*model.GUARDS, *model.ALWAYS}


# --- a mapping only builds actions

def wrong_refusals(name: str, source: str) -> list[str]:
    """Return the refusals of a module of which no model names the guard, and the actions that no model has."""
    known = set.union(*map(guards_of, ALL)) | ELSEWHERE.get(name, set())
    tree = ast.parse(source)
    wrong = [] if name in OWN else hidden(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        if called in ("Refusal", "Failure"):
            guard = node.args[0] if node.args else next((one.value for one in node.keywords if one.arg == "guard"), None)
            if isinstance(guard, ast.Constant) and guard.value not in known | {""}:
                wrong.append(f"{guard.value} is the guard of no model")
            elif not isinstance(guard, ast.Constant) and name != "judge.py":
                wrong.append(f"a guard is computed in line {node.lineno}")
        elif called == "_replace" and any(one.arg == "guard" for one in node.keywords) and name != "judge.py":
            wrong.append(f"a guard is replaced in line {node.lineno}")
        elif called in ("take", "send") and isinstance(node.func, ast.Name):
            model = MODELS_BY_NAME[ast.unparse(node.args[0])]
            actions = model.CLIENT if called == "take" else model.MAY
            named = node.args[2] if called == "take" else node.args[4]
            texts = [one.value for one in ast.walk(named) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            wrong += [f"{text} is no action of {model.__name__}" for text in texts if text not in actions]
            if not texts:
                wrong.append(f"an action is computed in line {node.lineno}")
    return wrong


def hidden(tree: ast.Module) -> list[str]:
    """Return what could refuse a request without a call that can be seen: other names, and other functions of the judge."""
    plain = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        for part in ("annotation", "returns", *["type"] * isinstance(node, ast.ExceptHandler)):
            plain |= {id(one) for one in ast.walk(getattr(node, part, None) or ast.Pass())}
    wrong = []
    for node in ast.walk(tree):
        called = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else \
            node.value if isinstance(node, ast.Constant) else ""
        if called in ("Refusal", "Failure") and id(node) not in plain:
            wrong.append(f"{called} is used in line {node.lineno}, and not called")
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for one in node.names:
                source, bound = f"{getattr(node, 'module', '')}.{one.name}", one.asname or one.name
                if one.name in ("Refusal", "Failure") and bound != one.name:
                    wrong.append(f"{one.name} is called {bound}")
                elif source.endswith(".judge") or (".judge." in source and (one.name not in JUDGE or bound != one.name)):
                    wrong.append(f"{source} is no function for a mapping, or is called otherwise")
                elif bound in ABSTRACT and source != ABSTRACT[bound]:
                    wrong.append(f"{bound} is {source}, and no abstract model")
    return wrong


@pytest.mark.parametrize("path", sorted([*RECORDED.rglob("*.py"), *(project.PACKAGE / "traces/protocols").glob("*.py")]),
                         ids=lambda path: path.name)
def test_a_mapping_only_builds_actions(path):
    assert wrong_refusals(path.name, path.read_text()) == []


def test_a_mapping_refuses_of_itself_only_what_has_no_form():
    """`no_action` names no guard: it is for contents that a codec cannot read, or that say nothing."""
    calls = [(path.name, ast.unparse(node.args[0])) for path in sorted(RECORDED.rglob("*.py")) if path.name not in OWN
             for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("no_action")]
    assert calls == [
        ("sequences.py", "f'{client} puts id {place.id} of {place.folder}: {change}'"),
        ("sequences.py", "f'{request.client} puts a boundary that is no number: {request.sent_body.data!r}'")]


@pytest.mark.parametrize("line, told", [
    ("Refusal('Mine', 'because')", "Mine is the guard of no model"),
    ("orders.Refusal(guard='Mine', why='because')", "Mine is the guard of no model"),
    ("Failure('Mine', '')", "Mine is the guard of no model"),
    ("Refusal(name, 'because')", "a guard is computed in line 1"),
    ("refusal._replace(guard='Mine')", "a guard is replaced in line 1"),
    ("send(files, c, w, why, 'Destroy', 3)", "Destroy is no action of highwater.model.abstract.sequenced_files"),
    ("take(log, c, name, s, w, why, shows='OneWriterAcks')", "an action is computed in line 1"),
    ("from x import Refusal as Why", "Refusal is called Why"),
    ("of = orders.Refusal", "Refusal is used in line 1, and not called"),
    ("getattr(orders, 'Refusal')('Mine', 'because')", "Refusal is used in line 1, and not called"),
    ("Failure._make(('Mine', 'because'))", "Failure is used in line 1, and not called"),
    ("class Mine(Refusal): pass", "Refusal is used in line 1, and not called"),
    ("from a.judge import refused", "a.judge.refused is no function for a mapping, or is called otherwise"),
    ("from a.judge import take as taken", "a.judge.take is no function for a mapping, or is called otherwise"),
    ("from a import judge", "a.judge is no function for a mapping, or is called otherwise"),
    ("from own import guards as files", "files is own.guards, and no abstract model"),
])
def test_a_mapping_with_a_guard_of_its_own_is_refused(line, told):
    assert wrong_refusals("slatedb.py", line) == [told]


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__.rpartition(".")[2])
def test_each_guard_is_one_of_an_action(model):
    """A guard that no action of the model has would be written for the judge."""
    actions = [*model.CLIENT.values(), *model.MAY.values()]
    used = {of.__name__ for of in actions} | guards.helpers_of(actions).keys()
    assert {of.__name__ for of, _ in model.GUARDS.values()} <= used


# --- each guard changes the verdict of a recorded log

Log = tuple[list[Request], bool]  # and whether there are boundary files


def log(name: str) -> Log:
    return [*requests_of(name)], stored()["logs"][name]["boundary"]


def edit(number: int) -> Log:
    _, _, boundary, requests = edited(number)
    return requests, boundary


def changed(name: str, number: int, **fields: Any) -> Log:
    """A log in which one request is another."""
    requests, boundary = log(name)
    return replaced(**fields)(requests, [one.number for one in requests].index(number), Random(0)), boundary


def deleted(name: str, number: int) -> Log:
    """A log in which a client deletes what it reads in this request."""
    requests, boundary = log(name)
    return deleted_instead(requests, [one.number for one in requests].index(number), Random(0)), boundary


def rewritten(name: str, number: int, change: Callable[[Manifest], Manifest]) -> Log:
    """A log in which a request puts another manifest."""
    body = next(one.sent_body for one in requests_of(name) if one.number == number)
    data = ManifestCodec().encode(change(ManifestCodec().decode(body.data)))
    return changed(name, number, sent_body=Body(len(data), "", data))


def of_another(manifest: Manifest) -> Manifest:
    return manifest._replace(external_dbs=tuple(one._replace(source_checkpoint_id=str(UUID(int=1)))
                                                for one in manifest.external_dbs))


def without_lasting(manifest: Manifest) -> Manifest:
    return manifest._replace(checkpoints=tuple(one for one in manifest.checkpoints if one.expire_time_s))


def naming_again(manifest: Manifest) -> Manifest:
    return manifest._replace(external_dbs=tuple(one._replace(sst_ids=(manifest.ssts[0].id,)) for one in manifest.external_dbs))


def no_need(*_: Any) -> bool:
    return True


def any_base(*_: Any) -> list:
    return [sequenced_files.NOTHING]


def any_epoch(*_: Any) -> list[int]:
    return [0]


FILES, LOG, SHARED = sequenced_files, write_ahead_log, shared_files
# (model, guard, a log that it refuses, how the model goes without it: a safeguard off, or a function in its place)
OFF: tuple[tuple[ModuleType, str, Callable[[], Log], dict[str, bool] | Callable], ...] = (
    (FILES, "ReadLatest", lambda: edit(9), any_base),
    (FILES, "CREATE_IF_ABSENT", lambda: changed("stale_writer_refused", 12, conditions={}), {"CREATE_IF_ABSENT": False}),
    (FILES, "AckIsChecked", lambda: edit(24), {"CHECKED": False}),
    (FILES, "AckedIsKept", lambda: log("stale_writer_without_boundary"), no_need),
    (FILES, "OthersChangesAreKept", lambda: edit(166), no_need),
    (FILES, "OnlyOwnIsAdded", lambda: log("applied_again"), no_need),
    (FILES, "OnlyOwnEpochIsBumped", lambda: edit(60), no_need),
    (FILES, "AtMostOneActiveWriterCommits", lambda: edit(73), no_need),
    (FILES, "BoundaryIsMonotone", lambda: deleted("applied_again", 28), no_need),
    (FILES, "BoundaryIsBelowLatest", lambda: edit(169), {"LATEST_KEPT": False}),
    (FILES, "CONDITIONAL_ADVANCE", lambda: edit(157), {"CONDITIONAL_ADVANCE": False}),
    (FILES, "DeletedIsBehindBoundary", lambda: edit(33), {"BEHIND": False}),
    (FILES, "LatestIsKept", lambda: edit(19), no_need),
    (FILES, "PinnedIsKept", lambda: deleted("applied_again", 69), {"PINS": False}),
    (LOG, "CREATE_IF_ABSENT", lambda: changed("stale_writer_fenced", 44, conditions={}), {"CREATE_IF_ABSENT": False}),
    (LOG, "AckedIsDurable", lambda: log("stale_writer_in_the_wal"), no_need),
    (LOG, "FENCE_AHEAD", lambda: log("fence_behind"), any_epoch),
    (LOG, "OneWriterAcks", lambda: changed("stale_writer_fenced", 44, client="A"), no_need),
    (LOG, "GC_BEHIND", lambda: edit(141), {"BEHIND": False}),
    (SHARED, "FINAL_NEEDS_SOURCE", lambda: rewritten("clone_day", 43, of_another), {"FINAL_NEEDS_SOURCE": False}),
    (SHARED, "FINAL_FIRST", lambda: rewritten("clone_day", 48, without_lasting), {"FINAL_FIRST": False}),
    (SHARED, "OPEN_INITIALIZED", lambda: log("clone_without_pin"), {"OPEN_INITIALIZED": False}),
    (SHARED, "NAMES_SHRINK", lambda: rewritten("clone_day", 541, naming_again), {"NAMES_SHRINK": False}),
    (SHARED, "DETACH_UNNAMED", lambda: rewritten("clone_day", 318, without_lasting), {"DETACH_UNNAMED": False}),
    (SHARED, "PARENT_FIRST", lambda: rewritten("clone_day", 595, lambda one: one._replace(external_dbs=())),
     {"PARENT_FIRST": False}),
    (SHARED, "SPARE_PINNED", lambda: deleted("clone_day", 419), {"SPARE_PINNED": False}),
    (SHARED, "CHECK_PINS", lambda: log("parent_deleted"), {"CHECK_PINS": False}),
    (SHARED, "CLOSED", lambda: log("clone_of_deleted"), {"CLOSED": False}),
)


def stem(model: ModuleType) -> str:
    return model.__name__.rpartition(".")[2]


@pytest.mark.parametrize("model, guard, of, without", OFF, ids=[f"{stem(model)}, {guard}" for model, guard, *_ in OFF])
def test_without_a_guard_of_the_model_the_verdict_is_another(monkeypatch, model, guard, of, without):
    requests, boundary = of()
    before = judged(requests, boundary)
    assert before.verdict != "complete" and guard in [name for _, name in before.refused]
    safeguards = without if isinstance(without, dict) else {}
    if not safeguards and guard in model.GUARDS:
        monkeypatch.setattr(model, model.GUARDS[guard][0].__name__, without)
        monkeypatch.setattr(model, "MAY", {kind: getattr(model, may.__name__) for kind, may in model.MAY.items()})
    elif not safeguards:
        monkeypatch.setitem(model.ALWAYS, guard, (None, without))
    after = judged(requests, boundary, **safeguards)
    assert after != before and guard not in [name for number, name in after.refused if [number, name] in before.refused]


@pytest.mark.parametrize("model, guard, of, without", OFF, ids=[f"{stem(model)}, {guard}" for model, guard, *_ in OFF])
def test_a_refusal_names_the_line_of_the_model(model, guard, of, without):
    requests, boundary = of()
    steps, _ = steps_of(requests)
    found = search(steps, Slatedb(Knobs(BOUNDARY=boundary)), len(steps) + BUDGET)
    needs = [refusal.needs for _, refusal in found.refused if refusal.guard == guard]
    function = model.GUARDS[guard][0] if guard in model.GUARDS else model.ALWAYS[guard][1]
    assert needs and needs[0].startswith(f"{function.__name__} needs ")
    path, line = re.search(r"\((model/abstract/\w+\.py):(\d+)\)", needs[0]).groups()
    first = inspect.getsourcelines(function)[1]
    assert path == f"model/abstract/{stem(model)}.py" and first <= int(line) <= first + len(inspect.getsourcelines(function)[0])


def test_a_copy_over_what_a_writer_put_is_refused():
    """A clone's WAL may be put without a condition, but only where nobody else has put an object."""
    requests, boundary = log("clone_overwritten")
    found = judged(requests, boundary, OPEN_INITIALIZED=False)
    at, = [one for one in requests if one.number == found.refused[0][0]]
    assert found.refused[0][1] == "CREATE_IF_ABSENT" and (at.op, at.client) == ("copy", "K") and "clone/wal/" in at.key


def test_an_sst_that_a_clone_names_is_kept_without_a_pin_too():
    """The clone is judged, not only its final checkpoint: without a pin, its manifest still says that it needs the SST."""
    requests, boundary = rewritten("clone_day", 48, without_lasting)
    at = next(i for i, one in enumerate(requests) if one.number == 419)
    requests = deleted_instead(requests, at, Random(0))
    assert judged(requests, boundary, FINAL_FIRST=False, DETACH_UNNAMED=False).refused[0] == [419, "SPARE_PINNED"]


def rows() -> list[tuple[str, str]]:
    """(guard, model) of each row of the docs' table."""
    cells = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ") and line.count(" | ") == 2]
    return [(guard.strip("| "), model) for guard, model, _ in cells if model in MODELS]


def test_the_docs_have_each_guard_of_the_models():
    assert sorted(rows()) == sorted((guard, stem(model)) for model, guard, *_ in OFF)
    shown = {(guard, stem(model)) for model in MODULES for guard in model.GUARDS}
    assert shown <= set(rows()) and all(guard in guards_of(model) for model, guard, *_ in OFF)


# --- the few facts that a mapping gives a client are enough: with all that it knows, the answer is the same

def reached(model: Model) -> list[tuple[int, Any]]:
    """Return (index, local part) of clients in the first states."""
    seen: list[State] = [init(model)]
    for state in seen:
        if len(seen) > 500:
            break
        seen += [step.state for step in moves(model, state)]
    return sorted({(of.index, w) for state in seen for of, w in zip(model.processes, state.locals) if of.name}, key=str)


def highest(facts: frozenset[int]) -> frozenset[int]:
    return frozenset({max(facts)}) if facts else facts


@pytest.mark.parametrize("constants", [one for one in FILES.INSTANCES if one.get("CHAINED", True)], ids=str)
def test_the_facts_about_one_file_are_enough(constants):
    c, asked = FILES.Constants(**constants), 0
    clients = reached(FILES.model(c))
    made = {one for me, w in clients for one in FILES.creations(c, me, w)}
    for me, w in clients:
        for i, file in made:
            few = FILES.Client(read=frozenset(one for one in w.read if one[0] == i - 1), epochs=w.epochs)
            assert FILES.may_send(c, me, w, "Create", i, file) == FILES.may_send(c, me, few, "Create", i, file)
        for i in range(1, c.MAX_ID + 1):
            few = FILES.Client(boundaries=highest(w.boundaries), ids=highest(w.ids), free=w.free & {i})
            assert FILES.may_send(c, me, w, "Delete", i) == FILES.may_send(c, me, few, "Delete", i)
            for b in range(c.MAX_ID):
                few = FILES.Client(boundaries=w.boundaries & {b}, ids=highest(w.ids))
                assert FILES.may_send(c, me, w, "Advance", b, i) == FILES.may_send(c, me, few, "Advance", b, i)
                asked += FILES.may_send(c, me, w, "Advance", b, i)
    assert len(made) > 1 and (asked or not c.BOUNDARY)


@pytest.mark.parametrize("constants", LOG.INSTANCES, ids=str)
def test_the_facts_about_one_object_are_enough(constants):
    c, possible = LOG.Constants(**constants), set()
    for me, w in reached(LOG.model(c)):
        for i in range(1, c.MAX_ID + 1):
            few = {"Fence": LOG.Client(ids=w.ids & {i - 1}, epochs=w.epochs, log=w.log),
                   "Append": LOG.Client(log=w.log, open=w.open), "Delete": LOG.Client(replayed=highest(w.replayed))}
            for kind, what in (("Fence", ("Create", i, ())), ("Append", ("Create", i, (me, 0))), ("Delete", ("Delete", i))):
                assert LOG.may_send(c, me, w, *what) == LOG.may_send(c, me, few[kind], *what)
                possible |= {kind} if LOG.may_send(c, me, w, *what) else set()
    assert "Fence" in possible


@pytest.mark.parametrize("constants", SHARED.INSTANCES, ids=str)
def test_the_facts_about_one_clone_are_enough(constants):
    c = SHARED.Constants(**constants)
    clients = reached(SHARED.model(c))
    bases = {base for _, w in clients for base in w.parents}
    for me, w in clients:
        def same(few, kind, *what, me=me, w=w):
            return SHARED.may_send(c, me, w, kind, *what) == SHARED.may_send(c, me, few, kind, *what)

        for base in bases:
            known = SHARED.Client(w.parents & {base})
            assert same(known, "Mark", base) and same(known, "DeleteDb", base)
            for k in range(c.CLONES):
                of = frozenset(one for one in w.clones if one[0] == k)
                assert same(known._replace(clones=of), "CreateFinal", base, k)
                assert same(known._replace(unnamed=w.unnamed & {k}), "Detach", base, k)
        for k, clone in w.clones:
            known = SHARED.Client(clones=frozenset({(k, clone)}))
            assert same(known, "Open", k, clone) and same(known, "Rewrite", k, clone, SHARED.SSTS)
            assert same(known._replace(pinned=w.pinned & {k}), "Initialize", k, clone)
            assert same(known._replace(gone=w.gone & {k}), "Leave", k, clone)
        assert same(SHARED.Client(unpinned=w.unpinned), "Delete", 0)
