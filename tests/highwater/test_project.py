"""A protocol in a folder of the user's own: every verb takes it, and one that cannot be used is refused in one line."""

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from highwater import project
from highwater.dst.spark import shipping
from highwater.dst.version import code_version
from highwater.gate import checks, specs
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, NONDETERMINISM, REFINEMENT, SAFETY
from highwater.gate.extras import install_extra
from highwater.gate.rows import timed
from highwater.gate.sizes import GATE
from tests.support.projects import REGISTER, TOML, forget, half, highwater, made, used, with_data

ROOT = Path(__file__).resolve().parents[2]
INIT = {"highwater.toml": TOML, "register/__init__.py": ""}


@pytest.fixture(autouse=True)
def alone():
    yield
    forget()


# --- every verb takes it

@pytest.mark.parametrize("words, said", [
    (["model", "explore"], "5 states, 8 transitions"),
    (["model", "walk", "--walks", 3], "3 walks"),
    (["model", "explore", "register", "--set", "MAX_LOST=1"], "never fired"),
    (["dst", "run", "--seeds", "0:20"], "20 seeds, 0 failed"),
    (["dst", "run", "--seed", 3, "--protocol", "register"], "every response was true"),
    (["dst", "replay", 3], "every response was true"),
    (["dst", "timeline", 3, "-o", "OUT/page.html"], "page.html"),
    (["dst", "exhaust"], "all runs of the scope"),
    (["dst", "lint"], "ok"),
    (["dst", "zoo", "--campaigns", 2, "--jobs", 1], "hopeful"),
    (["cost", "--runs", 2], "2 writers"),
])
def test_a_verb_takes_a_project(words, said, tmp_path):
    words = [str(word).replace("OUT", str(tmp_path)) for word in words]
    code, out, _ = highwater(*words, "--project", REGISTER)
    assert (code, said in out) == (0, True), out


def test_the_option_may_stand_anywhere():
    for words in (["--project", REGISTER, "model", "explore"], ["model", "--project", REGISTER, "explore"],
                  ["model", "explore", "--project", REGISTER, "--project", f"{REGISTER}/"]):
        assert highwater(*words)[0] == 0


def test_every_verb_has_the_option():
    from typer.main import get_command

    from highwater.cli.main import app

    todo = [get_command(app)]
    for command in todo:
        assert [param.opts for param in command.params].count(["--project"]) == 1, command.name
        todo += getattr(command, "commands", {}).values()
    assert len(todo) > 30


def test_a_failing_run_names_the_project_in_its_replay_line():
    code, out, _ = highwater("dst", "run", "--seed", 0, "--mutant", "blind", "--project", REGISTER)
    replay = re.findall(r"^Replay: highwater (.*)", out, re.M)
    assert code == REFINEMENT and replay == [f"dst run --project {REGISTER} --protocol register --seed 0 --mutant blind"]
    said = f"project {REGISTER}, protocol register, scenario register\n"
    assert highwater(*replay[0].split()) == (code, out, said)


def test_a_kept_run_and_its_trace(tmp_path):
    code, out, _ = highwater("dst", "run", "--seed", 7, "--mutant", "hopeful", "--out", tmp_path / "run", "--project", REGISTER)
    check = re.findall(r"the trace: highwater (.*)", out)[0].split()
    assert code == SAFETY and check[-2:] == ["--project", str(REGISTER)]
    code, out, _ = highwater(*check)
    assert code == SAFETY and "told:committed" in out
    assert highwater("dst", "replay", tmp_path / "run", "--project", REGISTER)[0] == SAFETY


def test_another_protocol_is_none_of_the_project():
    for words in (["dst", "run", "--seed", 1, "--protocol", "nope"], ["verify", "--protocol", "nope"],
                  ["model", "explore", "nope"], ["cost", "--protocol", "nope"]):
        code, _, err = highwater(*words, "--project", REGISTER)
        assert code == BAD_INPUT and "nope" in err and "register" in err
    assert "register" not in highwater("dst", "run", "--seed", 1, "--protocol", "nope")[2]


