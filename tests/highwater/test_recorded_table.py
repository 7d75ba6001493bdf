"""The judge of examples/table, recorded.py, on logs that are made by hand: no server is needed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater import project
from highwater.cli.main import app
from highwater.traces.recorded.s3log import Body, Request, to_json
from tests.support.projects import forget

TABLE = project.PACKAGE.parent / "examples/table"
FIRST, OTHER, SECOND = "00000000000000000001-0.0", "00000000000000000001-1.0", "00000000000000000002-1.0"


def content(number: int, *names: str) -> Body:
    data = json.dumps({"number": number, "names": names}).encode()
    return Body(len(data), f"{number} {names}", data)


def log(*requests: tuple[str, str, str, Body | None, str]) -> list[Request]:
    """Return requests one after another: client, op, key below db/, body, version of the answer."""
    made = []
    for number, (client, op, key, body, version) in enumerate(requests):
        at, status = 10 * number + 1, 204 if op == "delete" else 200
        bodies = {"get": {"got_body": body}, "put": {"sent_body": body or Body(1, key, b"x")}}.get(op, {})
        made.append(Request(number, client, op, op.upper(), "bucket", f"db/{key}", called=at, sent=at + 1, answered=at + 2,
                            returned=at + 3, status=status, told=status, version=version, **bodies))
    return made


READS = [(client, "get", "table", content(0), "v0") for client in "AB"]
COMMITS = [("A", "put", f"data/{FIRST}", None, "a"), ("A", "put", "table", content(1, FIRST), "v1")]


def checked(folder: Path, requests: list[Request]) -> tuple[int, str]:
    lines = ['{"kind":"log","v":1}', *map(to_json, requests), f'{{"kind":"end","requests":{len(requests)}}}']
    (folder / "log").write_text("\n".join(lines) + "\n")
    try:
        result = CliRunner().invoke(app, ["trace", "check", str(folder / "log"), "--project", str(TABLE)])
    finally:
        forget()
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def test_good_log_refines_the_table(tmp_path):
    code, text = checked(tmp_path, log(*READS, *COMMITS, ("B", "get", "table", content(1, FIRST), "v1"),
                                       ("B", "put", f"data/{OTHER}", None, "b"), ("B", "delete", f"data/{OTHER}", None, "")))
    assert code == 0 and "1 Commit, 1 Delete, 2 StoreFile" in text, text


@pytest.mark.parametrize("after, exit_code, told", [
    ([("B", "put", f"data/{OTHER}", None, "b"), ("B", "put", "table", content(1, OTHER), "v2")], 11,
     "commit needs not c.CONDITIONAL or s.table == w.base"),  # by the table that was there before A's commit
    ([("A", "put", f"data/{SECOND}", None, "b"), ("A", "get", "table", content(1, FIRST), "v1"),
      ("A", "put", "table", content(2, SECOND), "v2")], 10, "leads elsewhere"),  # A's own file is left out
    ([("B", "get", "table", content(1, FIRST), "v1"), ("B", "delete", f"data/{SECOND}", None, "")], 11,
     "not c.ONLY_REACHED or file[0] <= w.base.number"),
    ([("B", "get", "table", content(1, FIRST), "v1"), ("B", "delete", f"data/{FIRST}", None, "")], 11,
     "file not in w.base.files"),
    ([("A", "delete", f"data/{FIRST}", None, ""), ("A", "get", "table", content(1, FIRST), "v1"),
      ("A", "put", "table", content(1), "v2")], 10, "a table that names no file"),
])
def test_wrong_step_of_the_table_is_refused(tmp_path, after, exit_code, told):
    code, text = checked(tmp_path, log(*READS, *COMMITS, *after))
    assert code == exit_code and told in text, text


def test_commit_of_a_deleted_file_is_refused(tmp_path):
    deleted = [COMMITS[0], ("C", "delete", f"data/{FIRST}", None, ""), COMMITS[1]]
    code, text = checked(tmp_path, log(*READS, *deleted))
    assert code == 10 and "NamedIsThere is broken" in text, text
