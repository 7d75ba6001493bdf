"""The mistakes of a first protocol are named in one line, with what to write; none passes unnoticed."""

from pathlib import Path

import pytest

from highwater import project
from highwater.cli.instances import unknown_role
from highwater.dst import scenarios
from highwater.dst.scenario import contradiction, contradiction_of_mutants
from highwater.gate.exits import BAD_INPUT, HARNESS, REFINEMENT, SAFETY, SPEC
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


@pytest.mark.parametrize("verb", [
    ("explore",), ("explore", "--engine", "plain"), ("explore", "--engine", "wide"), ("explore", "--order", "depth"), ("walk",),
    ("step", "--take", "0,0,0,0"), ("conform",)], ids=" ".join)
def test_a_mutable_value_is_named_with_field_and_action(tmp_path, verb):
    folder = edited(tmp_path, ("model.py", "s._replace(acked=s.acked | {(me, w.k)})", "s._replace(value=[me, w.k])"))
    code, _, err = highwater("model", *verb, "--project", folder)
    assert (code, err.count("\n")) == (BAD_INPUT, 1), err
    assert "a state holds a mutable value: Shared.value = [0, 0], after Writer" in err and "Acknowledge (unhashable" in err, err


def test_an_initial_mutable_value_is_named_with_its_field(tmp_path):
    folder = edited(tmp_path, ("model.py", "Shared((), (),", "Shared((), [],"))
    code, _, err = highwater(*EXPLORE, "--project", folder)
    assert code == BAD_INPUT and "a state holds a mutable value: Shared.pool = [] (unhashable" in err, err


def test_an_error_in_a_function_of_ours_names_the_users_line(tmp_path):
    folder = edited(tmp_path, ("model.py", "reply_lost(c, s)", "reply_lost(c, w)"))
    line = (folder / "register/model.py").read_text().partition("reply_lost(c, w)")[0].count("\n") + 1
    code, _, err = highwater(*EXPLORE, "--set", "MAX_LOST=1", "--project", folder)
    assert code == BAD_INPUT and err.endswith(f"object has no attribute 'lost' ({folder}/register/model.py:{line})\n"), err


@pytest.mark.parametrize("old, new, said", [
    ('ALWAYS = {"OneIsAcked": (None, one_is_acked), "AckedIsStored": (None, acked_is_stored)}', "ALWAYS = [acked_is_stored]",
     "always is [<function acked_is_stored"),
    ("    return len(s.acked) <= 1", "    len(s.acked) <= 1", "the property OneIsAcked returns None: is a `return` missing?"),
    ("    return bool(s.acked)", "    bool(s.acked)", "the property SomeoneWins returns None: is a `return` missing?"),
    ("    return Model(", "    return tuple, (", "returns (<class 'tuple'>, "),
])
def test_a_property_or_model_without_a_value_is_named(tmp_path, old, new, said):
    folder = edited(tmp_path, ("model.py", old, new))
    code, _, err = highwater(*EXPLORE, "--project", folder)
    assert (code, err.count("\n")) == (BAD_INPUT, 1) and said in err, err
    code, out, _ = highwater(*CONFORM, "--project", folder)
    assert code == SPEC and said in out, out


def test_limits_that_are_no_table_are_refused(tmp_path):
    folder = edited(tmp_path, ("model.py", "ALWAYS = {", "LIMITS = 5\nALWAYS = {"))
    code, _, err = highwater(*EXPLORE, "--set", "WRITERS=1", "--project", folder)
    assert (code, err.count("\n")) == (BAD_INPUT, 1) and "LIMITS is 5; write a dictionary, " in err, err


def test_keys_that_are_a_text_are_refused(tmp_path):
    folder = edited(tmp_path, ("mapping.py", "KEYS = Keys(", 'KEYS = "db/"\nOTHERS = Keys('))
    code, _, err = highwater("dst", "run", "--seed", 0, "--project", folder)
    assert code == BAD_INPUT and "SCENARIO: the trace of trace_of has the keys 'db/': write Keys(PREFIX, ..)" in err, err