def test_a_project_of_two_protocols_has_no_default(tmp_path):
    for name in ("one", "two"):
        made(tmp_path, {f"{name}/{path.name}": path.read_text().replace("from register", f"from {name}")
                        for path in (REGISTER / "register").glob("*.py")})
    made(tmp_path, {"highwater.toml": '[protocols]\none = "one"\ntwo = "two"\n'})
    for words in (["model", "explore"], ["dst", "run", "--seed", 1]):
        code, _, err = highwater(*words, "--project", tmp_path)
        assert code == BAD_INPUT and "several protocols: choose one of one, two" in err
    assert highwater("model", "explore", "two", "--project", tmp_path)[0] == 0
    code, _, err = highwater("dst", "run", "--protocol", "two", "--seed", 1, "--project", tmp_path)
    assert code == BAD_INPUT and "SCENARIO.stem is 'register', and should be 'two'" in err


def test_children_see_the_same_project(tmp_path):
    """A process with an environment of its own, and the workers of a campaign."""
    words = ["dst", "doctor", "--seeds", "0:1"], ["campaign", "run", "--engine", "local", "--jobs", 1, "--seeds", "0:5",
                                                  "--out", tmp_path / "campaign"]
    for each in words:
        code, out, err = highwater(*each, "--project", REGISTER)
        assert code in (0, INCOMPLETE) and "FAIL" not in out, (out, err)
    assert '"project": "register"' in (tmp_path / "campaign/campaign.json").read_text()


def test_installed_package_brings_its_protocols(monkeypatch):
    monkeypatch.setattr(project, "entry_points", lambda group: [EntryPoint("register", "register", group)])
    monkeypatch.syspath_prepend(REGISTER)
    assert {"register", "baseline"} <= set(project.stems("scenario"))
    code, out, _ = highwater("dst", "run", "--seed", 3, "--protocol", "register")
    assert code == 0 and "every response was true" in out
    assert highwater("model", "explore", "register")[0] == 0
    assert highwater("model", "explore", "--project", REGISTER)[0] == 0


def test_a_run_is_written_for_fizzbee(tmp_path):
    words = ["dst", "export", 3, "--fizz", "--out", tmp_path / "trace"]
    code, out, _ = highwater(*words, "--project", REGISTER)
    assert code == 0 and f"fizzbee guided {REGISTER / 'register/spec.fizz'} --trace" in out
    folder = half(tmp_path, "model.py", "impl.py", "mapping.py", "scenario.py", "spec.toml")
    code, out, _ = highwater(*words, "--project", folder)
    assert code == INCOMPLETE and "there is no spec of register" in out


def test_export_names_a_spec_that_exists_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = highwater("dst", "export", 0, "--fizz", "--protocol", "baseline", "--out", "trace")
    spec = re.search(r"fizzbee guided (\S+) --trace", out)
    assert code == 0 and spec and Path(spec[1]).is_file(), out


# --- what cannot be used is refused in one line

@pytest.mark.parametrize("files, said", [
    ({}, "is no project: it has no highwater.toml"),
    ({"highwater.toml": "[protocols\n"}, "highwater.toml: Expected ']'"),
    ({"highwater.toml": ""}, "names no protocol: write [protocols]"),
    ({"highwater.toml": "protocols = 3"}, "names no protocol"),
    ({"highwater.toml": "[protocols]\nregister = 3"}, "register = 3: write the name of a Python package"),
    ({"highwater.toml": '[protocols]\nregister = "a b"'}, "write the name of a Python package"),
    ({"highwater.toml": '[protocols]\nRegister = "register"'}, "'Register' is no name of a protocol"),
    ({"highwater.toml": TOML}, "there is no register/__init__.py"),
    ({"highwater.toml": '[protocols]\nbaseline = "mine"', "mine/__init__.py": ""}, "highwater has a protocol named 'baseline'"),
    ({"highwater.toml": '[protocols]\nengines = "mine"', "mine/__init__.py": ""}, "highwater has a protocol named 'engines'"),
    ({"highwater.toml": '[protocols]\nmine = "json"', "json/__init__.py": ""}, "'json' has the name of a module of Python"),
    ({"highwater.toml": '[protocols]\nmine = "out"', "out/__init__.py": ""}, "'out' is the name of a folder without code"),
    ({"highwater.toml": '[protocols]\nmine = "typer"', "typer/__init__.py": ""}, "'typer' has the name of another one, "),
])
def test_a_folder_that_is_no_project(tmp_path, files, said):
    code, out, err = highwater("model", "explore", "--project", made(tmp_path, files))
    assert (code, out, err.count("\n")) == (BAD_INPUT, "", 1) and said in err and str(tmp_path) in err


