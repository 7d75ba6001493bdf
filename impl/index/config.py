"""Safety: sources are deleted only after every retry of them is refused, and after every query that may name them is over. So
the delay is longer than the horizon and than a query, or refused.

These numbers are part of what a log entry means. They are equal on all nodes, and stay as they are: `settings` goes into the
identity of a node's folder and into the handshakes of nodes. An index with other numbers is made of a backup.
"""

from typing import NamedTuple

from highwater.impl.errors import Definite

S = 1_000_000_000  # ns
DAY = 24 * 3600 * S


class ConfigRefused(Definite):
    """Numbers that would break a promise of the index. The message says which."""


class Level(NamedTuple):
    """When blocks of one level are compacted: so many of them wait, or the oldest has waited so long."""

    blocks: int
    age_ns: int


class Config(NamedTuple):
    """The numbers of an index, for all its nodes."""

    horizon_ns: int = 7 * DAY  # a block that was made longer ago is not added any more
    delay_ns: int = 8 * DAY  # from a removal until its objects are deleted
    lease_ns: int = 15 * S  # of a worker, in which it reports
    failures: int = 3  # leases of one job that ended without a result, after which it waits for the others
    retry_failed_ns: int = 600 * S  # from the end of its last lease until such a job is tried again
    jobs: int = 10_000  # at most, planned and running
    levels: tuple[Level, ...] = (Level(20, 36 * S), Level(10, 720 * S), Level(10, 3 * 3600 * S))  # none above
    tombstones: int = 10  # at most, that one job carries
    hand_outs: int = 5  # jobs that have carried a tombstone, after which the index's own deleter takes it
    retry_ns: int = 3600 * S  # for so long at most a writer adds its block again before it leaves a letter
    query_ns: int = 3600 * S  # for so long at most a reader reads objects of an answer, and by what clocks of leaders differ


NOT_APPLIED = ("retry_ns", "query_ns")  # what writers and readers go by
LONGEST_NS = 100 * 365 * DAY


def settings(config: Config) -> str:
    """Return the numbers that decide how an entry is applied, as text."""
    levels = ",".join(f"{level.blocks}:{level.age_ns}" for level in config.levels)
    numbers = {**config._asdict(), "levels": levels}
    return " ".join(f"{name}={value}" for name, value in numbers.items() if name not in NOT_APPLIED)


def checked(config: Config) -> Config:
    """Return the configuration. Raises ConfigRefused."""
    if config.delay_ns <= config.horizon_ns:
        raise ConfigRefused(f"delay_ns {config.delay_ns} is not above horizon_ns {config.horizon_ns}: a retry could come after "
                            "its source is deleted; set a longer delay")
    if config.delay_ns <= config.query_ns:
        raise ConfigRefused(f"delay_ns {config.delay_ns} is not above query_ns {config.query_ns}: an object could be deleted "
                            "while a query still reads it; set a longer delay")
    for name in ("query_ns", "retry_ns", "horizon_ns", "lease_ns", "retry_failed_ns", "jobs", "tombstones", "hand_outs",
                 "failures"):
        if getattr(config, name) < 1:
            raise ConfigRefused(f"{name} is {getattr(config, name)}, and has to be positive")
    times = [(name, value) for name, value in config._asdict().items() if name.endswith("_ns")]
    for name, value in (*times, *(("age_ns of a level", level.age_ns) for level in config.levels)):
        if value > LONGEST_NS:
            raise ConfigRefused(f"{name} is {value}, and may be {LONGEST_NS} at most, which are 100 years")
    if config.horizon_ns < config.retry_ns:
        raise ConfigRefused(f"horizon_ns {config.horizon_ns} is below retry_ns {config.retry_ns}: a block would be refused "
                            "while its writer still tries to add it; set a longer horizon")
    if any(level.blocks < 1 for level in config.levels):
        raise ConfigRefused("a level is compacted from 0 blocks on; set at least 1")
    return config
