"""Safety: rows of different campaigns are not mixed: what a campaign is, and of what code."""

from pathlib import Path
from shlex import quote
from typing import NamedTuple

from highwater.dst.campaign.rounds import Corpus
from highwater.dst.run_spec import RunSpec
from highwater.dst.scenarios import DEFAULT
from highwater.dst.sim.strategies import STRATEGIES
from highwater.dst.version import code_version

WRONG = ("safety", "refinement", "liveness")  # kinds of failure of the implementation
UNJUDGED = ("timeout", "memory", "death", "harness", "nondeterminism")  # kinds that say nothing of it
Seeds = tuple[int, int]  # from, up to and without
GUIDED = "guided"  # the strategy of campaigns in rounds: rounds.py
BASE = "portfolio"  # what is drawn in them is drawn by


class CampaignError(Exception):
    """The campaign could not run to its end; the message opens with one line that says why."""


class Refused(CampaignError):
    """What was asked for makes no sense, or the folder is not for it. Nothing was written."""


class NoSpark(CampaignError):
    """Spark cannot start on this machine."""


class Campaign(NamedTuple):
    """What is simulated of each seed."""

    scenario: str = DEFAULT
    mutant: str = ""  # "": the implementation itself
    strategy: str = BASE
    profile: str = ""  # "": each run draws the store that it has
    shape: str = ""  # NAME=VALUE .. in place of what is drawn
    faults: str = ""  # NAME=N .., of 1,000 requests, and no others; "": each run draws them
    first: int = 0  # of a guided campaign the seed that its rounds are counted from; of others 0
    round_size: int = 0  # its seeds in a round
    code: str = ""

    @property
    def spec(self) -> RunSpec:
        return RunSpec(self.scenario, self.mutant or None, BASE if self.strategy == GUIDED else self.strategy,
                       self.profile or None, tuple(self.shape.split()), tuple(self.faults.split()))


class Work(NamedTuple):
    """What an engine's processes are told beside their seeds."""

    campaign: Campaign
    limit_s: float  # a seed that takes longer has hung
    corpus: Corpus = Corpus()


def campaign_of(scenario: str = DEFAULT, mutant: str = "", strategy: str = BASE, profile: str = "", shape: str = "",
                faults: str = "", first: int = 0, round_size: int = 0) -> Campaign:
    """Of the code that is here. Raises Refused."""
    if strategy not in (BASE, GUIDED, *STRATEGIES):
        raise Refused(f"there is no strategy {strategy!r}; there are: {BASE}, {GUIDED}, {', '.join(STRATEGIES)}")
    if strategy == GUIDED and round_size < 1:
        raise Refused("a guided campaign goes in rounds: how many seeds are in one?")
    rounds = (first, round_size) if strategy == GUIDED else (0, 0)
    campaign = Campaign(scenario, mutant, strategy, profile, shape, faults, *rounds, code_version())
    try:
        campaign.spec.at(0)
    except (LookupError, ValueError) as error:
        raise Refused(str(error)) from None
    return campaign


def replay_of(campaign: Campaign, seed: int) -> str:
    """What a user types to see a run of it again. DIR is the campaign's folder."""
    return f"highwater campaign replay DIR {seed}" if campaign.strategy == GUIDED else campaign.spec.command(seed)


def replayed_in(replay: str, folder: Path | str) -> str:
    """The same, where DIR is known."""
    return replay.replace(" DIR ", f" {quote(str(folder))} ")
