"""Testing a client: a run without faults behind the recorder, compared with the same run on the server; all single faults.

The client is examples/committer, with 12 mutations. Its own process takes most of a run, so the time of all runs is told
apart from what the clients ran for."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from highwater.clients.campaign import Settings, campaign
from highwater.clients.faults import FAULTS, Fault
from highwater.clients.trial import Asked, Place, environment_of
from highwater.gate.run import cores

ROUNDS, PAIRS = 4, 10
MOST, MOST_S = 2.0, 180
COMMITTER = Path(__file__).parents[1] / "examples/committer/committer.py"


def main() -> bool:
    from highwater.servers.leash import CannotStart
    from highwater.servers.s3 import s3_server

    try:
        with s3_server() as url, tempfile.TemporaryDirectory() as folder:
            return measure(url, Path(folder))
    except CannotStart as error:
        print(f"not measured: {error}")
        return False


def measure(url: str, folder: Path) -> bool:
    """Print the times. Return True if they are longer than the targets allow."""
    from highwater.impl.stores.s3 import connect
    from highwater.servers.s3 import CREDENTIALS

    os.environ.update(CREDENTIALS)
    command, numbers = (sys.executable, str(COMMITTER), "{url}", "one", str(ROUNDS)), iter(range(10**6))
    check = (sys.executable, str(COMMITTER), "check", "{url}")

    def place(number: int) -> Place:
        found = Place(url, f"bench-{next(numbers)}")
        connect(url).create_bucket(Bucket=found.bucket)
        return found

    def settings_of(asked: Asked, faults: dict[str, Fault], name: str) -> Settings:
        (folder / name).mkdir()
        return Settings(asked, faults, place, lambda *_: None, folder / name, cores())

    def direct(number: int) -> None:
        where = place(number)
        subprocess.run([word.replace("{url}", where.url) for word in command], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, **environment_of(where)})

    def recorded(number: int) -> None:
        settings = settings_of(Asked({"client": command}, environment=CREDENTIALS), {}, f"clean-{number}")
        list(campaign(settings, 0, 0, 0, lambda: False, lambda result: None))

    times_s: tuple[list[float], list[float]] = [], []
    for number in range(PAIRS):
        for way, run in enumerate((direct, recorded)):
            began_s = time.perf_counter()
            run(number)
            times_s[way].append(time.perf_counter() - began_s)
    ratio = statistics.median(b / a for a, b in zip(*times_s))
    print(f"without faults: {statistics.median(times_s[0]):.2f} s direct, {statistics.median(times_s[1]):.2f} s as a trial: "
          f"{ratio:.2f} times (median of {PAIRS} pairs); target: at most {MOST}", flush=True)
    began_s = time.perf_counter()
    settings = settings_of(Asked({"client": command}, check, environment=CREDENTIALS), FAULTS, "faults")
    found = list(campaign(settings, 0, 0, 10**6, lambda: False, lambda result: None))
    took_s, clients_s = time.perf_counter() - began_s, sum(sum(one.seconds.values()) for one in found)
    print(f"{len(found)} runs of {len(found[0].mutations['client'])} mutations, {cores()} at a time: {took_s:.0f} s; clients "
          f"ran for {clients_s:.0f} s in all; target: at most {MOST_S} s beside that")
    return ratio > MOST or took_s - clients_s > MOST_S
