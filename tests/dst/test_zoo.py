"""The hunt for mutants: statistics of waits; campaigns; all runs of a tiny scope; the commands."""

import csv
import random
from math import inf

import pytest
import typer
from typer.testing import CliRunner

from highwater.cli.dst import zoo
from highwater.cli.dst.zoo import Task, as_table, exhaust_command, judged, line, run, with_parts, zoo_command
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import SCENARIO, production
from highwater.dst.search.exhaust import Bounded, Bounds, outcomes, search
from highwater.dst.search.hunt import STRIDE, First, first_failure, hunt, quantile, share
from highwater.dst.sim.choose import drawing
from highwater.dst.simulate import simulate
from highwater.dst.world.faults import FATES, Weights
from highwater.gate.exits import BAD_INPUT, HARNESS, INCOMPLETE, REFINEMENT, SAFETY

app = typer.Typer()
app.command("zoo")(zoo_command)
app.command("exhaust")(exhaust_command)


def ran(*arguments):
    return CliRunner().invoke(app, list(arguments))


# --- what may be said of waits


def test_quantiles_and_their_intervals():
    waits = [float(i) for i in range(1, 31)]
    assert quantile(waits[::-1], 0.5) == (15.5, 10, 21)  # as tables have it: the 10th and 21st of 30
    assert quantile(waits, 0.9) == (27, 23, inf)
    assert quantile([1.0, 2.0, inf], 0.5) == (2, 0, inf)
    assert quantile([inf] * 30, 0.5) == (inf, inf, inf)


@pytest.mark.parametrize("q", [0.5, 0.9])
def test_an_interval_holds_the_true_quantile_as_often_as_it_says(q):
    dice, held = random.Random(1), 0
    for _ in range(1000):
        _, low, high = quantile([dice.random() for _ in range(30)], q)
        held += low <= q <= high
    assert 940 < held < 995


def test_shares():
    assert share(30, 30) == (pytest.approx(0.1 ** 0 * 0.025 ** (1 / 30)), 1)
    assert share(0, 30) == (0, pytest.approx(1 - 0.025 ** (1 / 30)))
    assert share(15, 30) == (pytest.approx(0.313, abs=0.001), pytest.approx(0.687, abs=0.001))


# --- campaigns


def clock():
    return 0.0


def test_a_campaign_ends_at_the_first_failure_or_the_cap():
    bad = ZOO["lost_reply_is_conflict"][1]
    first = first_failure("portfolio", 2, 500, bad, True, clock)
    at = 2 * STRIDE + first.runs - 1
    assert first.signature == simulate(Run(at), bad).signature != ""
    assert not any(simulate(Run(seed), bad).kind for seed in range(2 * STRIDE, at))
    assert first_failure("portfolio", 2, first.runs, bad, True, clock) == first
    assert first_failure("portfolio", 2, 20, production, True, clock) == First(20, "", 0)
    with pytest.raises(ValueError, match="1 to 1,000,000"):
        first_failure("portfolio", 0, STRIDE + 1, bad, True, clock)


def test_processes_find_the_same():
    tasks = [Task(name, strategy, campaign, 60, by_model) for name in ("no_check", "age_ignored", "lost_reply_is_conflict")
             for strategy in ("pct", "times") for campaign in range(2) for by_model in (True, False)]
    alone, together = ([first[:2] for first in run(tasks, jobs)] for jobs in (1, 2))
    assert alone == together and len({runs for runs, _ in alone}) > 3


def test_hunting_counts_from_failure_to_failure():
    waits, signatures = hunt(ZOO["no_check"][1], 3, 100)
    assert len(waits) == 3 and signatures == {"told:committed"}
    assert hunt(production, 1, 10) == ([], set())


def test_another_oracle_than_expected_is_told():
    firsts = [First(3, "told:committed", 0.1), First(5, "refinement:Reader.List", 0.1)]
    of = line("no_check", "pct", firsts, True)
    assert of.unexpected == ("refinement:Reader.List",) and of.found == 2
    assert "found it as refinement:Reader.List; expected: told:committed" in judged([of], True)[0]
    fine = line("no_check", "portfolio", [First(3, "told:committed", 0.1)] * 3, True)
    assert judged([fine], True) == []


def test_a_table_labels_the_mutants_of_its_own_protocol():
    def label(protocol: str) -> list[str]:
        lines = [line("no_check", "pct", [First(3, "told:committed", 0.1)], True, protocol)]
        return [*as_table(lines, protocol).columns[0].cells]

    assert (label("sequenced_metadata_boundary"), label("log_gc")) == (["Z1"], [""])


def test_the_gate_is_of_the_default_portfolio_by_the_model():
    missed = [First(3, "told:committed", 0.1), First(100, "", 0.1)]
    late = [First(151, "told:committed", 0.1)] * 3
    for firsts, words in ((missed, "survived 1 of 2"), (late, "a median of 151 runs, more than 150")):
        assert words in judged([line("no_check", "portfolio", firsts, True)], True)[0]
        assert judged([line("no_check", "pct", firsts, True)], True) == []
    assert judged([line("no_check", "portfolio", [First(9, "", 0.1)], False)], False) == []


# --- all runs of a tiny scope


def test_production_has_no_failure_within_the_bounds():
    sizes = [search(Bounds(delays)) for delays in range(4)]
    assert all(found.complete and not found.failures for found in sizes)
    assert [found.runs for found in sizes] == [1, 24, 154, 1128]
    assert search(Bounds(1, 1)).complete