def test_a_run_whose_property_has_no_value_is_refused(tmp_path):
    folder = edited(tmp_path, ("model.py", "    return len(s.acked) <= 1", "    len(s.acked) <= 1"))
    code, _, err = highwater("dst", "run", "--seed", 0, "--project", folder)
    assert code == BAD_INPUT and "SCENARIO: the property OneIsAcked returns None" in err, err


def test_an_error_without_a_message_has_no_gap(tmp_path):
    folder = edited(tmp_path, ("model.py", "    yield (), s, w\n", "    assert w is None\n    yield (), s, w\n"))
    err = highwater(*EXPLORE, "--project", folder)[2]
    assert "register.model: AssertionError (" in err, err
    out = highwater("dst", "run", "--seeds", "0:9", "--project", folder)[1]
    assert "the model raises AssertionError (register/model.py:" in out and "self._no_action" not in out, out


@pytest.mark.parametrize("name, old, words, code, said", [
    ("model.py", "    yield (), s, w\n", EXPLORE, BAD_INPUT, "error: the module register.model: SystemExit: 0 ("),
    ("model.py", "    yield (), s, w\n", CONFORM, BAD_INPUT, "error: the module register.model: SystemExit: 0 ("),
    ("model.py", "    return Model(", EXPLORE, BAD_INPUT, "error: the module register.model: model(Constants("),
    ("mapping.py", "        action = ", ["dst", "run", "--seed", 0], HARNESS,
     "the mapping raises SystemExit: 0 (register/mapping.py:"),
    ("scenario.py", "    wrong = [of", ["dst", "run", "--seed", 0], HARNESS, "(harness:SystemExit)"),
    ("scenario.py", "    return Shape.drawn(", ["dst", "run", "--seed", 0], BAD_INPUT, "SCENARIO: SystemExit: 0 ("),
    ("impl.py", "        try:\n", ["dst", "run", "--seed", 0], SAFETY, "(exception:SystemExit)"),
])
def test_an_exit_of_a_project_ends_no_command_with_0(tmp_path, name, old, words, code, said):
    stop = " " * (len(old) - len(old.lstrip())) + "raise SystemExit(0)\n"
    got, out, err = highwater(*words, "--project", edited(tmp_path, (name, old, stop + old)))
    assert got == code and said in out + err, (got, out, err)


def test_a_property_without_a_role_is_refused(tmp_path):
    folder = edited(tmp_path, ("model.py", '(None, one_is_acked)', 'one_is_acked'))
    code, _, err = highwater(*EXPLORE, "--project", folder)
    assert code == BAD_INPUT and "the property OneIsAcked is <function" in err and "write (None, f(c, shared))" in err
    code, out, _ = highwater(*CONFORM, "--project", folder)
    assert code == SPEC and out.count("the property OneIsAcked is <function") == 2


def test_a_property_of_a_role_that_no_client_has_is_named(tmp_path):
    folder = edited(tmp_path, ("model.py", '(None, one_is_acked)', '("Writr", lambda c, s, w: False)'))
    for verb in (EXPLORE, ["model", "walk"]):
        code, _, err = highwater(*verb, "--project", folder)
        said = "the property OneIsAcked is of the role 'Writr' (did you mean 'Writer'?), which no client has: there are Writer"
        assert code == BAD_INPUT and said in err, err
    code, out, _ = highwater(*CONFORM, "--project", folder)
    assert code == SPEC and "the property OneIsAcked is never checked: no row of" in out and "client of the role 'Writr'" in out


@pytest.mark.parametrize("field, name, said", [
    ("violates", "AckdIsStored", "names 'AckdIsStored' (did you mean 'AckedIsStored'?), and the model has OneIsAcked, "),
    ("never", "SomeoneWin", "names 'SomeoneWin' (did you mean 'SomeoneWins'?), and the model has SomeoneWins, "),
    ("eventually", "AllEnd", "names 'AllEnd', and the model has none")])
