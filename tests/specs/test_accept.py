"""`model conform --accept` writes what a row's instance has, and nothing that is not equal on both sides."""

import re
import shutil
import tomllib

import pytest

from highwater import project
from highwater.conformance.accept import with_row
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, SAFETY
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzMissing
from highwater.specs.runs import Row
from tests.support.projects import REGISTER, forget, half, highwater, made

TABLE = REGISTER / "register/spec.toml"
WRONG = """# A comment.

[[silent]]  # and another
actions = ["ApplyPending"]
where = { MAX_PENDING = 0 }

[[run]]
id = "a"  # why
how = "graph"
states = 1_000  # wrong
never = [
  "X",  # no
  "Y",
]
expect = "PASSED"

# --- the other
[[run]]
id = "b"
how = "graph"
expect = "PASSED"
"""


@pytest.fixture(autouse=True)
def alone():
    yield
    forget()


@pytest.fixture(scope="module")
def fizz() -> Fizz:
    try:
        return Fizz.find()
    except FizzMissing as error:
        pytest.skip(str(error))


def row(name: str, states: int, never: tuple[str, ...] = (), silent: tuple[str, ...] = ()) -> Row:
    return Row(name, "x", "graph", "PASSED", states, never=never, silent=silent)


# --- the text

def test_a_field_is_replaced_in_its_line_and_its_comment_stays():
    on_a_line = WRONG.replace('[\n  "X",  # no\n  "Y",\n]', '["X", "Y"]')
    assert with_row(WRONG, row("a", 7, ("X", "Y"))) == on_a_line.replace("1_000", "7")


def test_a_field_that_is_empty_now_is_taken_out():
    assert with_row(WRONG, row("a", 1000)) == WRONG.replace('never = [\n  "X",  # no\n  "Y",\n]\n', "").replace("1_000", "1000")


def test_a_new_field_stands_at_the_end_of_its_row():
    first, last = with_row(WRONG, row("b", 3, (), ("Crash", "Writer.Crash"))), with_row(WRONG, row("a", 1000, (), ("Crash",)))
    assert first == WRONG + 'states = 3\nsilent = ["Crash", "Writer.Crash"]\n'
    assert last == WRONG.replace('never = [\n  "X",  # no\n  "Y",\n]\n', "").replace("1_000", "1000").replace(
        'expect = "PASSED"\n\n#', 'expect = "PASSED"\nsilent = ["Crash"]\n\n#')


def test_a_file_without_a_last_line_end():
    assert with_row(WRONG.rstrip("\n"), row("b", 3)) == WRONG + "states = 3\n"


def test_an_unknown_row_is_refused():
    with pytest.raises(ValueError, match="no .* the id c"):
        with_row(WRONG, row("c", 3))


# --- the command, without FizzBee

def alone_with(tmp_path, table: str):
    return made(half(tmp_path, "model.py"), {"register/spec.toml": table})


def test_a_new_table_is_written_whole(tmp_path):
    folder = half(tmp_path, "model.py")
    code, out, _ = highwater("model", "conform", "--project", folder)
    assert code == INCOMPLETE and "nothing is compared; --accept writes one" in out
    code, out, _ = highwater("model", "conform", "--accept", "--project", folder)
    assert code == 0 and "register: no .fizz: the model is not held against FizzBee" in out
    assert "5 states; never fires: ApplyPending, Writer.Crash" in out
    run, = tomllib.loads((folder / "register/spec.toml").read_text())["run"]
    assert run == {"id": "register_plain", "how": "graph", "expect": "PASSED", "states": 5,
                   "silent": ["ApplyPending", "Writer.Crash", "Writer.LoseReply", "Writer.SendCreate"]}
    code, out, _ = highwater("model", "conform", "--project", folder)
    assert code == 0 and "by the model alone" in out


def test_the_rows_of_the_fixture_come_back_as_they_were(tmp_path):
    table = TABLE.read_text()
    passing, failing = table.split("[[run]]\n")[:-1], table.split("[[run]]\n")[-1]
    stripped = [line for line in "[[run]]\n".join(passing).splitlines(keepends=True)
                if not line.startswith(("states", "silent ="))]
    folder = alone_with(tmp_path, "[[run]]\n".join(["".join(stripped), failing]))
    code, out, _ = highwater("model", "conform", "--project", folder)
    assert code and "the row has no number yet: `--accept` writes it" in out
    assert highwater("model", "conform", "--accept", "--project", folder)[0] == 0
    assert (folder / "register/spec.toml").read_text() == table
    assert "every row is as it should be" in highwater("model", "conform", "--accept", "--project", folder)[1]


