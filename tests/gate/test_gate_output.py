"""`highwater verify` prints few lines where nothing fails, and each failure in full, at once and at the end."""

import re
from io import StringIO
from itertools import accumulate, takewhile

import pytest
from rich.console import Console
from typer.testing import CliRunner

from highwater import pages
from highwater.cli import verify, verify_output
from highwater.cli.main import app
from highwater.gate.checks import OPTIONAL, absent_parts
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, SPEC
from highwater.gate.gate import Asked, Gate
from highwater.gate.kept import Verdicts
from highwater.gate.rows import Check, Found
from tests.support.projects import REGISTER, half, highwater, used

AT_THE_END = 3  # lines: kept verdicts, rows that run again, and the last line


def holds() -> Found:
    return Found("1")


def differs() -> Found:
    return Found("", SPEC, "they differ\nin two lines")


def check(protocol: str, run=holds, **more) -> Check:
    return Check(protocol, "part", f"{run.__name__} {more}", run, **more)


@pytest.fixture
def gate(monkeypatch, tmp_path):
    """Run the gate on these checks, in this process. Return the exit code and the lines that it prints."""
    def run(checks: list[Check], *words: str) -> tuple[int, list[str]]:
        monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
        monkeypatch.setattr(verify, "checks_of", lambda protocol, *_: checks)
        words = ("verify", "--protocol", "baseline", "--json", str(tmp_path / "rows.json"), *words)
        result = CliRunner().invoke(app, words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout.splitlines()

    return run


def test_output_has_a_line_for_each_protocol(gate, tmp_path):
    code, lines = gate([check("p"), check("q"), Check("q", "part", "other", holds)])
    assert code == 0 and len(lines) == 3
    assert [re.sub(r"\d+ s", "N s", line) for line in sorted(lines[:2])] == ["p: 1 check, N s: ok", "q: 2 checks, N s: ok"]
    counts = r"3 ok \(0 kept\), 0 failed, 0 skipped in \d+ s"
    assert re.fullmatch(counts + r": exit 0; every row: \S+/rows.md, \S+/rows.json", lines[2])
    table = (tmp_path / "rows.md").read_text()
    assert table.count("\n| p | part |") == 1 and table.count("\n| q | part |") == 2


def test_output_of_kept_verdicts_is_two_lines(gate):
    assert gate([check("p"), check("q")])[0] == 0
    code, lines = gate([check("p"), check("q")])
    assert code == 0 and lines[0] == "2 of 2 verdicts are kept; --anew runs every check" and len(lines) == 2


def test_output_has_each_failure_at_once_and_at_the_end(gate):
    code, lines = gate([check("p", differs), check("q", weight=0)], "--jobs", "1")
    where = "FAILED p, part, differs {} (exit 16): they differ"
    assert code == SPEC and lines[:2] == [where, "in two lines"] and lines[-3:-1] == [where, "in two lines"]
    assert re.fullmatch(r"p: 1 check, \d+ s: 1 FAILED", lines[2]) and lines[-1].split(": exit ")[1].startswith("16;")


def test_output_has_the_reason_of_a_skipped_row(gate):
    skipped = check("p", tools=("no_such_library",))
    code, lines = gate([skipped])
    assert code == INCOMPLETE and re.fullmatch(r"p: 1 check, \d+ s: 1 skipped", lines[0])
    assert lines[1] == f"skipped p, part, {skipped.what} (exit 3): No module named 'no_such_library'"


def test_every_row_is_printed_with_rows(gate):
    code, lines = gate([check("p"), check("q", differs)], "--rows", "--jobs", "1")
    assert code == SPEC
    assert sum(bool(re.match(r"\d/2 (ok     |FAILED ) +\d+\.\d s  [pq]: part: ", line)) for line in lines) == 2
    assert [line for line in lines if "figure" in line and "verdict" in line]


def test_plan_runs_nothing_and_lists_what_is_skipped(gate, tmp_path):
    fine, skipped = check("p", differs), check("p", tools=("no_such_library",))
    assert gate([fine], "--plan") == (0, ["0 of 1 checks would be skipped here"])
    code, lines = gate([fine, skipped], "--plan")
    assert code == INCOMPLETE and not (tmp_path / "rows.json").exists()
    assert lines == [f"p: part: {skipped.what}: No module named 'no_such_library'", "1 of 2 checks would be skipped here"]


def test_plan_leaves_out_kept_verdicts(gate):
    gate([check("p")])
    assert gate([check("p")], "--plan") == (0, ["0 of 1 checks would be skipped here"])


def test_summary_may_be_the_file_of_all_rows(gate, tmp_path):
    gate([check("p")], "--summary", str(tmp_path / "rows.md"))
    assert "| p | part |" in (tmp_path / "rows.md").read_text()


def test_rows_in_markdown_never_replace_the_json(gate, tmp_path):
    code, _ = gate([check("p")], "--json", str(tmp_path / "same.md"))
    assert code == BAD_INPUT and not (tmp_path / "same.md").exists()


def test_json_may_go_to_a_device(gate):
    assert gate([check("p")], "--json", "/dev/null")[0] == 0


# --- progress

def test_progress_lines_fit_where_nothing_fails():
    """The gate takes ten hours, and has every protocol of ours."""
    ends = [*takewhile(lambda seconds: seconds <= 36_000, accumulate(verify_output.pauses()))]
    assert ends[:12] == [60 * minute for minute in range(1, 13)]
    assert len(ends) + len(verify.all_protocols()) + AT_THE_END <= verify_output.MOST_LINES


def test_progress_line_says_what_runs_and_what_is_left(tmp_path):
    checks = [Check("p", "part", letter * 99, holds) for letter in "abcd"]
    gate = Gate(checks, Asked(2, anew=True), Verdicts(tmp_path))
    gate.ended.add(0)
    assert verify_output.line_of_progress(gate, 125) == (
        f"2 min: 3 of 4 checks left; running: p: part: {'b' * 49}.. | p: part: {'c' * 49}..")


def test_progress_is_printed_while_a_check_runs(gate, monkeypatch):
    """The first pause is over at once, and the second one never."""
    monkeypatch.setattr(verify_output, "pauses", lambda: iter([0.0]))
    _, lines = gate([check("p")])
    assert lines[0].startswith("0 min: 1 of 1 checks left; running: p: part: holds")


def test_terminal_shows_a_bar_with_what_runs(monkeypatch, tmp_path):
    shown = Console(force_terminal=True, width=120, file=StringIO())
    monkeypatch.setattr(verify_output, "console", shown)
    gate = Gate([check("p"), check("q")], Asked(1, anew=True), Verdicts(tmp_path))
    with verify_output.progress(gate, False) as ended:
        for row in gate.run():
            ended(row)
    text = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", shown.file.getvalue())
    assert "0 of 2" in text and "p: part: holds" in text and "p: 1 check, " in text and "min:" not in text


# --- what is not checked of a project

@pytest.mark.parametrize("width", [60, 80, 120])
def test_bar_fits_in_a_terminal(monkeypatch, tmp_path, width):
    """The count and the time are never cut off: the names of the checks are."""
    shown = Console(force_terminal=True, width=width, file=StringIO())
    monkeypatch.setattr(verify_output, "console", shown)
    checks = [Check("a_protocol", "part", f"{n} " * 50, holds) for n in range(3)]
    with verify_output.progress(Gate(checks, Asked(2), Verdicts(tmp_path)), False):
        pass
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", shown.file.getvalue()).replace("\r", "\n")
    assert "0 of 3" in lines and "0:00:00" in lines and "a_protocol" in lines, lines
    assert max(map(len, lines.split("\n"))) <= width


def test_project_lacks_are_printed_with_their_page(monkeypatch, tmp_path):
    folder = half(tmp_path, "model.py", "spec.toml")
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    code, stdout, _ = highwater("verify", "--json", tmp_path / "rows.json", "--jobs", "1", "--project", folder)
    assert code == INCOMPLETE  # of the parts that it must have
    lacks = dict(re.findall(r"no (\S+) \(register\), so no check .*: (`.*`)", stdout))
    assert lacks == {part if "." in part else f"{part}.py": pages.named(where) for part, (_, where) in OPTIONAL.items()}
    assert {where for _, where in OPTIONAL.values()} <= pages.topics().keys()


def test_project_with_a_part_does_not_lack_it():
    with used(REGISTER):
        lines = [*absent_parts(["register", "baseline"])]
    assert len(lines) == len(OPTIONAL) - 1 and not any("spec.fizz" in line or "baseline" in line for line in lines)