def test_a_folder_that_is_not_there(tmp_path):
    code, _, err = highwater("dst", "run", "--seed", 1, "--project", tmp_path / "none")
    assert code == BAD_INPUT and err == f"error: {tmp_path / 'none'} is no folder: give a folder with highwater.toml; " \
        "`highwater new` makes one\n"


def test_an_empty_option_is_not_the_working_folder(monkeypatch):
    monkeypatch.chdir(REGISTER)
    for words in (["--project", ""], ["--project="]):
        code, _, err = highwater("model", "explore", *words)
        assert code == BAD_INPUT and err == "error: --project is empty: give a folder with highwater.toml; `.` is the " \
            "working folder\n"


def test_a_folder_of_the_variable_that_is_not_there_is_named_with_the_variable(tmp_path):
    done = subprocess.run([sys.executable, "-m", "highwater", "model", "explore"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT), project.VARIABLE: f"{tmp_path}/none"})
    assert done.returncode == BAD_INPUT and done.stderr == f"error: HIGHWATER_PROJECT={tmp_path}/none: {tmp_path}/none is no " \
        "folder: give a folder with highwater.toml; `highwater new` makes one\n"


def test_two_projects_at_once(tmp_path, monkeypatch):
    other = half(tmp_path, "model.py")
    code, _, err = highwater("model", "explore", "--project", REGISTER, "--project", other)
    assert code == BAD_INPUT and err.startswith(f"error: two projects at once: {other}, and {REGISTER}")
    forget()
    monkeypatch.setenv(project.VARIABLE, str(REGISTER))
    with pytest.raises(project.ProjectError, match="two projects at once: .*, and HIGHWATER_PROJECT="):
        project.use(str(other))
    monkeypatch.delenv(project.VARIABLE)


def test_names_that_clash_with_an_installed_package(monkeypatch):
    monkeypatch.setattr(project, "entry_points", lambda group: [EntryPoint("register", "theirs", group)])
    code, _, err = highwater("model", "explore", "--project", REGISTER)
    assert code == BAD_INPUT and "the installed package 'theirs' has a protocol 'register' too" in err
    monkeypatch.setattr(project, "entry_points", lambda group: [EntryPoint("baseline", "theirs", group)])
    code, _, err = highwater("verify", "--protocol", "theirs")
    assert code == BAD_INPUT and "the installed package theirs: highwater has a protocol named 'baseline'" in err


def test_a_folder_that_is_no_package_takes_no_name(tmp_path, monkeypatch):
    (tmp_path / "register").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    code, _, err = highwater("model", "explore", "--project", REGISTER)
    assert (code, err) == (0, f"project {REGISTER}, protocol register\n")


@pytest.mark.parametrize("parts, words, missing", [
    (["impl.py"], ["model", "explore"], "model.py"),
    (["model.py"], ["dst", "run", "--seed", 1], "scenario.py"),
    (["model.py"], ["trace", "check", "FILE"], "scenario.py"),
    (["model.py", "impl.py", "mapping.py", "scenario.py"], ["dst", "run", "--seed", 1, "--mutant", "blind"], "mutants.py"),
    (["model.py", "impl.py", "mapping.py", "scenario.py"], ["dst", "zoo"], "mutants.py"),
    (["model.py"], ["model", "prove"], "proof.py"),
])
def test_half_a_protocol(tmp_path, parts, words, missing):
    (tmp_path / "trace.ndjson").write_text('{"client":"Writer#0","kind":"told","op":"failed","body":"0.0"}\n')
    words = [str(word).replace("FILE", str(tmp_path / "trace.ndjson")) for word in words]
    code, _, err = highwater(*words, "--project", half(tmp_path, *parts))
    assert (code, err.count("\n")) == (BAD_INPUT, 1) and f"{tmp_path}/register/{missing}" in err, err