def test_a_row_with_an_unknown_property_names_the_nearest(tmp_path, field, name, said):
    more = {"violates": f'violates = "{name}"', "never": f'never = ["{name}"]', "eventually": f'eventually = "{name}"'}[field]
    expect = 'expect = "FAILED"' if field == "violates" else 'expect = "PASSED"'
    how = "live" if field == "eventually" else "graph"
    folder = edited(tmp_path, ("spec.toml", 'how = "graph"', f'how = "{how}"'),
                    ("spec.toml", 'expect = "PASSED"', f"{expect}\n{more}"))
    code, out, _ = highwater(*CONFORM, "register_plain", "--project", folder)
    assert code == SPEC and f"{field} of the run register_plain {said}" in out, out


@pytest.mark.parametrize("words, said", [
    (["dst", "run", "--seed", 0, "--protocol", "registr"], "there is no protocol 'registr' (did you mean 'register'?); "),
    (["dst", "run", "--seed", 0, "--scenario", "registr"], "there is no scenario 'registr' (did you mean 'register'?); "),
    (["dst", "run", "--seed", 0, "--mutant", "blnd"], "there is no mutant 'blnd' of register (did you mean 'blind'?); "),
    (["dst", "run", "--seed", 0, "--profile", "gsc"], "there is no profile 'gsc' (did you mean 'gcs'?); "),
    (["dst", "run", "--seed", 0, "--shape", "writer=2"], "there is no 'writer' (did you mean 'writers'?); "),
    (["dst", "run", "--seed", 0, "--fault", "crsh=2"], "there is no 'crsh' (did you mean 'crash'?); "),
    (["dst", "run", "--seed", 0, "--strategy", "randm"], "there is no strategy 'randm' (did you mean 'random'?); "),
    (["dst", "zoo", "--strategy", "pctt"], "there is no strategy 'pctt' (did you mean 'pct'?); "),
    (["dst", "exhaust", "--of", "crsh"], "there is no fault 'crsh' (did you mean 'crash'?); "),
    (["model", "explore", "--set", "WRITER=2"], "there is no constant 'WRITER' (did you mean 'WRITERS'?); "),
    (["model", "explore", "registr"], "there is no model 'registr' (did you mean 'register'?); "),
    (["model", "conform", "register_plan"], "there is no run 'register_plan' in spec.toml (did you mean 'register_plain'?); "),
    (["cost", "--protocol", "registr"], "there is no scenario 'registr' (did you mean 'register'?); "),
    (["verify", "--protocol", "registr"], "there is no protocol 'registr' (did you mean 'register'?); "),
    (["trace", "record", "http://x", "--client", "a=99999"], "client 'a=99999': there is no port 99999: give 1 to 65535, "),
    (["trace", "record", "http://x", "--lose-each", "put-conditional"], "there is no class of requests 'put-conditional'"),
])
def test_a_mistyped_name_is_answered_with_the_nearest(words, said):
    code, _, err = highwater(*words, "--project", REGISTER)
    assert code == BAD_INPUT and said in err, err


def test_no_property_of_ours_has_an_unknown_role():
    for stem in project.stems("model"):
        module = project.load("model", stem)
        assert not unknown_role(module.model(module.Constants()), module), stem


def test_a_role_that_only_some_rows_have_is_checked_there(tmp_path):
    folder = edited(tmp_path, ("model.py", 'ALWAYS = {', 'ALWAYS = {"Late": ("Reader", lambda c, s, w: True), '),
                    ("model.py", '("Writer", c.WRITERS, Writer(), WRITER)',
                     '("Writer", c.WRITERS, Writer(), WRITER), ("Reader", 0 if c.ONLY_IF_ABSENT else 1, (), {})'))
    assert highwater(*CONFORM, "--project", folder)[0] == 0


# --- a table of runs

