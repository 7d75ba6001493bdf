"""`highwater client test` on the worker of an index: all single faults convict it of nothing; two known bugs are found."""

import sys

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.clients.faults import FAULTS, HOLD
from highwater.servers import s3
from tests.clients.test_client import tried

pytestmark = [pytest.mark.interop,
              pytest.mark.skipif(not s3.found("versitygw"), reason="versitygw is not built: make servers")]


def judged(folder, bug="", *options):
    program = f"{sys.executable} -m tests.index.working"
    where = f"{{url}} {folder}/{{bucket}}"
    return tried(folder / "out", f"{program} work {where} {bug}", "--setup", f"{program} setup {where}", "--check",
                 f"{program} check {where}", "--reopen", f"{program} work {where}", *options)


def test_the_worker_is_convicted_of_nothing(tmp_path):
    """Each fault at each of its mutations: two results are put, and three sources deleted. After a kill it goes on."""
    code, text, found = judged(tmp_path)
    assert code == 0 and not any(result.failed for result in found), text
    assert {one.fault for result in found for one in result.placed} >= {*FAULTS} - {HOLD, "409"}
    assert {result.verdict for result in found} == {"fine", "killed"} and len(found) > 30


@pytest.mark.parametrize("bug,fault,kind", [("trusting", "request lost", "check failed"),
                                            ("hasty", "killed after the reply", "check failed")])
def test_a_bug_of_a_worker_is_found(tmp_path, bug, fault, kind):
    code, text, _ = judged(tmp_path, bug, "--fault", fault)
    assert code == 10 and kind in text, text


def test_a_worker_of_a_bucket_that_is_not_there_says_so(monkeypatch):
    for name, value in s3.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3.s3_server() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        said = CliRunner().invoke(app, ["index", "work", "s3://mistyped/x", "--once", "--at", "127.0.0.1:1"])
    assert said.exit_code == 2 and "there is no such bucket" in said.output