def test_half_a_protocol_can_be_explored_and_simulated(tmp_path):
    assert highwater("model", "explore", "--project", half(tmp_path / "a", "model.py"))[0] == 0
    simulated = half(tmp_path / "b", "model.py", "impl.py", "mapping.py", "scenario.py")
    assert highwater("dst", "run", "--seeds", "0:5", "--project", simulated)[0] == 0


@pytest.mark.parametrize("name, source, words, said", [
    ("model.py", "x = 1\n1 / 0\n", ["model", "explore"], "ZeroDivisionError: division by zero (DIR/register/model.py:2)"),
    ("model.py", "def (:\n", ["model", "explore"], "SyntaxError: invalid syntax (DIR/register/model.py:1)"),
    ("model.py", "import nunpy\n", ["model", "explore"], "No module named 'nunpy' (DIR/register/model.py:1)"),
    ("model.py", "raise SystemExit(3)\n", ["model", "explore"], "SystemExit: 3 (DIR/register/model.py:1)"),
    ("model.py", "class Constants: pass\n", ["model", "explore"], "DIR/register/model.py defines no model"),
    ("scenario.py", "from register.mapping import Trace\n", ["dst", "run", "--seed", 1], "No module named 'register.mapping'"),
    ("scenario.py", "x = 1\n", ["dst", "run", "--seed", 1], "DIR/register/scenario.py defines no SCENARIO"),
    ("scenario.py", "SCENARIO = 3\n", ["dst", "run", "--seed", 1], "SCENARIO is no highwater.Scenario"),
    ("mutants.py", "x = 1\n", ["dst", "zoo"], "DIR/register/mutants.py defines no MUTANTS"),
    ("mutants.py", "MUTANTS = {}\n", ["dst", "zoo"], "MUTANTS is no highwater.Mutants"),
])
def test_a_module_that_fails(tmp_path, name, source, words, said):
    parts = ["model.py"] if name != "mutants.py" else ["model.py", "impl.py", "mapping.py", "scenario.py"]
    folder = made(half(tmp_path, *parts), {f"register/{name}": source})
    code, _, err = highwater(*words, "--project", folder)
    assert (code, err.count("\n")) == (BAD_INPUT, 1) and said.replace("DIR", str(tmp_path)) in err, err


def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch):
    folder = made(half(tmp_path, "model.py"), {"register/proof.py": "import z3\n"})
    monkeypatch.setitem(sys.modules, "z3", None)
    code, _, err = highwater("model", "prove", "--project", folder)
    assert code == INCOMPLETE and install_extra("proofs") in err, err


# --- the gate, with half a protocol

def test_the_gate_of_half_a_protocol_is_incomplete(tmp_path):
    with used(half(tmp_path, "model.py")):
        rows = [timed(check) for check in checks.of_protocol("register", GATE, has_scenario=False)]
    assert {(row.part, row.code) for row in rows} == {("spec", INCOMPLETE), ("scenario", INCOMPLETE), ("mutants", INCOMPLETE)}


def test_the_gate_of_an_empty_package_is_incomplete(tmp_path):
    code, out, _ = highwater("verify", "--json", tmp_path / "out.json", "--project", made(tmp_path, INIT))
    assert code == INCOMPLETE and "there is no model.py" in out and "3 skipped" in out, out


def test_the_gate_without_a_spec_may_pass_and_says_so(tmp_path):
    folder = half(tmp_path, "model.py", "spec.toml")
    with used(folder):
        rows = [timed(check) for check in specs.checks("register", deep=False)]
    assert [row.code for row in rows] == [0, 0, 0]
    assert "no .fizz" in rows[-1].what and rows[-1].figure == "not held against FizzBee"