def test_accept_leaves_a_failing_row_uncounted(tmp_path):
    head, failing = TABLE.read_text().rsplit("[[run]]\n", 1)
    bare = "".join(line for line in failing.splitlines(keepends=True) if not line.startswith(("states", "silent =")))
    folder = alone_with(tmp_path, f"{head}[[run]]\n{bare}")
    assert highwater("model", "conform", "--project", folder)[0] == 0
    code, out, _ = highwater("model", "conform", "--accept", "--project", folder)
    assert code == 0 and "every row is as it should be" in out
    assert (folder / "register/spec.toml").read_text() == f"{head}[[run]]\n{bare}"


def test_conform_warns_of_a_large_failing_row(tmp_path, monkeypatch):
    monkeypatch.setattr("highwater.cli.model.conform.LARGE", 3)
    folder = alone_with(tmp_path, TABLE.read_text())
    code, out, err = highwater("model", "conform", "--project", folder)
    assert code == 0 and "ok" in out
    assert err.count("warning: ") == 1 and "counts its whole graph, more than 3 states: without `states` in the row" in err


def test_a_row_of_an_older_model_says_how_to_write_its_number(tmp_path):
    folder = alone_with(tmp_path, TABLE.read_text().replace("states = 5", "states = 2"))
    code, out, _ = highwater("model", "conform", "--project", folder)
    assert code and "FAIL register_plain             the number of states differs: " in out
    assert "spec.toml expects 2, the model has 5 states. If the model is right, " in out
    mend = re.findall(r"highwater (model conform .*)", out)
    assert mend == [f"model conform register_plain --accept --project {folder}"]
    assert highwater(*mend[0].split())[0] == 0 and (folder / "register/spec.toml").read_text() == TABLE.read_text()


def test_a_verdict_is_never_accepted(tmp_path):
    table = TABLE.read_text().replace('violates = "AckedIsStored"', 'violates = "OneIsAcked"')
    table = table.replace("states = 5", "states = 4")
    folder = alone_with(tmp_path, table)
    code, out, _ = highwater("model", "conform", "--accept", "--project", folder)
    assert code == SAFETY and "nothing is accepted" in out and "AckedIsStored fails after 3 steps" in out
    assert (folder / "register/spec.toml").read_text() == table
    assert highwater("model", "conform", "register_plain", "--accept", "--project", folder)[0] == 0  # the row alone
    assert (folder / "register/spec.toml").read_text() == table.replace("states = 4", "states = 5")


def test_an_unknown_row_leaves_no_new_table(tmp_path):
    folder = half(tmp_path, "model.py")
    code, _, err = highwater("model", "conform", "no_such", "--accept", "--project", folder)
    assert code == BAD_INPUT and "there is no run 'no_such'" in err
    assert not (folder / "register/spec.toml").exists()


def test_a_model_that_fails_leaves_no_new_table(tmp_path):
    folder = half(tmp_path, "model.py")
    model = folder / "register/model.py"
    model.write_text(model.read_text().replace("ONLY_IF_ABSENT: bool = True", "ONLY_IF_ABSENT: bool = False"))
    assert highwater("model", "conform", "--accept", "--project", folder)[0] == SAFETY
    assert not (folder / "register/spec.toml").exists()


@pytest.mark.parametrize("table, said", [
    ('[[run]]\nid = "x"\nhow = "graph"\nexpect = "MAYBE"\n', "spec.toml: run 1 (x): how is 'graph', "),
    ("[[run]\n", "Expected"), ("a = 1\n", "spec.toml: there is no [[run]]")])
def test_a_table_that_is_not_well_formed(tmp_path, table, said):
    code, _, err = highwater("model", "conform", "--project", alone_with(tmp_path, table))
    assert code == BAD_INPUT and said in err and err.count("\n") == 1


# --- with FizzBee

def test_spec_and_model_of_the_project_are_equal(fizz):
    code, out, _ = highwater("model", "conform", "--project", REGISTER)
    assert code == 0 and "5 states, 8 edges equal" in out and "no .fizz" not in out


def test_where_spec_and_model_differ_nothing_is_accepted(fizz, tmp_path):
    folder = tmp_path / "register"
    shutil.copytree(REGISTER, folder)
    spec, table = folder / "register/spec.fizz", folder / "register/spec.toml"
    spec.write_text(spec.read_text().replace("self.k = self.k + 1", "self.k = self.k + 2"))
    table.write_text(table.read_text().replace("states = 5", "states = 6"))
    code, out, _ = highwater("model", "conform", "--accept", "--project", folder)
    assert code and "graphs differ" in out and "nothing is accepted" in out and "states = 6" in table.read_text()


def test_ours_are_accepted_by_the_same_command(fizz):
    """A row of ours has what its instance has: nothing is written."""
    path = project.spec("Baseline", ".toml")
    before = path.read_bytes()
    assert "nothing is written" in highwater("model", "conform", "baseline_fault_crash", "--accept")[1]
    assert path.read_bytes() == before
