"""The mistakes of a first protocol are named in one line, with what to write; none passes unnoticed."""

from pathlib import Path

import pytest

from highwater import project
from highwater.dst import scenarios
from highwater.dst.scenario import contradiction, contradiction_of_mutants
from highwater.gate.exits import BAD_INPUT, SAFETY, SPEC
from highwater.traces.explain.explain import thing
from tests.support.projects import REGISTER, forget, highwater, made

EXPLORE, CONFORM = ["model", "explore"], ["model", "conform"]


@pytest.fixture(autouse=True)
def alone():
    yield
    forget()


def edited(folder: Path, *edits: tuple[str, str, str]) -> Path:
    """Write the register with each edit (file, old text, new text). Returns its folder."""
    files = {path.relative_to(REGISTER).as_posix(): path.read_text() for path in sorted(REGISTER.rglob("*.*"))
             if path.suffix in (".py", ".toml")}
    for name, old, new in edits:
        assert old in files[f"register/{name}"]
        files[f"register/{name}"] = files[f"register/{name}"].replace(old, new, 1)
    return made(folder, files)


# --- a model

@pytest.mark.parametrize("words", [EXPLORE, CONFORM], ids=" ".join)
@pytest.mark.parametrize("old, new, said", [
    ("yield (), s, w\n", "yield s, w\n",
     "the action Writer.CreateConflict has a wrong form: not enough values to unpack (expected 3, got 2)"),
    ("yield (), s, w\n", "return (), s, w\n",
     "the action Writer.CreateConflict has a wrong form: 'NoneType' object is not iterable"),
    ('"OneIsAcked": (None, one_is_acked)', '"OneIsAcked": ("Writer", one_is_acked)',
     "the property one_is_acked cannot be called: one_is_acked() takes 2 positional arguments but 3 were given"),
    ("def acked_is_stored(c: Constants, s: Shared)", "def acked_is_stored(c: Constants, s: Shared, w: Writer)",
     "the property acked_is_stored cannot be called: acked_is_stored() missing 1 required positional argument: 'w'"),
])
def test_an_error_of_a_model_is_one_line(tmp_path, words, old, new, said):
    code, _, err = highwater(*words, "--project", edited(tmp_path, ("model.py", old, new)))
    assert (code, err.count("\n")) == (BAD_INPUT, 1) and f"error: the module register.model: {said}" in err, err


def test_an_error_in_a_function_of_ours_names_the_users_line(tmp_path):
    folder = edited(tmp_path, ("model.py", "reply_lost(c, s)", "reply_lost(c, w)"))
    line = (folder / "register/model.py").read_text().partition("reply_lost(c, w)")[0].count("\n") + 1
    code, _, err = highwater(*EXPLORE, "--set", "MAX_LOST=1", "--project", folder)
    assert code == BAD_INPUT and err.endswith(f"object has no attribute 'lost' ({folder}/register/model.py:{line})\n"), err


def test_a_property_without_a_role_is_refused(tmp_path):
    folder = edited(tmp_path, ("model.py", '(None, one_is_acked)', 'one_is_acked'))
    code, _, err = highwater(*EXPLORE, "--project", folder)
    assert code == BAD_INPUT and "the property OneIsAcked is <function" in err and "write (None, f(c, shared))" in err
    code, out, _ = highwater(*CONFORM, "--project", folder)
    assert code == SPEC and out.count("the property OneIsAcked is <function") == 2


def test_a_property_of_a_role_that_no_client_has_is_named(tmp_path):
    folder = edited(tmp_path, ("model.py", '(None, one_is_acked)', '("Writr", lambda c, s, w: False)'))
    assert "not checked, because no client has the role: OneIsAcked (Writr)" in highwater(*EXPLORE, "--project", folder)[1]
    code, out, _ = highwater(*CONFORM, "--project", folder)
    assert code == SPEC and "the property OneIsAcked is never checked: no row of" in out and "client of the role 'Writr'" in out


def test_a_role_that_only_some_rows_have_is_checked_there(tmp_path):
    folder = edited(tmp_path, ("model.py", 'ALWAYS = {', 'ALWAYS = {"Late": ("Reader", lambda c, s, w: True), '),
                    ("model.py", '("Writer", c.WRITERS, Writer(), WRITER)',
                     '("Writer", c.WRITERS, Writer(), WRITER), ("Reader", 0 if c.ONLY_IF_ABSENT else 1, (), {})'))
    assert highwater(*CONFORM, "--project", folder)[0] == 0