# --- the code of a run

def test_code_version_is_of_the_project_too(tmp_path):
    ours, folder = code_version(), tmp_path / "register"
    shutil.copytree(REGISTER, folder)
    with used(folder):
        first = code_version()
        made(folder, {"tests/test_it.py": "", ".venv/x.py": "", "env/pyvenv.cfg": "", "env/y.py": "", "out/z.py": ""})
        assert first == code_version() != ours
        (folder / "register/impl.py").write_text((folder / "register/impl.py").read_text() + "\n")
        assert code_version() != first
    with used(REGISTER):
        assert code_version() == first  # wherever it is
    assert code_version() == ours


def version_of(folder: Path) -> str:
    with used(folder):
        return code_version()


def test_code_version_covers_data_files(tmp_path):
    folder = with_data(tmp_path)
    first = version_of(folder)
    made(folder, dict.fromkeys(("out/a.json", "register/build/b.json", "tests/c.json", ".d.json", ".e/f.json", "dist/g"), "1"))
    (folder / "register" / "nowhere.json").symlink_to("nothing")
    os.mkfifo(folder / "register" / "fifo")
    assert version_of(folder) == first
    made(folder, {"register/table.json": "[2]\n"})
    assert version_of(folder) != first
    made(folder, {"register/table.json": "[1]\n", "data/more.bin": "1"})
    assert version_of(folder) != first


def test_code_version_covers_named_files(tmp_path):
    toml = 'files = ["tests/*.json", "out/data"]\n' + TOML
    folder = made(with_data(tmp_path, toml=toml), {"tests/a.json": "1", "tests/b.txt": "1", "out/data/c/d.bin": "1"})
    first = version_of(folder)
    made(folder, {"tests/b.txt": "2", "out/e": "1", "highwater.toml": f"# a comment\n{toml}"})
    assert version_of(folder) == first
    for name in ("tests/a.json", "out/data/c/d.bin", "out/data/new"):
        before = version_of(folder)
        made(folder, {name: "2"})
        assert version_of(folder) != before


def test_code_version_covers_the_names_of_packages(tmp_path):
    folder = with_data(tmp_path)
    shutil.copytree(folder / "register", folder / "other")
    first = version_of(folder)
    made(folder, {"highwater.toml": TOML.replace('"register"', '"other"')})
    assert version_of(folder) != first


def test_output_of_verbs_is_no_part_of_a_project(tmp_path, monkeypatch):
    """Wherever in the project it is, and without git."""
    folder = with_data(tmp_path)
    monkeypatch.chdir(folder)
    first = version_of(folder)
    run = ["campaign", "run", "--seeds", "0:20", "--engine", "local", "--jobs", 1, "--mutant", "hopeful"]
    assert highwater(*run, "--out", "campaign")[0] == SAFETY
    shutil.copytree("campaign", "register/kept/first")
    assert highwater("campaign", "triage", "register/kept/first", "--budget", 5, "--jobs", 1)[0] == SAFETY
    assert highwater("campaign", "report", "campaign", "register/kept/first", "-o", "all.html")[0] == 0
    assert highwater("dst", "run", "--seed", 3, "--out", "bundle")[0] == 0
    assert highwater("model", "explore", "--out", "register/states")[0] == 0
    assert version_of(folder) == first
    assert highwater("campaign", "resume", "campaign")[0] == SAFETY
    made(folder, {"highwater.toml": 'files = ["register/kept", "campaign/campaign.json"]\n' + TOML})
    code, _, err = highwater("dst", "run", "--seed", 3, "--out", "bundle")
    assert code == BAD_INPUT and "files names 'register/kept', and there is no such file" in err