@pytest.mark.parametrize("old, new, said", [
    ('how = "graph"', "", "run 1 (register_plain) lacks 'how': write id, how and expect"),
    ("states = 5", "state = 5", "run 1 (register_plain) has 'state', which is no field of a row: id, "),
    ("states = 5", "states = '5'", "run 1 (register_plain): states is '5', and must be a whole number"),
    ("states = 5", "states = 5\nnever = 'SomeoneWins'", "run 1 (register_plain): never is 'SomeoneWins', and must be a list"),
    ("states = 5", "states = 5\nconstants = 5", "run 1 (register_plain): constants is 5, and must be a table"),
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
    ('action = "Create" if', 'action = "Creat" if', "harness:WrongMatch",
     "the model has no action Creat, only "),
    ("Match(e.client, (action,)", 'Match(e.client, (action, "Acknowlege")', "harness:WrongMatch",
     "the model has no action Acknowlege, only "),
    ("(action,), (), lambda a, s, l, s2, l2: (e.client, l.k)", "(None,), (), lambda a, s, l, s2, l2: ()",
     "refinement:Writer.create", "Writer#0 has done what the model cannot do here: create\n"),
    ("lambda a, s, l, s2, l2: (e.client", "lambda a, s, l: (e.client", "harness:TypeError",
     "takes 3 positional arguments but 5 were given (register/mapping.py:29); for an event that no action explains, raise "),
    ("(e.client, l.k) ==", "(e.client, l.kk) ==", "harness:AttributeError",
     "event 0: the mapping raises AttributeError: 'Writer' object has no attribute 'kk' (register/mapping.py:29); "),
    ("(e.client, l.k) ==", "(e.client, l.k, k) ==", "harness:NameError", "name 'k' is not defined (register/mapping.py:29); "),
    ("update_of(e.body.decode())\n        action", "{}[e.key]\n        action", "harness:KeyError",
     "event 0: the mapping raises KeyError: 'db/register' (register/mapping.py:27); "),
    ("update_of(e.body.decode())\n        action", "int(e.body)\n        action", "refinement:ValueError",
     "b'0.0' (register/mapping.py:27)\n"),
    ("Match(e.client, (action,)", 'Match("Client#0", (action,)', "harness:WrongMatch",
     "the model has no client Client#0, only Writer#0, Writer#1, Writer#2"),
    ("def _told_of", "def _tells_of", "harness:NotImplementedError",
     ": the mapping has no method _told_of (register.mapping); "),
])
def test_a_mistake_of_a_mapping_is_named_with_its_place(tmp_path, old, new, signature, said):
    code, out, _ = highwater("dst", "run", "--seed", 0, "--project", edited(tmp_path, ("mapping.py", old, new)))
    assert code == (HARNESS if signature.startswith("harness:") else REFINEMENT), out
    assert f"({signature})" in out and said in out, out


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
     "roles names 'writes' (did you mean 'writers'?), which is no field of Shape: page_size, "),
    ("most=MOST", 'most={"writer": 3}', "most names 'writer' (did you mean 'writers'?), which is no field of Shape"),
    ('work={"Writer": writer}', 'work={"Writr": writer}', "work is of Writr, and roles of Writer: name the same roles"),
    ("length=lambda shape: 3 * shape.writers * shape.updates", "length=7", "length is 7: write a function"),
    ("shape=Shape,", "shape=Shape(),", "shape is Shape("),
    ("    return Shape.drawn(", "    Shape.drawn(", "draw_shape returns None, and not a Shape: is a `return` missing?"),
    ("updates=(1, 2, 3)", 'updates=("1", 2)', "draw_shape draws '1' for updates, whose default is 2"),
    ("audit=(),", 'audit=(("Reader#0",),),', "audit has ('Reader#0',): write tuples of clients of Writer, such as"),
    ("audit=(),", 'audit=("Writer#0",),', "audit has 'Writer#0': write tuples of clients of Writer, such as"),
    ("audit=(),", 'audit=(), optional=("Readers",),', "optional names 'Readers', which is none of the roles Writer"),
    ('told=("committed", "failed", "unknown")', 'told=("committed")', "told is 'committed': write a tuple of the words"),
    ("audit=(),", 'audit=(), needs=("creates",),', "needs names 'creates' (did you mean 'create'?), which is none of "
     "create, update, cache, list"),
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
    ('("a lost response is a success", client(Hopeful))', "client(Hopeful)", "'hopeful' is <function client"),
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