# --- a table of runs

@pytest.mark.parametrize("old, new, said", [
    ('how = "graph"', "", "run 1 (register_plain) lacks 'how': write id, how and expect"),
    ("states = 5", "state = 5", "run 1 (register_plain) has 'state', which is no field of a row: id, "),
    ('"PASSED"', '"passed"', "expect is 'passed', one of PASSED, FAILED"),
])
def test_a_row_that_is_none_is_refused(tmp_path, old, new, said):
    code, _, err = highwater(*CONFORM, "--project", edited(tmp_path, ("spec.toml", old, new)))
    assert (code, err.count("\n")) == (BAD_INPUT, 1) and said in err, err


def test_a_silent_action_that_is_none_is_named(tmp_path):
    folder = edited(tmp_path, ("spec.toml", '["Writer.LoseReply"]', '["Writer.LoseReplies", "Writer.LoseReply"]'))
    code, out, _ = highwater(*CONFORM, "--project", folder)
    assert code == SPEC and "lists Writer.LoseReplies as silent, and the model has no such action" in out


# --- a mapping

@pytest.mark.parametrize("old, new, signature, said", [
    ('action = "Create" if', 'action = "Creat" if', "refinement:KeyError",
     "the model has no action Creat, only "),
    ("Match(e.client, (action,)", 'Match(e.client, (action, "Acknowlege")', "refinement:KeyError",
     "the model has no action Acknowlege, only "),
    ("(action,), (), lambda a, s, l, s2, l2: (e.client, l.k)", "(None,), (), lambda a, s, l, s2, l2: ()",
     "refinement:Writer.create", "Writer#0 has done what the model cannot do here: create\n"),
    ("lambda a, s, l, s2, l2: (e.client", "lambda a, s, l: (e.client", "refinement:TypeError",
     "takes 3 positional arguments but 5 were given\n"),
    ("(e.client, l.k) ==", "(e.client, l.kk) ==", "refinement:AttributeError",
     "'Writer' object has no attribute 'kk' (register/mapping.py:29)\n"),
    ("update_of(e.body.decode())\n        action", "int(e.body)\n        action", "refinement:ValueError",
     "b'0.0' (register/mapping.py:27)\n"),
    ("Match(e.client, (action,)", 'Match("Client#0", (action,)', "refinement:KeyError",
     "the model has no client Client#0, only Writer#0, Writer#1, Writer#2"),
    ("def _told_of", "def _tells_of", "exception:NotImplementedError", "\nthe mapping has no method _told_of\n"),
])
def test_a_mistake_of_a_mapping_is_named_with_its_place(tmp_path, old, new, signature, said):
    code, out, _ = highwater("dst", "run", "--seed", 0, "--project", edited(tmp_path, ("mapping.py", old, new)))
    assert code and f"({signature})" in out and said in out, out


def test_a_false_response_is_named_without_a_hole(tmp_path):
    out = highwater("dst", "run", "--seeds", "0:60", "--mutant", "hopeful", "--project", REGISTER)[1]
    seed = out.partition("--seed ")[2].split()[0]
    out = highwater("dst", "run", "--seed", seed, "--mutant", "hopeful", "--project", REGISTER)[1]
    assert " was told 'committed' of '" in out and "' , but" not in out


def test_objects_of_two_folders_are_told_apart():
    number = f"{3:020d}"
    assert thing(f"t/_log/{number}.json") == "_log/3.json" and thing(f"t/data/{number}-0.1.json") == "data/3-0.1.json"
    assert {thing(f"db/{key}") for key in (f"manifest/{number}.manifest", f"wal/{number}.sst", f"claims/{number}")} == {"id 3"}
    assert (thing("db/lock"), thing(f"db/keys/1.0-{number}")) == ("db/lock", "id 3")


def test_a_key_that_no_store_holds_fails_the_run(tmp_path):
    folder = edited(tmp_path, ("mapping.py", 'Keys("db/"', 'Keys("/"'))
    impl = folder / "register/impl.py"
    impl.write_text(impl.read_text().replace('KEY = "', 'KEY = "/'))
    code, out, _ = highwater("dst", "run", "--seed", 0, "--project", folder)
    assert code == SAFETY and "bad key '/" in out and "it begins with a slash" in out, out


# --- a scenario and its mutants