def test_campaign_with_another_data_file_is_refused(tmp_path):
    folder, out = with_data(tmp_path), tmp_path / "campaign"
    words = ["campaign", "run", "--engine", "local", "--jobs", 1, "--project", folder, "--out", out]
    assert highwater(*words, "--seeds", "0:10")[0] == 0
    made(folder, {"register/table.json": "[2]\n"})
    for again in ([*words, "--seeds", "0:10"], ["campaign", "resume", out]):
        code, _, err = highwater(*again)
        assert code == BAD_INPUT and "holds another campaign (code " in err
    made(folder, {"register/table.json": "[1]\n"})
    assert highwater(*words, "--seeds", "0:10")[0] == 0


def test_project_beyond_the_bound_is_refused(tmp_path):
    folder = with_data(tmp_path)
    with open(folder / "register" / "large.bin", "wb") as out:
        out.truncate((project.MOST_MIB << 20) + 1)
    code, _, err = highwater("campaign", "run", "--seeds", "0:10", "--project", folder, "--out", tmp_path / "campaign")
    assert code == BAD_INPUT and err.count("\n") == 1 and not (tmp_path / "campaign").exists()
    for word in (f"{folder / 'register' / 'large.bin'} is the largest file", "16 MiB", "into a folder `out`"):
        assert word in err
    assert highwater("dst", "lint", "--project", folder)[0] == 0


@pytest.mark.parametrize("line, said", [
    ("files = 3", "files = 3: write a list"), ("files = [3]", "files has 3: name a file"),
    ('files = ["/etc/hosts"]', "files has '/etc/hosts': name a file or a folder below"),
    ('files = ["data/../../x"]', "files has 'data/../../x': name a file"),
    ('files = ["nothing.json"]', "files names 'nothing.json', and there is no such file"),
    (f'{TOML}files = ["table.json"]', "write `files = ..` above [protocols]"),
])
def test_files_that_cannot_be_named_are_refused(line, said, tmp_path):
    folder = with_data(tmp_path, toml=line if "[protocols]" in line else f"{line}\n{TOML}")
    code, _, err = highwater("campaign", "run", "--seeds", "0:1", "--project", folder, "--out", tmp_path / "campaign")
    assert code == BAD_INPUT and said in err and err.count("\n") == 1


# --- what workers get

def sent_from(folder: Path, tmp_path: Path) -> None:
    pickle = pytest.importorskip("pyspark.cloudpickle")
    with used(folder):
        (tmp_path / "sent").write_bytes(pickle.dumps((shipping.shipped(code_version()), code_version())))


def worker(tmp_path: Path, say: str) -> subprocess.Popen:
    """Start a process that has the function which is sent, as a worker of Spark does, and no folder of ours."""
    begin = ("import sys; from pyspark import cloudpickle\n"
             f"sys.path.remove({str(ROOT)!r}) if {str(ROOT)!r} in sys.path else None\n"
             "module, code = cloudpickle.loads(open('sent', 'rb').read())\n")
    return subprocess.Popen([sys.executable, "-c", begin + say], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
                            | {"TMPDIR": str(tmp_path)})


def said_by(started: subprocess.Popen) -> list[str]:
    out, err = started.communicate()
    assert started.returncode == 0, err
    return out.split()


SIMULATES = ("run = module('highwater.dst.run_spec').RunSpec('register').at(3)\n"
             "outcome = module('highwater.dst.simulate').simulate(run)\n")
DIGEST = SIMULATES + ("print(outcome.digest)\n"
                      "print(module('highwater.dst.version').code_version() == code)\n"
                      "print(sys.modules['register.impl'].__file__)")


@pytest.mark.parametrize("table, toml", [("table.json", TOML), ("tests/table.json", 'files = ["register/tests"]\n' + TOML)])
def test_worker_without_the_project_gets_its_files(table, toml, tmp_path):
    folder = with_data(tmp_path, table=table, toml=toml)
    digest_here = highwater("dst", "run", "--seed", 3, "--project", folder)[1]
    sent_from(folder, tmp_path)
    folder.rename(tmp_path / "moved")
    digest, same, file = said_by(worker(tmp_path, DIGEST))
    assert same == "True" and Path(file).is_relative_to(tmp_path / f"highwater-{os.geteuid()}")
    assert digest in digest_here


