"""The cost of a commit: the sources' claims, checked against the requests that the implementations send."""

import json
import re
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from bench.pages import protocol, readme
from highwater.cli.console import console
from highwater.cli.cost import HEAD, INPUTS, inputs_of, note, page
from highwater.cli.main import app
from highwater.dst.cost import Latency, all_of, conflicts, dollars, measure, quantile, trips_of
from highwater.dst.scenarios import STEMS, named
from highwater.impl.errors import OutcomeUnknown
from highwater.impl.stores.s3 import S3Store, connect
from highwater.traces.event import EMPTY
from tests.support.projects import highwater

pytest_plugins = ["tests.support.stores.fixtures"]
INPUT = inputs_of(INPUTS)
DOCS = (protocol.ROOT / "docs/operating/cost.md").read_text()


def of(protocol: str, contention: str, runs: int = 3):
    return measure(protocol, contention, INPUT.latencies, runs)


@pytest.mark.parametrize("protocol, contention, trips", [
    ("simple_conditional", "4 writers", 3), ("sequenced_write", "log, 4 writers", 2),
    ("sequenced_write", "state, 4 writers", 3),
    ("sequenced_metadata_boundary", "4 writers", 4), ("manifest_epochs", "writer and compactor", 4)])
def test_round_trips_of_a_conflict(protocol, contention, trips):
    cost = of(protocol, contention)
    assert (cost.trips.p50, cost.trips.p99) == (trips, trips) and cost.conflicts.mean > 0.1


@pytest.mark.parametrize("protocol, contention, requests", [
    ("baseline", "4 writers", 1), ("sequenced_metadata_boundary", "1 writer", 4), ("manifest_epochs", "1 writer", 3),
    ("wal_fencing", "1 writer, no flush", 2)])
def test_requests_of_a_commit_without_contention(protocol, contention, requests):
    cost = of(protocol, contention)
    assert (cost.requests.p50, cost.requests.p99, cost.conflicts.mean) == (requests, requests, 0)


def test_a_busy_writer_starves_the_others():
    """«the second writer might get starved»: the median commit needs one request, and one in a hundred needs tens."""
    cost = of("simple_conditional", "4 writers")
    assert cost.requests.p50 == 1 and cost.requests.p99 > 15


def test_most_checks_are_answered_not_modified():
    assert of("sequenced_metadata_boundary", "1 writer").unchanged > 0.9
    assert of("wal_fencing", "1 writer, flush every 10").unchanged > 0.9


def test_measurements_are_the_same_again_and_commits_are_all_there():
    shape = named("baseline").cost["1 writer"]
    cost = of("baseline", "1 writer", 2)
    assert cost == of("baseline", "1 writer", 2) and cost.commits <= 2 * shape.updates
    assert all(count > 0 for count in cost.all_kinds.values())


def test_a_conflict_is_counted_from_the_attempt_that_failed_to_the_next():
    create = EMPTY._replace(client="W", kind="applied", op="create", status=412)
    read, told = create._replace(op="get", status=200), create._replace(kind="told", op="committed")
    own = [create, read, create._replace(status=200), told]
    assert list(trips_of(own)) == [3] and sum(map(conflicts, own)) == 1
    assert list(trips_of([create, told, create])) == []  # it gave up


def test_dollars_and_latencies_are_worked_out_of_the_inputs():
    assert dollars({"put": 2, "list": 1}, {"put": 0.005, "list": 0.005}) == pytest.approx(15)
    assert quantile(Latency(10, 50), 0.5) == pytest.approx(10) and quantile(Latency(10, 50), 0.99) == pytest.approx(50)


def ran(*arguments):
    return CliRunner().invoke(app, ["cost", *map(str, arguments)])


def test_the_verb_writes_a_table_a_page_and_json(tmp_path: Path):
    found = ran("--protocol", "baseline", "--runs", 1, "--html", tmp_path / "x.html", "--json", tmp_path / "x.json")
    assert found.exit_code == 0 and "4 writers" in found.output
    html, document = (tmp_path / "x.html").read_text(), json.loads((tmp_path / "x.json").read_text())
    assert "<svg" in html and "baseline" in html and "$" + "TABLE" not in html
    assert [each["contention"] for each in document] == list(all_of("baseline"))
    assert page([of("baseline", "1 writer", 1)], INPUT, "x") == page([of("baseline", "1 writer", 1)], INPUT, "x")