@pytest.mark.parametrize("old, new, said", [
    ('roles={"Writer": ("writers", "updates")}', 'roles={"Writer": ("writers", "writes")}',
     "roles names 'writes', which is no field of Shape: page_size, "),
    ("most=MOST", 'most={"writer": 3}', "most names 'writer', which is no field of Shape"),
    ('work={"Writer": writer}', 'work={"Writr": writer}', "work is of Writr, and roles of Writer: name the same roles"),
    ("audit=(),", 'audit=(("Reader#0",),),', "audit has ('Reader#0',): write tuples of clients of Writer, such as"),
    ("audit=(),", 'audit=("Writer#0",),', "audit has 'Writer#0': write tuples of clients of Writer, such as"),
    ("audit=(),", 'audit=(), optional=("Readers",),', "optional names 'Readers', which is none of the roles Writer"),
    ('told=("committed", "failed", "unknown")', 'told=("committed")', "told is 'committed': write a tuple of the words"),
    ("audit=(),", 'audit=(), needs=("creates",),', "needs names 'creates', which is none of create, update, cache, list"),
    ("writers=(2, 3)", "writers=(2, 4)", "draw_shape draws writers up to 4, and most has 3: raise most"),
    ("updates=(1, 2, 3)", "update=(1, 2, 3)", "TypeError: Shape.__init__() got an unexpected keyword argument 'update'"),
    ('refiner, MOST["writers"]', "refiner, 2", "the model of trace_of has no client Writer#2, only Writer#0, Writer#1"),
    ('refiner, MOST["writers"]', 'refiner, MOST["readers"]', "KeyError: 'readers' (DIR/register/scenario.py:"),
])
def test_a_scenario_whose_parts_do_not_fit_is_one_line(tmp_path, old, new, said):
    code, out, err = highwater("dst", "run", "--seed", 0, "--project", edited(tmp_path, ("scenario.py", old, new)))
    assert (code, out, err.count("\n")) == (BAD_INPUT, "", 1), err
    assert f"{tmp_path}/register/scenario.py: SCENARIO: {said.replace('DIR', str(tmp_path))}" in err


def test_a_word_that_told_does_not_list_fails_the_run(tmp_path):
    folder = edited(tmp_path, ("scenario.py", 'told=("committed", "failed", "unknown")', 'told=("failed", "unknown")'))
    code, out, _ = highwater("dst", "run", "--seed", 0, "--project", folder)
    assert code == SAFETY and "caller was told 'committed', and SCENARIO.told lists failed, unknown" in out


def test_work_whose_await_is_missing_fails_the_run(tmp_path):
    lazy = "async def lazy(*arguments: Any) -> None:\n    writer(*arguments)  # await is missing\n\n\nSCENARIO = Scenario("
    folder = edited(tmp_path, ("scenario.py", "SCENARIO = Scenario(", lazy),
                    ("scenario.py", '"Writer": writer', '"Writer": lazy'))
    with pytest.warns(RuntimeWarning, match="never awaited"):
        code, out, _ = highwater("dst", "run", "--seed", 0, "--project", folder)
    assert code == SAFETY and "finished their work without a request to the store: is an await missing" in out, out


@pytest.mark.parametrize("old, new, said", [
    (', "hopeful": (("told:committed",), ("history:lost update",))', "", "oracles has no 'hopeful': write (prefixes by the "),
    ('"hopeful": ("a lost', '"hopefull": ("a lost', "oracles has no 'hopefull'"),
    (', "hopeful": ("a lost response is a success", client(Hopeful))', "", "oracles has 'hopeful', and builds has not"),
    ('("told:committed",)', '("told:committed")', "the oracle of 'hopeful' is ('told:committed', ('history:lost update',)): "),
])
def test_mutants_without_a_fitting_oracle_are_one_line(tmp_path, old, new, said):
    code, _, err = highwater("dst", "zoo", "--campaigns", 1, "--project", edited(tmp_path, ("mutants.py", old, new)))
    assert (code, err.count("\n")) == (BAD_INPUT, 1) and f"{tmp_path}/register/mutants.py: MUTANTS: {said}" in err, err


def test_our_own_scenarios_fit():
    assert {stem: contradiction(scenarios.named(stem)) for stem in scenarios.STEMS} == dict.fromkeys(scenarios.STEMS, "")
    for stem in scenarios.STEMS:
        if project.has("mutants", stem):
            assert not contradiction_of_mutants(scenarios.mutants_of(stem)), stem