def test_file_that_a_worker_lacks_is_reported(tmp_path):
    """Its name and what to do are in the seed's row, which does not blame the implementation."""
    folder = with_data(tmp_path)
    made(folder, {"register/tests/late.json": "1"})
    impl = folder / "register/impl.py"
    opens = "        (Path(__file__).parent / 'tests/late.json').read_text()\n"
    impl.write_text(impl.read_text().replace("        try:\n", f"{opens}        try:\n", 1))
    assert highwater("dst", "run", "--seed", 3, "--project", folder)[0] == 0
    sent_from(folder, tmp_path)
    folder.rename(tmp_path / "moved")
    kind, signature, *message = said_by(worker(tmp_path, SIMULATES + "print(outcome.kind, outcome.signature, outcome.message)"))
    assert (kind, signature) == ("harness", "harness:FileNotFoundError")
    assert "tests/late.json" in " ".join(message) and "name it in `files` of highwater.toml" in " ".join(message)


def test_module_that_lacks_a_file_on_a_worker_is_reported(tmp_path):
    folder = with_data(tmp_path, table="tests/table.json")
    sent_from(folder, tmp_path)
    folder.rename(tmp_path / "moved")
    started = worker(tmp_path, SIMULATES)
    line = started.communicate()[1].strip().splitlines()[-1]
    assert "cannot be imported: FileNotFoundError: " in line and "name it in `files` of highwater.toml" in line


def test_sources_are_unpacked_anew_where_they_differ(tmp_path):
    folder = with_data(tmp_path)
    sent_from(folder, tmp_path)
    folder.rename(tmp_path / "moved")
    first = said_by(worker(tmp_path, DIGEST))
    base, = tmp_path.glob("highwater-*")
    place, = base.iterdir()
    assert base.stat().st_mode & 0o777 == 0o700
    core, version, data = (place / name for name in ("highwater/model/core.py", "highwater/dst/version.py", "project/register"))
    for damage in (lambda: (version.unlink(), (data / "more.json").write_text("")),
                   lambda: (core.write_text("cut short"), (data / "table.json").write_text("[2]")),
                   lambda: (shutil.rmtree(place / "highwater/impl"), core.unlink(), core.mkdir()),
                   lambda: (shutil.rmtree(place / "project"), (place / "project").write_text(""))):
        damage()
        assert said_by(worker(tmp_path, DIGEST)) == first
    assert [*base.iterdir()] == [place]


def test_workers_that_unpack_at_once_leave_one_folder(tmp_path):
    folder = with_data(tmp_path)
    sent_from(folder, tmp_path)
    folder.rename(tmp_path / "moved")
    started = [worker(tmp_path, DIGEST) for _ in range(4)]
    assert len({tuple(said_by(each)) for each in started}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"highwater-{os.geteuid()}", "moved", "sent"]
    assert len([*(tmp_path / f"highwater-{os.geteuid()}").iterdir()]) == 1


TWICE = """
import os
if os.path.exists("project"):
    os.environ["HIGHWATER_PROJECT"] = os.path.abspath("project")
for number in (1, 2):
    if os.path.exists("project"):
        open("project/common.py", "w").write("VALUE = " + "10" * number)
    module, code = cloudpickle.loads(open(f"sent{number}", "rb").read())
    module("highwater.dst.run_spec").RunSpec("register").at(3)
    print(module("register.impl").VALUE, module("highwater.dst.version").code_version() == code)
"""