def test_page_has_the_footnote_and_a_plot_of_latency():
    costs = [of("baseline", "1 writer", 1), of("baseline", "4 writers", 1), of("simple_conditional", "4 writers", 1)]
    html = page(costs, INPUT, "prices.toml")
    assert " ".join(note("prices.toml").split()) in " ".join(html.replace("<code>", "").replace("</code>", "").split())
    requests, latency = re.findall(r"(?s)<svg.*?</svg>", html)
    for cost in costs:
        assert f">{cost.latency_ms.p50:,.0f} / {cost.latency_ms.p99:,.0f}</text>" in latency
        assert f">{cost.requests.mean:.2f}</text>" in requests
    dots = [(float(one), float(two)) for one, two in zip(re.findall(r'class="p50" cx="([\d.]+)"', latency),
                                                         re.findall(r'class="p99" cx="([\d.]+)"', latency))]
    assert len(dots) == 3 and all(230 <= one < two <= 800 for one, two in dots)
    slow = max(range(3), key=lambda i: costs[i].latency_ms.p99)
    assert dots[slow][1] == max(two for _, two in dots)


def test_plot_of_equal_latencies_is_drawn():
    cost = of("baseline", "1 writer", 1)
    same = cost._replace(latency_ms=cost.latency_ms._replace(p50=0, p99=0))
    assert 'class="p99"' in page([same], INPUT, "x") and "nan" not in page([same], INPUT, "x")


def test_a_protocol_of_any_roles_is_measured(tmp_path: Path):
    assert highwater("new", "claims", "--into", tmp_path / "claims")[0] == 0
    for folder in (protocol.ROOT / "examples/lease", tmp_path / "claims"):
        code, out, _ = highwater("cost", "--runs", 2, "--project", folder)
        assert code == 0 and "1 client " in out and "3 clients" in out, out


def test_checks_are_counted_of_the_roles_that_commit(monkeypatch):
    """Not those of readers: a client is of a role that commits if any client of this role had the response."""
    events = [EMPTY._replace(client=client, kind="applied", op="get_if_changed", status=status)
              for client, status in (("Client#0", 304), ("Client#1", 200), ("Reader#0", 304), ("Reader#0", 304))]
    done = EMPTY._replace(client="Client#0", kind="told", op="committed")
    monkeypatch.setattr("highwater.dst.cost.simulate", lambda *_, **__: mock.Mock(kind="", events=[*events, done]))
    assert of("baseline", "1 writer", 1).unchanged == 0.5


def test_a_protocol_that_reports_no_commit_says_so(monkeypatch):
    monkeypatch.setattr("highwater.dst.cost.all_of", lambda stem: {"1 client": named(stem).mildest})
    with pytest.raises(ValueError, match="store_primitives, 1 client: no client was told 'committed' after a request"):
        of("store_primitives", "1 client", 1)
    monkeypatch.setattr("highwater.cli.cost.all_of", lambda stem: {"1 client": named(stem).mildest})
    found = ran("--protocol", "store_primitives", "--runs", 1)
    assert found.exit_code == 2 and "let the scenario report a commit with this word" in found.output


def test_the_page_of_the_docs_has_the_table_that_the_command_prints_by_default(monkeypatch):
    """The same columns, of the same number of runs, in the same order. test_pages.py checks that the page is current."""
    monkeypatch.setattr("highwater.cli.cost.stems", lambda: ("baseline", "simple_conditional"))
    monkeypatch.setattr(console, "width", 400)
    printed, kinds = [], HEAD.index("by kind")
    for line in (cells(line, "│┃") for line in ran().output.splitlines() if line.startswith(("│", "┃"))):
        if line[1]:
            printed.append(line)
        else:  # in a terminal each kind has a line of its own
            printed[-1][kinds] += f", {line[kinds]}"
    written = [cells(line, "|") for line in readme.cost().splitlines() if not line.startswith("|---")]
    assert written == printed and len(written) == 1 + 4
    assert tuple(written[0]) == HEAD == tuple(cells(DOCS.partition("generated: cost -->\n")[2].splitlines()[0], "|"))
    assert written[1][kinds] == "put 1.00 (1 / 1)"


