"""Define what a campaign is. Safety: rows of different campaigns, or of different code, are not mixed."""

from pathlib import Path
from shlex import quote
from typing import NamedTuple

from highwater import project
from highwater.dst.campaign.rounds import Corpus
from highwater.dst.run_spec import RunSpec
from highwater.dst.scenarios import DEFAULT
from highwater.dst.sim.strategies import STRATEGIES
from highwater.dst.version import code_version

WRONG = ("safety", "refinement", "liveness")  # kinds of failure of the implementation
UNJUDGED = ("timeout", "memory", "death", "harness", "nondeterminism")  # kinds that say nothing about it
Seeds = tuple[int, int]  # first, and end (exclusive)
GUIDED = "guided"  # the strategy of campaigns in rounds: rounds.py
BASE = "portfolio"  # the strategy that draws the parts of a guided run that have no tape


class CampaignError(Exception):
    """The campaign could not finish. The message begins with one line that gives the reason."""


class Refused(CampaignError):
    """The request makes no sense, or the folder belongs to something else. Nothing was written."""


class NoSpark(CampaignError):
    """Spark cannot start on this machine."""


class Campaign(NamedTuple):
    """The parameters of a campaign, shared by all its seeds."""

    scenario: str = DEFAULT
    mutant: str = ""  # "": the implementation itself
    strategy: str = BASE
    profile: str = ""  # "": drawn for each run
    shape: str = ""  # NAME=VALUE .., in place of drawn values
    faults: str = ""  # NAME=N .., of 1,000 requests, and no other faults; "": drawn for each run
    first: int = 0  # the seed from which the rounds of a guided campaign are counted; else 0
    round_size: int = 0  # seeds in a round; 0 if not guided
    code: str = ""

    @property
    def spec(self) -> RunSpec:
        return RunSpec(self.scenario, self.mutant or None, BASE if self.strategy == GUIDED else self.strategy,
                       self.profile or None, tuple(self.shape.split()), tuple(self.faults.split()))


class Work(NamedTuple):
    """Parameters that an engine's processes need beside their seeds."""

    campaign: Campaign
    limit_s: float  # a seed that takes longer has hung
    corpus: Corpus = Corpus()


def campaign_of(scenario: str = DEFAULT, mutant: str = "", strategy: str = BASE, profile: str = "", shape: str = "",
                faults: str = "", first: int = 0, round_size: int = 0) -> Campaign:
    """Make a campaign of the current code. Raises Refused."""
    if strategy not in (BASE, GUIDED, *STRATEGIES):
        raise Refused(f"there is no strategy {strategy!r}; there are: {BASE}, {GUIDED}, {', '.join(STRATEGIES)}")
    if strategy == GUIDED and round_size < 1:
        raise Refused("a guided campaign goes in rounds: give the number of seeds in one")
    rounds = (first, round_size) if strategy == GUIDED else (0, 0)
    campaign = Campaign(scenario, mutant, strategy, profile, shape, faults, *rounds, code_version())
    try:
        campaign.spec.at(0)
    except (LookupError, ValueError) as error:
        raise Refused(str(error)) from None
    return campaign


def replay_of(campaign: Campaign, seed: int) -> str:
    """Return the command that replays a seed's run. DIR stands for the campaign's folder."""
    of_guided = f"highwater campaign replay DIR {seed}{project.option()}"
    return of_guided if campaign.strategy == GUIDED else campaign.spec.command(seed)


def replayed_in(replay: str, folder: Path | str) -> str:
    """Replace DIR in a replay command by the campaign's folder."""
    return replay.replace(" DIR ", f" {quote(str(folder))} ")