@pytest.mark.parametrize("there", [True, False])
def test_worker_that_is_used_again_runs_edited_code(there, tmp_path):
    """Spark uses a worker for many tasks. A module of the project's folder counts as one of its package."""
    folder = with_data(tmp_path)
    impl = folder / "register/impl.py"
    impl.write_text(impl.read_text().replace("from highwater import", "from common import VALUE\nfrom highwater import", 1))
    for number in (1, 2):
        (folder / "common.py").write_text("VALUE = " + "10" * number)
        sent_from(folder, tmp_path)
        shutil.copy(tmp_path / "sent", tmp_path / f"sent{number}")
    if not there:
        folder.rename(tmp_path / "moved")
    assert said_by(worker(tmp_path, TWICE)) == ["10", "True", "1010", "True"]


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("how", ["a link", "open to others", "another user's"])
def test_folder_of_another_user_is_refused(how, inner, tmp_path):
    sent_from(REGISTER, tmp_path)
    mine = tmp_path / f"highwater-{os.geteuid()}"
    if inner:
        mine.mkdir(0o700)
        mine /= version_of(REGISTER)
    if how == "a link":
        (tmp_path / "elsewhere").mkdir(0o700)
        mine.symlink_to(tmp_path / "elsewhere")
    else:
        mine.mkdir(0o755 if how == "open to others" else 0o700)
        mine.chmod(0o755 if how == "open to others" else 0o700)
    if how == "another user's":
        if os.geteuid():
            pytest.skip("only root gives a folder to another user")
        os.chown(mine, 12345, -1)
    started = worker(tmp_path, DIGEST.replace("register", "baseline"))
    line = started.communicate()[1].strip().splitlines()[-1]
    assert started.returncode == 1 and line.startswith(f"PermissionError: {mine} is ") and "set TMPDIR" in line
    assert [*mine.iterdir()] == []


def test_lint_reads_the_project_and_its_exceptions(tmp_path):
    folder = made(half(tmp_path, "model.py"), {"register/impl.py": "import time\n", "register/proof.py": "import random\n"})
    code, out, _ = highwater("dst", "lint", "--project", folder)
    assert code == NONDETERMINISM and "register/impl.py:1: time: import time" in out and "random" not in out
    allowed = 'file = "register/impl.py"\nhazard = "time"\ncode = "import time"\nwhy = "a test"\n'
    made(folder, {"highwater.toml": f"{TOML}[[allowed]]\n{allowed}"})
    assert highwater("dst", "lint", "--project", folder)[0] == 0
    made(folder, {"highwater.toml": f"{TOML}[[allowed]]\nfile = 3\n"})
    code, _, err = highwater("dst", "lint", "--project", folder)
    assert code == BAD_INPUT and "[[allowed]] has the fields file, hazard, code, why" in err


# --- one module knows where the parts are

def test_our_parts_are_where_it_says():
    for part in project.PARTS:
        assert project.ours(part), part
        for stem in project.ours(part):
            assert project.has(part, stem) and project.file_of(part, stem).is_file()
            name = project.module(part, stem)
            assert (ROOT / name.removeprefix("highwater.").replace(".", "/")).with_suffix(".py").is_file() or \
                (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()


def test_the_page_names_every_part():
    page = (ROOT / "docs/guide/project.md").read_text()
    for name, part in project.PARTS.items():
        assert f"| `{name}.py` | {', '.join(f'`{each}`' for each in part.names) or 'anything'} | {part.verbs} |" in page


def test_proof_page_explains_every_name():
    page = (ROOT / "docs/guide/proof.md").read_text().partition("## What `proof.py` defines")[2].partition("\n## ")[0]
    explained = {name for row in re.findall(r"^\| (.*?) \|", page, re.M) for name in re.findall(r"`(\w+)", row)}
    assert {*project.PARTS["proof"].names} == explained


ROOMS = re.compile(r"(model|traces|damage|conformance|gate|impl)[./]protocols[./]$|dst[./](scenarios|mutants)[./]$|proofs[./]$")


def test_no_other_module_builds_the_name_of_a_part():
    folders = ("specs", "model", "impl", "traces", "dst", "highwater")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.resolve() == path]
    files = [path for path in files if path.name != "project.py" and re.search("(protocols|proofs|scenarios|mutants)[./]{",
                                                                               path.read_text())]
    found = [f"{path}:{node.lineno}" for path in files
             for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.JoinedStr)
             for text in node.values if isinstance(text, ast.Constant) and ROOMS.search(str(text.value))]
    assert not found
