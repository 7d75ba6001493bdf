"""Safety: rows of different campaigns are not mixed: what a campaign is, and of what code."""

from typing import NamedTuple

from dst.scenarios import DEFAULT
from dst.strategies import STRATEGIES
from dst.version import code_version
from dst.world.profiles import PROFILES
from dst.zoo import build_of

Seeds = tuple[int, int]  # from, up to and without


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
    strategy: str = "portfolio"
    profile: str = ""  # "": each run draws the store that it has
    code: str = ""


def campaign_of(scenario: str = DEFAULT, mutant: str = "", strategy: str = "portfolio", profile: str = "") -> Campaign:
    """Of the code that is here. Raises Refused."""
    try:
        build_of(mutant, scenario)
    except LookupError as error:
        raise Refused(str(error)) from None
    if strategy not in ("portfolio", *STRATEGIES):
        raise Refused(f"there is no strategy {strategy!r}; there are: portfolio, {', '.join(STRATEGIES)}")
    if profile and profile not in PROFILES:
        raise Refused(f"there is no profile {profile!r}; there are: {', '.join(PROFILES)}")
    return Campaign(scenario, mutant, strategy, profile, code_version())
