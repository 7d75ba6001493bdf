"""Define what a campaign is. Safety: rows of different campaigns, or of different code, are not mixed."""

from pathlib import Path
from shlex import quote
from typing import NamedTuple

from highwater import pages
from highwater.dst.run_spec import RunSpec
from highwater.dst.scenarios import DEFAULT
from highwater.dst.sim.strategies import STRATEGIES
from highwater.dst.version import code_version
from highwater.messages import meant

WRONG = ("safety", "refinement", "liveness")  # kinds of failure of the implementation
UNJUDGED = ("timeout", "memory", "death", "harness", "nondeterminism")  # kinds that say nothing about it
Seeds = tuple[int, int]  # first, and end (exclusive)
USUAL = "portfolio"
GUIDED = "guided"  # the strategy of some campaigns of 0.1.0: their rows are read, but their runs are not made again
NO_GUIDE = f"guided campaigns were taken out in 0.2.0, because they found no mutant sooner: {pages.named('zoo')}"


class CampaignError(Exception):
    """The campaign could not finish. The message begins with one line that gives the reason."""


class Refused(CampaignError):
    """The request makes no sense, or the folder belongs to something else. Nothing was written."""


class Hangs(CampaignError):
    """Several seeds did not end within their time. Finished waves are kept."""


class NoSpark(CampaignError):
    """Spark cannot start on this machine."""


class Campaign(NamedTuple):
    """The parameters of a campaign, shared by all its seeds."""

    scenario: str = DEFAULT
    mutant: str = ""  # "": the implementation itself
    strategy: str = USUAL
    profile: str = ""  # "": drawn for each run
    shape: str = ""  # NAME=VALUE .., in place of drawn values
    faults: str = ""  # NAME=N .., of 1,000 requests, and no other faults; "": drawn for each run
    code: str = ""

    @property
    def spec(self) -> RunSpec:
        return RunSpec(self.scenario, self.mutant or None, self.strategy, self.profile or None, tuple(self.shape.split()),
                       tuple(self.faults.split()))


class Work(NamedTuple):
    """Parameters that an engine's processes need beside their seeds."""

    campaign: Campaign
    limit_s: float  # a seed that takes longer has hung


def campaign_of(scenario: str = DEFAULT, mutant: str = "", strategy: str = USUAL, profile: str = "", shape: str = "",
                faults: str = "") -> Campaign:
    """Make a campaign of the current code. Raises Refused."""
    if strategy not in (USUAL, *STRATEGIES):
        why = NO_GUIDE if strategy == GUIDED else f"there is no strategy {strategy!r}{meant(strategy, (USUAL, *STRATEGIES))}"
        raise Refused(f"{why}; the strategies are: {USUAL}, {', '.join(STRATEGIES)}")
    campaign = Campaign(scenario, mutant, strategy, profile, shape, faults, code_version())
    try:
        campaign.spec.at(0)
    except (LookupError, ValueError) as error:
        raise Refused(str(error)) from None
    return campaign


def replay_of(campaign: Campaign, seed: int) -> str:
    """Return the command that replays a seed's run. DIR stands for the campaign's folder.

    Only 0.1.0 replays a guided run, from the tape in its row."""
    return f"highwater campaign replay DIR {seed}" if campaign.strategy == GUIDED else campaign.spec.command(seed)


def replayed_in(replay: str, folder: Path | str) -> str:
    """Replace DIR in a replay command by the campaign's folder."""
    return replay.replace(" DIR ", f" {quote(str(folder))} ")
