"""Refinement in Z3: for any number of clients, each step of a protocol is one of its abstract model, whose proof is inherited.

A wrong mapping, a stronger abstract guard, a missing abstract action and a safeguard that is switched off each fail, with the
step. The gate proves all systems; here are two.
"""

from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.cli.model import refine_unbounded
from highwater.model.proofs.abstract import sequenced_files as abstract
from highwater.model.proofs.engine import inherit, small
from highwater.model.proofs.engine import tie as tying
from highwater.model.proofs.engine.inductive import Proof
from highwater.model.proofs.engine.logic import And, Not
from highwater.model.proofs.engine.refine import Refinement, Taken, prove
from highwater.model.proofs.engine.small import Small
from highwater.model.proofs.engine.system import Misnamed
from highwater.model.proofs.refinements import sequenced_write as of

LOG = " of the log, where an unknown outcome is recognised"


def proved(refinement: Refinement, action: str, **constants: Any) -> Proof:
    """The proof of one action only: `Writer.CreateNext`."""
    role, name = action.split(".")
    system = refinement.concrete._replace(actions={role: {name: refinement.concrete.actions[role][name]}})
    refinement, c = refinement._replace(concrete=system), of.concrete.unbounded(of.concrete.m.Constants(**constants))
    one = Small(refinement, c)
    return prove(refinement, c, one.enables, one.find)


def wrong(refinement: Refinement, action: str, **constants: Any) -> str:
    """The step that does not refine."""
    return next(row.counterexample for row in proved(refinement, action, **constants).rows if row.verdict == "fails")


def mapped(**changes: Any) -> Refinement:
    return of.REFINEMENT._replace(**changes)


# --- what holds

@pytest.mark.parametrize("note", [" where an unknown outcome is recognised", LOG])
def test_it_is_inherited(note):
    found = inherit.inherit(of, of.concrete.m.Constants(), of.SYSTEMS[note])
    assert found.holds, [(proof.failing, proof.impossible) for proof in found]
    never = {"Writer.ReadLatest", "Reader.ReadLatest"} if note == LOG else set()
    assert {action for action, possible in found.steps.possible.items() if not possible} == never


@pytest.mark.parametrize("constants", abstract.SYSTEMS.values(), ids=str)
def test_the_abstract_model_is_proved(constants):
    proof = abstract.prove(abstract.constants(**constants))
    assert proof.holds and {row.clause for row in proof.rows if row.action == "Property"} == set(abstract.m.ALWAYS)


@pytest.mark.parametrize("off", abstract.SAFEGUARDS_OFF, ids=str)
def test_not_without_its_safeguard(off):
    assert ("Client.Create", "AckedIsKept") in abstract.prove(abstract.constants(**off), explain=False).failing


def test_each_text_is_the_models():
    found = inherit.tie(of)
    assert not found.mismatches and found.states > 500


def test_each_action_of_the_abstract_model_is_compared():
    c = abstract.constants(**abstract.INSTANCES[0])
    found = tying.tie(abstract.SYSTEM, abstract.model(c), abstract.scope(c), abstract.NEAREST)
    of_form = {f"{role}.{name}".lstrip(".") for role, those in abstract.ACTIONS.items() for name, relation in those.items()
               if relation is not abstract.never}
    assert found.holds and found.actions == of_form


# --- what must fail

def knows_nothing(c: Any, s: Any, w: Any) -> dict[str, Any]:
    return {**of.writer(c, s, w), "read": of.nothing}


def test_a_wrong_mapping():
    text = wrong(mapped(locals={"Writer": knows_nothing}), "Writer.CreateNext")
    assert "Writer#0.CreateNext is no step of sequenced_files" in text and "in sequenced_write:" in text
    assert "acked          {}  → {(2, 0, 0)}" in text
    assert "Create(2, {updates {(0, 0), (1, 0)}, pins {}, epochs ()}) needs bases(c, w, i) (model/abstract/" in text


def test_a_mapping_that_shows_too_little():
    text = wrong(mapped(shared=lambda c, s: {**of.shared(c, s), "acked": of.nothing}), "Writer.CreateNext")
    assert "Create, Acknowledge leads elsewhere: acked is {(0, 0)} there, and the mapping says {}" in text


def test_a_wrong_initial_state():
    proof = proved(mapped(shared=lambda c, s: {**of.shared(c, s), "top": s.top + 1}), "Writer.Crash")
    assert [(row.action, row.clause) for row in proof.rows if row.verdict != "proved"] == [("Init", "top is as mapped")]


def test_a_stronger_abstract_guard():
    def first_only(c: Any, me: int, s: Any, w: Any, *given: Any) -> Any:
        if not s.files:
            yield from abstract.m.create(c, me, s, w, *given)

    def first_only_of_relation(c, s, w, i: abstract.Id, f: abstract.File, base: abstract.File):
        for guard, *after in abstract.create(c, s, w, i, f, base):
            yield And(guard, s.top == 0), *after

    def onto(c: Any) -> Any:
        model = of.onto(c)
        return model._replace(processes=tuple(one._replace(actions={**one.actions, "Create": first_only}) if one.name else one
                                              for one in model.processes))

    clients = {**abstract.ACTIONS["Client"], "Create": first_only_of_relation}
    stronger = mapped(onto=onto, abstract=abstract.SYSTEM._replace(actions={**abstract.ACTIONS, "Client": clients}))
    assert "needs not s.files (" in wrong(stronger, "Writer.CreateNext")