def test_the_floor_is_told_with_the_numbers_of_the_table():
    table, floor = ([cells(line, "|") for line in DOCS.partition(mark)[2].partition("\n\n")[0].splitlines()[2:]]
                    for mark in ("generated: cost -->\n", "dollars per million:\n\n"))
    of, protocol = {}, ""
    for row in table[:-1]:
        protocol = row[0] or protocol
        of[protocol, row[1]] = ", ".join((row[2], row[7], row[8]))
    assert [row[1:] for row in floor] == [
        [of["sequenced_metadata_boundary", many], of["known_latest", many]] for many in named("known_latest").cost]


def cells(line: str, between: str) -> list[str]:
    return [cell.strip() for cell in re.split(f"[{between}]", line)[1:-1]]


@pytest.mark.parametrize("text, says", [
    ("", "dollars_per_1000_requests"), ("x = [", "x.toml"),
    (INPUTS.read_text().replace("get = [25, 100]", "get = [100, 25]"), "0 < p50 < p99"),
    (INPUTS.read_text().replace("get = [25, 100]", "get = 25"), "[p50, p99]"),
    (INPUTS.read_text().replace("put = 0.005", "put = -1"), "must not be negative")])
def test_bad_inputs_are_refused(tmp_path: Path, text: str, says: str):
    (tmp_path / "x.toml").write_text(text)
    found = ran("--inputs", tmp_path / "x.toml", "--runs", 1)
    assert found.exit_code == 2 and says in found.output and "Traceback" not in found.output


def test_a_refusal_leaves_the_page_of_before(tmp_path: Path):
    (tmp_path / "x.html").write_text("before")
    assert ran("--protocol", "nosuch", "--html", tmp_path / "x.html").exit_code == 2
    assert ran("--html", tmp_path / "x.html", "--json", tmp_path).exit_code == 2
    assert (tmp_path / "x.html").read_text() == "before"


def test_an_endpoint_that_is_no_address_is_refused():
    found = ran("--protocol", "baseline", "--runs", 1, "--endpoint", "nonsense")
    assert found.exit_code == 2 and "Invalid endpoint" in found.output


def timing(stores):
    return ran("--protocol", "baseline", "--runs", 1, "--endpoint", stores.url, "--bucket", stores.bucket)


def keys_of(stores) -> list[str]:
    client = connect(stores.url)
    return [found["Key"] for found in client.list_objects_v2(Bucket=stores.bucket).get("Contents", [])]


def test_a_server_is_timed_whatever_a_run_before_has_left_and_nothing_is_left(s3_stores, monkeypatch):
    monkeypatch.setattr("highwater.cli.cost.TIMED", 2)
    connect(s3_stores.url).put_object(Bucket=s3_stores.bucket, Key="cost/0", Body=b"of a run that was killed")
    for _ in range(2):
        found = timing(s3_stores)
        assert found.exit_code == 0 and "PUT If-None-Match" in found.output and "GET (304)" in found.output
    assert keys_of(s3_stores) == ["cost/0"]


@pytest.mark.parametrize("ended_by", [KeyboardInterrupt, OutcomeUnknown])
def test_what_is_ended_amid_the_timing_leaves_nothing(moto_stores, monkeypatch, ended_by):
    async def ends(*_: object):
        raise ended_by("amid it")

    monkeypatch.setattr(S3Store, "update", ends)
    found = timing(moto_stores)
    assert found.exit_code in (2, 130) and keys_of(moto_stores) == []


def test_every_protocol_with_commits_has_a_contention():
    # The first has no commits, and the commits of the others are those of the boundary protocol and of compactions.
    without = {"store_primitives", "manifest_migration", "database_gc", "db_reader", "clones", "database_clones", "db", "raft",
               "raft_membership", "consistent_read", "log_snapshot", "metadata_fsm", "compaction_queue",
               "dlq_recovery", "index_retention", "index_reads"}
    assert {stem for stem in STEMS if not all_of(stem)} == without
