"""What a commit costs: the sources' claims against the requests that the implementations send."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.cost import INPUTS, inputs_of, page
from cli.main import app
from dst.cost import Latency, all_of, conflicts, dollars, measure, quantile, trips_of
from dst.scenarios import STEMS, named
from traces.event import EMPTY

INPUT = inputs_of(INPUTS)


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
    shape = named("baseline").COST["1 writer"]
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


@pytest.mark.parametrize("text, says", [
    ("", "dollars_per_1000_requests"), ("x = [", "x.toml"),
    (INPUTS.read_text().replace("get = [25, 100]", "get = [100, 25]"), "0 < p50 < p99"),
    (INPUTS.read_text().replace("get = [25, 100]", "get = 25"), "[p50, p99]"),
    (INPUTS.read_text().replace("put = 0.005", "put = -1"), "not negative")])
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


def test_every_protocol_with_commits_has_a_contention():
    assert {stem for stem in STEMS if not all_of(stem)} == {"store_primitives"}