def without(name: str) -> Refinement:
    clients = {other: relation for other, relation in abstract.ACTIONS["Client"].items() if other != name}
    return mapped(abstract=abstract.SYSTEM._replace(actions={**abstract.ACTIONS, "Client": clients}))


def test_a_missing_abstract_action():
    with pytest.raises(Misnamed, match="names Create, and sequenced_files has no such action of Client"):
        proved(without("Create"), "Writer.CreateNext")
    plans = {"Writer": {name: plan for name, plan in of.PLANS["Writer"].items() if name != "CreateNext"}, "": of.PLANS[""]}
    text = wrong(mapped(plans=plans), "Writer.CreateNext")
    assert "the mapping names no abstract action for CreateNext here, and the mapped state changes: files is ()" in text


def test_an_action_that_needs_a_boundary():
    plans = {"Writer": {"List": lambda c, s, w: (True, (Taken("Check"),))}}
    assert "Check() needs c.BOUNDARY (" in wrong(mapped(plans=plans), "Writer.List")


@pytest.mark.parametrize("off, action", of.OFF, ids=str)
def test_with_a_safeguard_off_a_step_does_not_refine(off, action):
    text = wrong(of.REFINEMENT, action, **off)
    assert f"{action.split('.')[1]} is no step of sequenced_files" in text.splitlines()[0]
    assert "needs is_free(c, s, i)" in text or "the mapping says" in text


def test_nothing_is_inherited_where_the_concrete_invariant_is_not_proved():
    found = inherit.inherit(of, of.concrete.m.Constants(UNKNOWN="reapply"), {"use": "log"})
    assert found.steps.holds and found.abstract.holds and not found.concrete.holds and not found.holds


def test_a_plan_without_values_proves_nothing():
    """Its definition contradicts itself, so every goal follows."""
    plans = {"Writer": {**of.PLANS["Writer"], "CreateNext": lambda c, s, w: (s.top < 0, ())}, "": of.PLANS[""]}
    proof = proved(mapped(plans=plans), "Writer.CreateNext")
    assert not proof.failing and proof.impossible == ("Writer.CreateNext",) and not proof.holds
    assert "CreateNext: no value is what its plan names" in "".join(tie(mapped(plans=plans)))


def tie(refinement: Refinement) -> tuple[str, ...]:
    c = of.concrete.m.Constants()
    return small.tie(refinement, of.concrete.m.model(c), of.executable.refinement(c), 25).mismatches


def test_a_mapping_that_is_not_the_executable_one():
    assert "the proof maps" in tie(mapped(locals={"Writer": knows_nothing}))[0] and not tie(of.REFINEMENT)


def test_a_fact_that_is_none():
    def all_files_are_empty(c, s, f: of.File, u: of.Update):
        return Not(s.has(f, u))

    assert tie(mapped(facts=(all_files_are_empty,)))[0].startswith("all_files_are_empty is not so of f = {updates {(")


# --- the verb

def said(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["model", "refine", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def test_the_verb_says_what_is_inherited(monkeypatch):
    monkeypatch.setattr(refine_unbounded, "tied", lambda proofs, safeguards: True)
    monkeypatch.setattr(refine_unbounded, "mapping_is_the_models", lambda of: True)
    monkeypatch.setattr(of, "SYSTEMS", {LOG: of.SYSTEMS[LOG]})
    code, text = said("sequenced_write", "--onto", "sequenced_files", "--unbounded")
    assert code == 0 and f"proved{LOG}: every step is one of sequenced_files" in text and "inherited: AckedIsKept" in text
    code, text = said("sequenced_write", "--unbounded", "--set", "GAPS=True")
    assert code == 11 and "the invariant of sequenced_write is not proved, so nothing follows from the steps" in text
    assert "Writer#0.Skip is no step of sequenced_files" in text


@pytest.mark.parametrize("words, told", [
    (("manifest_migration",), "manifest_migration has no proof, so it has no invariant: "),
    (("wal_fencing",), "wal_fencing has no mapping for a proof: "),
    (("baseline",), "baseline refines no abstract model: "),
    (("sequenced_write", "--onto", "one_object"), "no mapping of sequenced_write onto one_object: it refines sequenced_files"),
    (("sequenced_write", "--walks", "1"), "--unbounded is for every instance"),
    (("sequenced_write", "--set", "ENDLESS=1"), "covers ENDLESS=0 only; it is 1"),
])
def test_bad_input_gets_a_line(words, told):
    code, text = said(*words, "--unbounded")
    assert code == 2 and text.startswith("error: ") and told in text
