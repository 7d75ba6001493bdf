"""`highwater client test` on a client with known bugs, and on its correct twin: each bug is found and named, the twin passes.

In reading order: the twin, the bugs, what the judges say of small logs, bad input, replay, going on, Ctrl-C.
"""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.clients.campaign import CLEAN, Result, fewest, pairs, results, singles
from highwater.clients.faults import FAULTS, HOLD, Placed, faults_of, rules
from highwater.clients.findings import CODES, Evidence, Finding
from highwater.clients.judges import findings
from highwater.clients.trial import Asked, Ended, Place, Seen
from highwater.impl.stores.s3 import connect
from highwater.recorder.rules import Rules
from highwater.servers import s3
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.systems.mapped import Map

COMMITTER = Path(__file__).parents[2] / "examples/committer/committer.py"
ME = f"{sys.executable} {COMMITTER}"
NAMES = r'"add": \["([^"]+)"'

needs_server = pytest.mark.skipif(not s3.found("versitygw"), reason="versitygw is not built: make servers")


def tried(folder: Path, command: str, *options: str) -> tuple[int, str, list[Result]]:
    result = CliRunner().invoke(app, ["client", "test", "--out", str(folder), *options, "--", *shlex.split(command)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split()), list(results(folder))


def checking() -> tuple[str, ...]:
    return "--check", f"{ME} check {{url}}", "--names", NAMES, "--limit", "10"


@needs_server
@pytest.mark.parametrize("beside", [(), ("--fault", HOLD, "--with", f"other={ME} {{url}} other 1")], ids=["alone", "held"])
def test_a_client_that_is_right_passes(tmp_path, beside):
    """Each fault at each of its mutations; each request of two clients held while the other commits."""
    code, text, found = tried(tmp_path / "out", f"{ME} {{url}} one 1", *checking(), *beside)
    assert code == 0 and not any(result.failed for result in found), text
    assert {one.fault for result in found for one in result.placed} == ({HOLD} if beside else {*FAULTS})
    assert {result.verdict for result in found} <= {"fine", "error", "killed"}
    assert sum(result.verdict == "fine" for result in found) > len(found) / 2


LOST, REFUSED = "reply lost", "request lost"
BUGS = {  # bug -> the kind that names it, the fault that shows it
    "double_commit": ("committed twice", LOST),
    "lost_update": ("overwritten", HOLD),
    "blind_overwrite": ("put blindly", HOLD),
    "stale_read": ("overwritten", HOLD),
    "deletes_referenced": ("dangling", LOST),
    "success_on_412": ("success without a commit", HOLD),
    "success_on_timeout": ("success without a commit", REFUSED),
    "error_on_own_commit": ("error though committed", LOST),
    "hangs": ("hung", LOST),
    "told_before": ("told wrongly", REFUSED),
    "commit_before_data": ("check failed", "killed after the reply"),
}


@needs_server
@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found_and_named(tmp_path, bug, monkeypatch):
    kind, fault = BUGS[bug]
    if fault == HOLD:
        monkeypatch.setenv("COMMITTER_TIMEOUT_S", "10")  # a client that is held waits for the other, on a busy machine, too
    rounds = {"stale_read": 2, "commit_before_data": 4}.get(bug, 1)  # one of 15 single rounds shows nothing under load
    other = bug if bug == "lost_update" else ""
    options = ("--with", f"other={ME} {{url}} other 1 {other}") if fault == HOLD else ()
    limit = "3" if bug == "hangs" else "20"
    options = (*checking()[:-1], limit, "--fault", fault, "--runs", f"{7 * rounds}", *options)  # the client has 7 requests
    code, text, found = tried(tmp_path / "out", f"{ME} {{url}} one {rounds} {bug}", *options)
    kinds = {finding.kind for result in found for finding in result.findings}
    assert kind in kinds, (kinds, text)
    worst = min((result.verdict for result in found if result.failed), key=[*CODES].index)
    assert code == CODES[worst]


# --- the judges, on small logs

PLACE = Place("http://localhost", "bucket")


def put(number: int, key: str, body: bytes = b"", client: str = "a", status: int = 200, told: int | None = None,
        version: str = "", **conditions: str) -> Request:
    at = 10 * number
    return Request(number, client, "put", "PUT", "bucket", key, called=at, sent=at + 1, answered=at + 2, returned=at + 3,
                   status=status, version=version or f"v{number}",
                   conditions={name.replace("_", "-"): of for name, of in conditions.items()},
                   told=status if told is None else told, sent_body=Body(len(body), body.hex() or "empty", body))


def get(number: int, key: str, version: str, client: str = "a") -> Request:
    return put(number, key, client=client, version=version)._replace(op="get", method="GET")


def judged(requests: list[Request], clean: list[Request] | None = None, exits: dict[str, int] | None = None,
           output: str = "", **more) -> list[Finding]:
    ended = {name: Ended((exits or {}).get(name, 0), 1.0, output * (name == "a")) for name in ("a", "b")}
    return findings(Evidence(Seen([], requests, ended, [], ()), requests if clean is None else clean, PLACE, **more))


NEW = {"if_none_match": "*"}
LOST = put(1, "log/1", b"x", told=0, **NEW)
DATA = put(0, "data/0123456789.bin", b"d")


@pytest.mark.parametrize("requests, clean, kinds", [
    ([LOST, put(2, "log/2", b"x", **NEW)], [put(1, "log/1", b"x", **NEW)], ["committed twice"]),
    ([LOST, put(2, "log/2", b"y", **NEW)], [put(1, "log/1", b"x", **NEW)], []),  # it commits the next
    ([LOST, put(2, "log/2", b"x", client="b", **NEW)], [], []),  # another client commits the same
    ([put(1, "log/1", b"x", **NEW), put(2, "log/2", b"x", **NEW)], [], []),  # it was told, and repeats itself
    ([LOST, put(2, "log/2", b"x", **NEW)], [put(1, "log/1", b"x", **NEW), put(2, "log/2", b"x", **NEW)], []),  # as always
    ([put(1, "k", b"x", told=0, if_match="v0"), put(2, "k", b"x", if_match="v1")], [], []),  # the same on the same key
    ([LOST, put(2, "log/2", b"x", **NEW)], [put(1, "log/7", b"y", **NEW), put(2, "log/8", b"y", **NEW)], []),  # SlateDB's close
], ids=["twice", "next", "another's", "told", "usual", "again on the key", "recurs"])
def test_equal_contents_committed_twice(requests, clean, kinds):
    assert [one.kind for one in judged(requests, clean)] == kinds


def naming(number: int, *names: str, **more) -> Request:
    return put(number, f"log/{number}", f"{number} {' '.join(names)}".encode(), **{**NEW, **more})


def test_new_data_committed_twice():
    """Names tell it only where commits do not repeat those of earlier ones."""
    one, two = put(1, "data/one-one-one", b"1"), put(2, "data/two-two-two", b"2")
    delta = [one, two, naming(3, "one-one-one"), naming(4, "two-two-two")]
    whole = [one, two, naming(3, "one-one-one"), naming(4, "one-one-one", "two-two-two")]
    twice = [one, naming(3, "one-one-one", told=0), naming(4, "one-one-one")]
    assert [finding.kind for finding in judged(twice, delta)] == ["committed twice"]
    assert judged(twice, whole) == [] and judged(twice, twice[:2]) == []


@pytest.mark.parametrize("requests, kinds", [
    ([put(1, "k", b"1"), get(2, "k", "v1", "b"), put(3, "k", b"2"), put(4, "k", b"3", "b")], ["overwritten"]),
    ([put(1, "k", b"1"), put(2, "k", b"2"), get(3, "k", "v2", "b"), put(4, "k", b"3", "b")], []),  # it had seen it
    ([put(1, "k", b"1"), put(3, "k", b"2"), put(4, "k", b"3", "b")], []),  # it never read: the last one wins, for all we know
    ([put(1, "k", b"1", **NEW), put(2, "k", b"2", "b")], ["put blindly"]),
    ([put(1, "k", b"1", **NEW), get(2, "k", "v1"), get(3, "k", "v1", "b"), put(4, "k", b"2", "b", if_match="v1")], []),
    ([put(1, "k", b"1", **NEW), get(2, "k", "v1", "b"), put(3, "k", b"2", if_match="v1"),
      put(4, "k", b"3", "b", if_match="v3")], ["overwritten"]),  # it learnt the version, and not the content
])
def test_what_another_put_is_lost(requests, kinds):
    assert [one.kind for one in judged(requests)] == kinds
    assert judged(requests, hints=("k",)) == []


@pytest.mark.parametrize("requests, exit_code, kinds", [
    ([put(1, "log/1", b"x", status=412, **NEW)], 0, ["success without a commit"]),
    ([put(1, "log/1", b"x", **NEW), put(2, "log/2", b"x", status=412, **NEW)], 0, []),  # SlateDB's close: it changes nothing
    ([put(1, "log/1", b"x", status=412, **NEW)], 1, []),  # it says so
    ([put(1, "log/1", b"x", status=412, **NEW), put(2, "log/1", b"y")], 0, ["put blindly"]),  # it is stored, blindly
    ([put(1, "log/1", b"x", status=412, **NEW), put(2, "log/2", b"y", **NEW)], 0, []),  # it commits after
    ([put(1, "log/1", b"x", "b", **NEW), put(2, "log/1", b"x", status=412, **NEW)], 0, []),  # another has put the same
    ([put(1, "log/1", b"x", told=0, **NEW), put(2, "log/1", b"x", status=412, **NEW)], 0, []),  # its own stands
    ([put(1, "log/1", b"x", told=0, **NEW), put(2, "log/1", b"x", status=412, **NEW)], 1, ["error though committed"]),
    ([put(1, "log/1", b"x", told=0, **NEW)], 1, []),  # it cannot know
    ([put(1, "k", b"x", told=0, if_match="v0"), put(2, "k", b"x", status=412, if_match="v0"),
      get(3, "k", "v1", "b"), put(4, "k", b"y", "b", if_match="v1")], 1, ["error though committed"]),  # before another's
    ([LOST, put(2, "log/1", b"x", status=412, **NEW), put(3, "log/2", b"y", **NEW)], 1, []),  # it has got over that
    ([LOST, put(2, "log/1", b"x", status=412, **NEW), put(3, "epoch/2", b"y", "b", **NEW), get(4, "epoch/2", "v3")], 1,
     []),  # SlateDB: it is fenced
    ([put(1, "k", b"x", told=0, if_match="v0"), get(2, "k", "v1", "b"), put(3, "k", b"y", "b", if_match="v1"),
      put(4, "k", b"x", status=412, if_match="v0")], 1, []),  # it may not know, for another's is there
])
def test_success_and_error(requests, exit_code, kinds):
    clean = [put(1, "log/1", b"x", **NEW)]
    assert [one.kind for one in judged(requests, clean, {"a": exit_code})] == kinds


def test_what_the_client_says():
    requests = [put(1, "log/1", b"x", **NEW)]
    assert judged(requests, output="told committed log/1\n") == []
    assert [one.kind for one in judged(requests, output="told committed log/2\n")] == ["told wrongly"]
    assert [one.kind for one in judged(requests, output="told failed log/*\n")] == ["told wrongly"]
    assert judged(requests, output="it told committed log/2\n") == []


def test_what_the_newest_commit_names():
    deleted = put(9, "data/0123456789.bin", status=204)._replace(op="delete", method="DELETE")
    pattern = re.compile(r"(\d{10}\.bin)")
    named = put(1, "log/1", b"0123456789.bin", **NEW)
    assert [one.kind for one in judged([DATA, named, deleted], names=pattern)] == ["dangling"]
    assert judged([DATA, named, put(2, "log/2", b"none", **NEW), deleted], names=pattern) == []


# --- which trials

def test_each_fault_is_a_rule_of_the_recorder():
    for fault in faults_of(1.5, True):
        Rules(rules([Placed(fault, "client", 2)], faults_of(1.5, True)))
    assert rules([Placed(HOLD, "a", 3), Placed("409", "b", 1)], faults_of(None, False)) == (
        "hold * * client=a nth=3\nfail 409 MUTATION * client=b nth=1 code=ConditionalRequestConflict\n")


def test_pairs_are_drawn_by_a_seed():
    clean = [put(number, "k", client=client) for number, client in enumerate("aab")]
    alone = singles(Asked({"a": (), "b": ()}), clean, faults_of(None, False))
    assert len(alone) == 3 * (len(FAULTS) - 1) + 3, "409 is for requests with a condition"
    usual = {"a": [1, 2], "b": [1]}
    of = [Result(number, placed, "fine", (), {}, {}, (), usual) for number, placed in enumerate([(), *alone])]
    first = of[1]
    of[1] = first._replace(mutations={"a": [1, 3, 5], "b": [1]})  # it mutates once more
    drawn = pairs(of, 10_000, 1)
    assert pairs(of, 20, 1) == drawn[:20] != pairs(of, 20, 2) and len(set(drawn)) == len(drawn)
    assert set(drawn[:2]) == {(*first.placed, Placed(HOLD, "a", 3)), (*first.placed, Placed(HOLD, "a", 5))}
    assert all(one != two and [one.fault, two.fault].count(HOLD) < 2 for one, two in drawn)


def ended(number: int, placed: tuple[Placed, ...], *kinds: str) -> Result:
    found = tuple(Finding(kind, "") for kind in kinds)
    return Result(number, placed, kinds[0] if kinds else "fine", found, {}, {}, (), {"a": [1, 2]})


def test_a_pair_is_told_only_if_it_shows_more_than_one_of_its_faults():
    one, two = Placed("reply lost", "a", 1), Placed("409", "a", 2)
    alone = [ended(0, ()), ended(1, (one,), "committed twice"), ended(2, (two,))]
    assert fewest([*alone, ended(3, (one, two), "committed twice")]) == [alone[1]]
    worse = ended(3, (one, two), "committed twice", "check failed")
    assert fewest([*alone, worse]) == [alone[1], worse]
    assert fewest([ended(0, (), "put blindly"), ended(1, (one,), "put blindly")]) == [ended(0, (), "put blindly")]


MAPS = Map("log/{id}", "sequenced_files", r"add (\w+)"), Map("root", "one_object")


@pytest.mark.parametrize("requests, kinds", [
    ([put(1, "log/1", b"add x", **NEW), put(2, "log/2", b"add y", **NEW)], []),
    ([put(1, "log/1", b"add x", **NEW), put(2, "log/2", b"add x!", **NEW)], ["property broken"]),
    ([put(1, "log/1", b"add x", **NEW), put(2, "log/3", b"add y", **NEW)], ["property broken"]),
    ([put(1, "log/1", b"add x"), put(2, "log/2", b"add y")], ["not in the model"]),
    ([put(1, "root", b"1", **NEW), put(2, "root", b"2", **NEW)], ["store contradicts itself"]),
    ([put(1, "other/1", b"1"), put(2, "other/1", b"2", "b")], []),
], ids=["right", "again", "gap", "blind", "two winners", "another key"])
def test_a_model_judges_the_keys_of_a_map(requests, kinds):
    assert [one.kind for one in judged(requests, maps=MAPS)] == kinds
    assert judged(requests) == []


@needs_server
def test_maps_are_kept_with_the_test(tmp_path):
    """The model convicts, with no check: what the client does is the same as without the map."""
    maps = tmp_path / "maps.toml"
    maps.write_text("""[[map]]\nkeys = "log/{id:08d}.json"\nprotocol = "sequenced_files"\nupdates = '"token": "([^"]+)"'\n""")
    out, only = tmp_path / "out", ("--fault", "request lost", "--runs", "5")
    code, text, _ = tried(out, f"{ME} {{url}} one 2 double_commit", "--map", str(maps), *only)
    assert code == 10 and "ReadLatest: client puts id 2 of log/{id:08d}.json" in text
    maps.unlink()
    again = CliRunner().invoke(app, ["client", "test", "--out", str(out), "--replay", "5"])
    assert again.exit_code == 10 and "ReadLatest" in again.output
    assert tried(tmp_path / "out2", f"{ME} {{url}} one 2 double_commit", *only)[0] == 0


@needs_server
def test_what_a_client_tells_in_a_file(tmp_path):
    script = tmp_path / "client.sh"
    script.write_text(f"{ME} $1 one 1 > /dev/null && echo told failed 'log/*' > $HIGHWATER_TOLD\n")
    code, text, _ = tried(tmp_path / "out", f"sh {script} {{url}}", "--runs", "1")
    assert code == 10 and "client said that log/* has failed" in text


# --- replay, going on, and what ends it

@needs_server
def test_a_run_is_replayed_and_a_campaign_goes_on(tmp_path):
    out, command = tmp_path / "out", f"{ME} {{url}} one 1 double_commit"
    code, text, found = tried(out, command, *checking(), "--runs", "3")
    assert sorted(result.number for result in found) == [0, 1, 2, 3], text
    with open(out / "results.ndjson", "a") as file:
        file.write('{"number": 4, "pla')  # killed while it wrote
    code, text, found = tried(out, command, *checking(), "--runs", "9", "--json", str(tmp_path / "json"), "--junit",
                              str(tmp_path / "xml"))
    assert sorted(result.number for result in found) == [*range(10)] and code == 10
    bad = next(result for result in found if result.verdict == "committed twice")
    assert (out / "runs" / f"{bad.number:05}" / "bucket/log/00000000.json").exists() and f"--replay {bad.number}" in text
    assert "committed twice" in (out / "report.md").read_text() and "committed twice" in (tmp_path / "xml").read_text()
    assert json.loads((tmp_path / "json").read_text())["exit"] == 10
    result = CliRunner().invoke(app, ["client", "test", "--out", str(out), "--replay", str(bad.number)])
    assert result.exit_code == 10 and "committed twice" in result.output and "[lose MUTATION" in result.output
    assert [one.verdict for one in results(out) if one.number == CLEAN] == ["fine"]


@needs_server
def test_a_bucket_of_ones_own_is_left_empty(tmp_path, monkeypatch):
    """A failed run's objects are in the folder of results."""
    with s3.s3_server() as url:
        for name, value in s3.CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        client = connect(url)
        client.create_bucket(Bucket="mine")
        client.put_object(Bucket="mine", Key="other", Body=b"kept")
        code, text, found = tried(tmp_path / "out", f"{ME} {{url}} one 1 double_commit", *checking(), "--endpoint", url,
                                  "--bucket", "mine", "--fault", "reply lost")
        assert code == 10, text
        assert [one["Key"] for one in client.list_objects_v2(Bucket="mine")["Contents"]] == ["other"]
    bad = next(result for result in found if result.failed)
    assert (tmp_path / f"out/runs/{bad.number:05}/bucket/log/00000001.json").exists()


@needs_server
def test_the_time_of_a_client_that_is_held_does_not_count(tmp_path):
    """The other client takes longer than the limit that is left to the first."""
    slow = tmp_path / "slow.sh"
    slow.write_text(f"sleep 4; {ME} $1 other 1\n")
    first = tmp_path / "first.sh"
    first.write_text(f"sleep 3; {ME} $1 one 1\n")
    code, text, found = tried(tmp_path / "out", f"sh {first} {{url}}", "--with", f"other=sh {slow} {{url}}", "--fault", HOLD,
                              "--limit", "6", "--runs", "2")
    assert code == 0 and [result.verdict for result in found] == ["fine"] * 3, text


@needs_server
def test_what_is_stored_is_opened_again_and_checked_again(tmp_path):
    """The check fails only after --reopen, which finds what the client's exit code was."""
    steps = tmp_path / "steps"
    (tmp_path / "reopen.sh").write_text(f"echo reopen $1 >> {steps}\n")
    (tmp_path / "check.sh").write_text(f"echo check $HIGHWATER_EXIT >> {steps}\ntest $(grep -c reopen {steps}) -lt 2\n")
    code, text, _ = tried(tmp_path / "out", f"{ME} {{url}} one 1", "--runs", "1", "--check", f"sh {tmp_path}/check.sh",
                          "--reopen", f"sh {tmp_path}/reopen.sh {{bucket}}")
    assert code == 10 and "--check after --reopen: exit code 1" in text
    assert [line.split()[0] for line in steps.read_text().splitlines()] == ["check", "reopen", "check"] * 2
    assert "check 0" in steps.read_text()


@needs_server
def test_a_lost_reply_may_leave_the_connection_open(tmp_path):
    """The client waits for its own time-out of 2 s, and gets over it; a delay beyond the time-out is a fault of its own."""
    options = ("--client-timeout", "2", "--hang", "--fault", "reply lost", "--fault", "delayed past the time-out")
    code, text, found = tried(tmp_path / "out", f"{ME} {{url}} one 1", *options, "--runs", "2", *checking())
    assert code == 0 and [result.verdict for result in found] == ["fine"] * 3, text
    assert all(result.seconds["client"] > 2 for result in found if result.placed)
    assert {one.fault for result in found for one in result.placed} == {"reply lost", "delayed past the time-out"}


@needs_server
def test_ctrl_c_leaves_no_process(tmp_path):
    """The client sleeps in its second run, and has a child."""
    script = tmp_path / "client.sh"
    script.write_text(f"{ME} $1 one 1 || exit\nsleep 1000 & echo $! >> {tmp_path}/children\necho >> {tmp_path}/began\n"
                      f"[ $(wc -l < {tmp_path}/began) -lt 2 ] || wait\n")
    command = [sys.executable, "-m", "highwater", "client", "test", "--out", str(tmp_path / "out"), "--",
               "sh", str(script), "{url}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    began = time.monotonic()
    while not (tmp_path / "began").exists() or len((tmp_path / "began").read_text()) < 2:
        assert process.poll() is None and time.monotonic() - began < 60
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # a suite that a shell began with `&` ignores Ctrl-C
    assert process.wait(20) == 130
    assert not any(map(runs, (tmp_path / "children").read_text().split()))


def runs(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"  # ended, and nobody has asked
    except FileNotFoundError:
        return False


# --- bad input

@pytest.mark.parametrize("command, options, told", [
    ("no-such-command {url}", (), "the client client: there is no command 'no-such-command'"),
    ("true", ("--check", "no-such-check"), "--check: there is no command 'no-such-check'"),
    ("true", ("--check", "'"), "--check"),
    ("true", ("--with", "true"), "write NAME=COMMAND"),
    ("true", ("--with", "client=true"), "give each client a name of its own"),
    ("true", ("--with", "check=true"), "give each client a name of its own"),
    ("true", ("--with", "a=true", "--with", "a=true"), "give each client a name of its own"),
    ("true", ("--fault", "rain"), "--fault 'rain' is unknown"),
    ("true", ("--hang",), "--hang: give --client-timeout, too"),
    ("true", ("--endpoint", "http://localhost:1"), "belong together"),
    ("true", ("--names", "("), "--names"),
    ("true", ("--map", "log=raft"), "'raft' is no protocol"),
    ("true", ("--replay", "3"), "is no folder of"),
    ("", (), "give the command of the client"),
])
def test_bad_input_gets_a_line(tmp_path, command, options, told):
    code, text, _ = tried(tmp_path / "out", command, *options)
    assert code == 2 and told in text, text
    assert not (tmp_path / "out").exists()


@needs_server
def test_a_map_that_fits_no_key_is_bad_input(tmp_path):
    code, text, _ = tried(tmp_path / "out", f"{ME} {{url}} one 1", "--map", "logs/{id:08d}.json=sequenced_files")
    assert code == 2 and "no request puts or deletes a key that fits logs/{id:08d}.json: correct --map" in text


@needs_server
def test_a_client_that_fails_without_faults_is_bad_input(tmp_path):
    code, text, _ = tried(tmp_path / "out", "false")
    assert code == 2 and "without any fault: client ended with exit code 1" in text
    code, text, _ = tried(tmp_path / "out2", "true", "--check", "false")
    assert code == 2 and "without any fault: --check: exit code 1" in text
    code, text, _ = tried(tmp_path / "out3", "true", "--setup", "false")
    assert code == 2 and "--setup ended with exit code 1" in text


def test_a_folder_of_another_test_is_refused(tmp_path):
    (tmp_path / "notes").write_text("mine")
    code, text, _ = tried(tmp_path, "true")
    assert code == 2 and "holds something else" in text and (tmp_path / "notes").read_text() == "mine"