def test_every_run_within_the_bounds_is_among_them():
    """Runs made by choosing at random, within the same bounds, are all in what the search has seen."""
    class Dice(Bounded):
        def _branch(self, options):
            choice, delays, faults = options[self.draw(len(options))]
            self.delays, self.faults = self.delays - delays, self.faults - faults
            return choice

    bounds, drawn = Bounds(1, 1, ("reply_lost", "crash")), set()
    every = [outcome.digest for outcome in outcomes(bounds)]
    for seed in range(300):
        dice = Dice(bounds, [])
        dice.draw = drawing(seed, "dice")
        drawn.add(simulate(Run(0, strategy="random", shape=SCENARIO.tiny, weights=Weights()), production, chooser=dice).digest)
    assert len(drawn) > 50 and drawn <= set(every)


def test_what_is_run_keeps_the_bounds_and_replays_from_its_tape():
    bounds = Bounds(2, 1, ("reply_lost",))
    for number, outcome in enumerate(outcomes(bounds)):
        assert sum(choice > 0 and "#" in site for site, choice, bound in outcome.tape if bound == len(FATES)) <= 1
        if number % 97 == 0:
            again = simulate(Run(0, shape=SCENARIO.tiny, weights=Weights()), tape=outcome.tape)
            assert (again.digest, again.kind) == (outcome.digest, "")
        if number == 2000:
            break


@pytest.mark.parametrize("name, delays, faults, sizes, signature", [
    ("delete_before_advance", 1, 0, {}, "refinement:Collector.Delete"),
    ("reported_though_refused", 2, 0, {}, "told:committed"),
    ("lost_reply_is_conflict", 0, 1, {}, "refinement:Writer.CreateNext"),
    ("reads_not_checked", 0, 0, {"readers": 1, "reads": 1}, "told:read"),
    ("boundary_moves_backward", 3, 0, {"collectors": 2, "commits": 1}, "refinement:Collector.Advance"),
])
def test_mutants_within_the_bounds_are_found(name, delays, faults, sizes, signature):
    found = search(Bounds(delays, faults, ("reply_lost",)), SCENARIO.tiny._replace(**sizes), ZOO[name][1], first=True)
    assert list(found.failures) == [signature] and not found.complete
    if delays:
        fewer = search(Bounds(delays - 1, faults), SCENARIO.tiny._replace(**sizes), ZOO[name][1], first=True)
        assert fewer.complete and not fewer.failures


def test_a_search_that_was_cut_short_does_not_say_complete():
    assert not search(Bounds(2), most=20).complete and search(Bounds(1), most=24).complete


# --- the verbs


def test_the_zoo_prints_and_writes(tmp_path):
    page = tmp_path / "zoo.md"
    page.write_text((zoo.Path(__file__).parents[2] / "docs/simulation/zoo.md").read_text())
    result = ran("zoo", "--campaigns", "3", "--cap", "50", "--mutant", "no_check", "--mutant", "latest_deleted", "--strategy",
                 "portfolio,pct", "--jobs", "1", "--csv", str(tmp_path / "x.csv"), "--page", str(page))
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader((tmp_path / "x.csv").open()))
    assert len(rows) == 12 and {row["mutant"] for row in rows} == {"no_check", "latest_deleted"}
    assert all(row["signature"] and int(row["first_seed"]) == int(row["campaign"]) * STRIDE for row in rows)
    assert "| no_check | 1 (0–…); 1 | 1 (0–…); " in page.read_text()


def test_the_zoo_fails_where_a_mutant_survives(monkeypatch):
    monkeypatch.setitem(ZOO, "no_check", ("nothing", production))
    result = ran("zoo", "--campaigns", "2", "--cap", "5", "--mutant", "no_check", "--jobs", "1")
    assert result.exit_code == HARNESS and "survived 2 of 2 campaigns" in result.output and "> cap" in result.output


def test_the_zoo_refuses_what_makes_no_sense(tmp_path):
    (tmp_path / "file").write_text("")
    for arguments in (("--strategy", "bfs"), ("--mutant", "none"), ("--page", str(tmp_path / "none.md")),
                      ("--csv", str(tmp_path / "file/x.csv"))):
        result = ran("zoo", "--campaigns", "1", "--cap", "1", "--jobs", "1", *arguments)
        assert result.exit_code == BAD_INPUT, arguments


def test_exhaust_says_what_it_has_shown():
    result = ran("exhaust", "--delays", "1")
    assert result.exit_code == 0 and "24 runs, 24 different traces, 0 failed: all runs of the scope" in result.output
    result = ran("exhaust", "--delays", "2", "--mutant", "delete_before_advance")
    assert result.exit_code == REFINEMENT and "--delays 2" in result.output and "highwater dst exhaust" in result.output
    result = ran("exhaust", "--delays", "2", "--mutant", "no_check", "--every")
    assert result.exit_code == SAFETY and "all runs of the scope" in result.output
    assert ran("exhaust", "--delays", "2", "--most", "9").exit_code == INCOMPLETE
    for arguments in (("--of", "fire"), ("--set", "writers=9"), ("--set", "x=1"), ("--mutant", "none")):
        assert ran("exhaust", *arguments).exit_code == BAD_INPUT


def test_a_page_without_the_part_is_refused():
    with pytest.raises(ValueError, match="no part 'x'"):
        with_parts("", {"x": ""})
