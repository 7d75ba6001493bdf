"""`highwater client test` on a campaign in a bucket: all single faults convict its driver and workers of nothing, and the log
of its requests is that of a sequence of files."""

import shlex
import sys

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.clients.faults import FAULTS, HOLD
from highwater.servers import s3
from tests.clients.test_client import tried

pytestmark = [pytest.mark.interop,
              pytest.mark.skipif(not s3.found("versitygw"), reason="versitygw is not built: make servers")]
JOURNAL = 'keys = "campaign/{id:020d}.campaign"\nprotocol = "sequenced_files"\nupdates = \'"token": "([^"]+)"\''
PROGRAM = f"{shlex.quote(sys.executable)} -m tests.clients.campaigning"


@pytest.fixture
def maps(tmp_path, monkeypatch):
    """Name the keys of the journal. The copies of this test are its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "maps.toml"
    file.write_text(f"[[map]]\n{JOURNAL}\n")
    return file


def judged(folder, maps, bug="", *options):
    return tried(folder / "out", f"{PROGRAM} run {{url}} {bug}", "--map", str(maps), "--check", f"{PROGRAM} check {{url}}",
                 "--reopen", f"{PROGRAM} run {{url}}", *options)


def test_a_campaign_is_convicted_of_nothing(tmp_path, maps):
    """Each fault at each mutation: four parts, and an entry of the journal for the driver, each wave and the summary."""
    code, text, found = judged(tmp_path, maps)
    assert code == 0 and not any(result.failed for result in found), text
    assert {one.fault for result in found for one in result.placed} == {*FAULTS} - {HOLD}
    assert {result.verdict for result in found} <= {"fine", "killed", "error"} and len(found) > 60


def test_a_driver_that_commits_again_what_it_had_no_reply_for_is_found(tmp_path, maps):
    code, text, _ = judged(tmp_path, maps, "unrecognised", "--fault", "applied late")
    assert code == 10 and "property broken" in text, text


def test_the_log_of_a_campaign_is_one_of_the_protocol(tmp_path, maps):
    """Recorded, and judged. A log in which an entry has another number is refused."""
    log = tmp_path / "log.ndjson"
    command = [*shlex.split(PROGRAM), "run", "{url}"]
    recorded = CliRunner().invoke(app, ["trace", "record", "--out", str(log), "--", *command])
    assert recorded.exit_code == 0, recorded.output
    good = CliRunner().invoke(app, ["trace", "check", str(log), "--map", str(maps)])
    assert good.exit_code == 0 and "refine the models; actions: 4 CreateNext\n" in good.output, good.output
    log.write_text(log.read_text().replace(f"{3:020d}.campaign", f"{5:020d}.campaign"))
    bad = CliRunner().invoke(app, ["trace", "check", str(log), "--map", str(maps)])
    assert bad.exit_code in (10, 11), bad.output
