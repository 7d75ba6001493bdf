"""Our simulator and its peers in Python on one scenario: `python -m bench.peers.simulators [MUTANT]`, runs/s per core.

Claim: the work is the same. The scenario is bench/simulation.py's, with the implementation of impl/ unchanged. Faults and their
weights are those of dst/world/faults.py, drawn again for each run. traces/histories/history.py decides whether callers came to
harm. Clients, store and faults use asyncio here, as simloop and simloom require: a request is a sleep, a late request is a
callback, and a client is a host that they crash and restart. One second of their loops is a millisecond. The strategy is our
`times`: the next event is the earliest.

The differences favour the peers. Each run of ours is checked against the model request by request, and its digest is computed.
Theirs only record what they did and hash it on failure, and record no more of the store than the judge needs. Both collect
garbage after each run. The rows "spared" keep the collector from visiting older objects (`gc.freeze`), which neither peer does.

One thing simloop cannot do: it cancels a crashed client, so that its `finally` blocks run. simloom stops the client as we do.

All use the same interpreter, one process each, by turns. The peers need Python 3.12. Without it, or if pip cannot fetch them,
they are not measured and a line says why. With a MUTANT of the zoo, the first seed that finds it is printed.
"""

import asyncio
import contextvars
import gc
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers.run import HERE, PeerFailed, PeerMissing, kept
from bench.peers.run import run as run_program
from bench.simulation import SHAPE, ours
from highwater.dst.actors import QuietMetrics
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.scenarios.sequenced_metadata_boundary import Build, namespace, production, waits_ms
from highwater.dst.world.faults import Weights, long_time_ms, swarm
from highwater.dst.world.network import LATENCY_MS, TIMEOUT_MS
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, Indefinite, OutcomeUnknown, Unavailable
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import World
from highwater.traces.event import EMPTY, Event
from highwater.traces.histories.history import damage, too_young

ROOT = HERE.parent.parent
NEWEST = ("python3.14", "python3.13", "python3.12")
OUR, TURNS = "highwater", 7
SPARED = ", spared"
EACH = {OUR: 1_000, "simloop" + SPARED: 200, "simloop": 50, "simloom" + SPARED: 200, "simloom": 50}  # runs a turn
WARM = {OUR: 4_000, "simloop": 50, "simloom": 50}
MOST_REQUESTS = 2_000  # many times what any run needs
SEEDS = range(10_000)  # in which a mutant is looked for
CHANGES = ("create", "update", "put", "delete")
AROUND_MS = waits_ms(SHAPE)
CUT_OFF = ("refused", "request_lost", "reply_lost")


class Harm(Exception):
    """The judge's verdict that callers came to harm."""


# --- the scenario

class Run:
    """One run in the current event loop. `hosts`: how the peer draws, and how it starts, crashes and restarts a client."""

    def __init__(self, hosts: Any, build: Build, tally: Counter):
        self.hosts, self.build, self.tally, self.choose = hosts, build, tally, hosts.choose
        self.loop = asyncio.get_running_loop()
        self.outside = contextvars.copy_context()  # outside all hosts: a request in flight outlives its sender
        self.over, self.under_way, self.requests = self.loop.create_future(), 0, 0
        self.store = MemoryStore(self.now_ms, SHAPE.page_size)
        self.namespace, self.events, self.begun = namespace(SHAPE), [], 0
        weights = swarm(self.choose, Weights())._asdict()
        self.fates = [name for name, weight in weights.items() for _ in range(weight)]
        self.cut_off: dict[str, tuple[int, str]] = {}
        self.left = {f"Writer#{i}": SHAPE.commits for i in range(SHAPE.writers)}
        self.left |= {f"Collector#{i}": SHAPE.rounds for i in range(SHAPE.collectors)}

    async def main(self) -> None:
        """All clients come to their end, and all that is under way arrives. Raises Harm."""
        await self.store.create(self.namespace.key(FIRST_ID), UPDATES.encode(Manifest()))
        self.under_way = len(self.left)
        for name in self.left:
            self.hosts.start(name, partial(self.live, name))
        await self.over
        files = (await self.store.list_page(self.namespace.prefix)).entries
        if not files:
            raise Harm("there is no file left")
        found = damage(self.events, self.namespace, (await self.store.get(files[-1].key)).body)
        found += filter(None, [too_young(self.events, self.namespace, SHAPE.min_age_ms - SHAPE.skew_ms)])
        if found:
            raise Harm("; ".join(found))

    def now_ms(self) -> int:
        return int(self.loop.time())

    async def live(self, name: str) -> None:
        """Begin, or begin again after a crash, with what is left to do, and knowing nothing."""
        role, _, number = name.partition("#")
        store = self.build(World(ClientStore(self, name), ClientClock(self), None, QuietMetrics()), self.namespace,
                           SHAPE.manifest, int(number))
        try:
            await (self.writer if role == "Writer" else self.collector)(name, store)
        except Exception as error:  # the implementation let out what it never should
            self.fail(error)
        else:
            self.ended()

    def fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)

    def ended(self) -> None:
        self.under_way -= 1
        if not self.under_way and not self.over.done():
            self.over.set_result(None)

    async def writer(self, name: str, store: MetadataStore) -> None:
        while self.left[name]:
            self.left[name] -= 1
            self.begun += 1
            update = f"{name.partition('#')[2]}.{self.begun}"
            while True:
                file_id = 0
                try:
                    file_id, _ = await store.update(lambda _, manifest, update=update: manifest.with_update(update))
                    told = "committed"
                except Definite:
                    told = "failed"
                except ObjectVersionBehindBoundary:
                    told = "refused"
                except Indefinite:
                    told = "unknown"
                self.tally[told] += 1
                self.events.append(Event(self.now_ms(), 0, name, "told", told, self.namespace.key(file_id) if file_id else "",
                                         "", 0, "", update.encode()))
                if told != "failed":
                    break
            if self.left[name] and SHAPE.think_ms > 1:
                await asyncio.sleep(max(self.choose("think", SHAPE.think_ms), 1))

    async def collector(self, name: str, store: MetadataStore) -> None:
        while self.left[name]:
            self.left[name] -= 1
            await asyncio.sleep(SHAPE.min_age_ms // 2 + self.choose("pause", 2 * SHAPE.min_age_ms))
            try:
                await store.collect(SHAPE.min_age_ms)
            except (Definite, Indefinite):
                continue

    # --- the life of a request, as dst/world/network.py has it

    async def ask(self, name: str, op: str, *args: Any) -> Any:
        self.tally["requests"] += 1
        self.requests += 1
        if self.requests > MOST_REQUESTS:
            self.fail(Harm(f"more than {MOST_REQUESTS} requests"))
        there_ms, fate = 1 + self.choose("latency", LATENCY_MS), self.fate(name, op)
        if fate == "ok":
            await asyncio.sleep(there_ms)
            return self.apply(name, op, *args)
        if fate == "stall":
            await asyncio.sleep(there_ms)
            try:
                return self.apply(name, op, *args)
            finally:
                await asyncio.sleep(self.long_ms("stall"))
        if fate in ("refused", "conflict"):
            await asyncio.sleep(there_ms)
            raise Unavailable(f"{op}: {fate}")
        if fate == "crash":
            await self.crash(name, there_ms, partial(self.apply, name, op, *args))
        if fate == "reply_lost":
            self.later(there_ms, partial(self.apply, name, op, *args))
        elif fate == "late":
            self.later(TIMEOUT_MS + self.long_ms("late"), partial(self.apply, name, op, *args))
        elif fate != "request_lost":
            raise AssertionError(f"there is no fault {fate!r} here")
        await asyncio.sleep(TIMEOUT_MS)
        raise (OutcomeUnknown if op in CHANGES else Unavailable)(f"{op}: no reply within {TIMEOUT_MS} ms")

    def fate(self, name: str, op: str) -> str:
        drawn = self.choose("fate", 1000)
        if self.now_ms() > SHAPE.chaos * SHAPE.min_age_ms:
            return "ok"
        fate = self.fates[drawn] if drawn < len(self.fates) else "ok"
        until_ms, kind = self.cut_off.get(name, (0, ""))
        if self.now_ms() < until_ms:
            fate = kind
        elif fate == "cut_off":
            fate = CUT_OFF[self.choose("cut_off", len(CUT_OFF))]
            self.cut_off[name] = self.now_ms() + self.long_ms("late"), fate
        return "ok" if fate == "conflict" and op not in CHANGES else fate

    def long_ms(self, site: str) -> int:
        return long_time_ms(self.choose, site, AROUND_MS)

    async def crash(self, name: str, there_ms: int, apply: Callable[[], Any]) -> None:
        """Before the request leaves; with it under way; or before its reply."""
        when = self.choose("crash", 3)
        if when == 1:
            self.later(there_ms + self.long_ms("late"), apply)
        elif when == 2:
            self.later(there_ms, apply)
        self.later(there_ms + 1 if when == 2 else 0, self.crashed, name)
        await self.loop.create_future()

    def crashed(self, name: str) -> None:
        self.tally["crash"] += 1
        self.hosts.crash(name)
        self.later(self.long_ms("restart"), self.hosts.restart, name, partial(self.live, name))

    def later(self, delay_ms: int, action: Callable, *args: Any) -> None:
        self.under_way += 1
        self.loop.call_later(delay_ms, self.arrived, action, args, context=self.outside)

    def arrived(self, action: Callable, args: tuple) -> None:
        try:
            action(*args)
        except Definite:
            pass  # nobody waits for the reply
        self.ended()

    def apply(self, name: str, op: str, *args: Any) -> Any:
        """The store's coroutines await nothing."""
        try:
            getattr(self.store, op)(*args).send(None)
        except StopIteration as done:
            if op in ("create", "delete"):
                self.events.append(EMPTY._replace(t_ms=self.now_ms(), client=name, kind="applied", op=op, key=args[0],
                                                  status=200 if op == "create" else 204))
            return done.value
        raise AssertionError(f"{op} awaits something")


class ClientStore:
    """The ObjectStore that a client sees."""

    caches = False

    def __init__(self, run: Run, name: str):
        for op in ("create", "update", "put", "get", "get_range", "get_if_changed", "head", "list_page", "delete"):
            setattr(self, op, partial(run.ask, name, op))


class ClientClock:
    def __init__(self, run: Run):
        self.now_ms = run.now_ms

    def sleep_ms(self, duration_ms: int) -> Awaitable[None]:
        return asyncio.sleep(max(duration_ms, 1))


# --- the peers

class Simloop:
    """Hosts of simloop; a crash cancels the host's tasks."""

    def __init__(self, simloop: Any):
        self.net, self.draw = asyncio.get_running_loop().net, simloop.sim.random.randrange

    def choose(self, site: str, bound: int) -> int:
        return self.draw(bound)

    def start(self, name: str, work: Callable[[], Coroutine]) -> None:
        self.net.host(name).create_task(work())

    def crash(self, name: str) -> None:
        self.net.crash(name)

    def restart(self, name: str, work: Callable[[], Coroutine]) -> None:
        self.net.restart(name)
        self.start(name, work)


class Simloom:
    """Hosts of simloom; a crash stops the host's tasks. Choices come from its tape."""

    def __init__(self, world: Any):
        self.world, self.choose = world, asyncio.get_running_loop().tape.draw

    def start(self, name: str, work: Callable[[], Coroutine]) -> None:
        self.world.host(name).spawn(work)

    def crash(self, name: str) -> None:
        self.world.host(name).crash()

    def restart(self, name: str, work: Callable[[], Coroutine]) -> None:
        self.world.host(name).restart()


Found = tuple[int, str] | None  # the first seed that failed, and how


def in_simloop(seeds: range, build: Build, tally: Counter) -> Found:
    simloop = importlib.import_module("simloop")

    async def main() -> None:
        await Run(Simloop(simloop), build, tally).main()

    report = simloop.explore(main, seeds)
    return report and (report.seed, f"{type(report.exception).__name__}: {report.exception}")


def in_simloom(seeds: range, build: Build, tally: Counter) -> Found:
    simloom = importlib.import_module("simloom")

    async def main(world: Any) -> None:
        await Run(Simloom(world), build, tally).main()

    found = simloom.explore(main, runs=len(seeds), start_seed=seeds.start).failures
    return (found[0].seed, f"{found[0].error}: {found[0].message}") if found else None


def in_ours(seeds: range, build: Build, tally: Counter) -> Found:
    found: list[tuple[int, str]] = []

    def each(outcome: Any) -> None:
        tally["requests"] += outcome.requests
        harm = outcome.message or (build is not production and too_young(outcome.events, namespace(SHAPE), SHAPE.min_age_ms))
        if harm:
            found.append((outcome.seed, f"{outcome.kind or 'safety'}: {harm}"))

    if build is production:
        ours(seeds, each)
    else:  # until the first is found, and judged as the peers are
        for seed in seeds:
            ours(range(seed, seed + 1), each, build, by_model=False)
            if found:
                break
    return found[0] if found else None


SIMULATORS: dict[str, Callable[[range, Build, Counter], Found]] = {OUR: in_ours, "simloop": in_simloop, "simloom": in_simloom}


# --- a process each

def serve(name: str) -> None:
    """Answer each line of standard input by one line; both are JSON."""
    name, spared, _ = name.partition(SPARED)
    simulator = SIMULATORS[name]
    simulator(range(SEEDS.stop, SEEDS.stop + WARM[name]), production, Counter())
    if spared:
        gc.collect()
        gc.freeze()
    for line in sys.stdin:
        low, high, mutant = json.loads(line)
        tally, start = Counter(), time.process_time()
        found = simulator(range(low, high), ZOO[mutant][1] if mutant else production, tally)
        print(json.dumps([time.process_time() - start, found, tally]), flush=True)


@contextmanager
def started(name: str, python: str) -> Iterator[Callable[..., tuple[float, Found, dict[str, int]]]]:
    """Yield ask(low, high, mutant) -> CPU seconds, first failure, counts. Raises PeerMissing, PeerFailed."""
    peer, path = name.partition(SPARED)[0], [ROOT]
    if peer != OUR:
        path.append(kept(peer, [HERE / f"{peer}.lock"], partial(fetch, peer)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONHASHSEED": "0"}
    with subprocess.Popen([python, "-B", "-m", "bench.peers.simulators", "--serve", name], cwd=ROOT, env=environment, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        def ask(low: int, high: int, mutant: str = "") -> tuple[float, Found, dict[str, int]]:
            print(json.dumps([low, high, mutant]), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            if not answer:
                raise PeerFailed(f"{name} ended with exit status {process.wait()}")
            return tuple(json.loads(answer))

        try:
            yield ask
        finally:
            process.stdin.close()


def fetch(name: str, scratch: Path, out: Path) -> None:
    try:
        run_program(name, [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                           "--require-hashes", "--only-binary", ":all:", "--python-version", "3.12", "-d", scratch,
                           "-r", HERE / f"{name}.lock"], scratch)
    except PeerFailed as error:
        raise PeerMissing(f"pip could not download it ({error})") from None
    wheel, = scratch.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(out)


def python_program() -> str:
    """Find Python 3.12 or newer: this one, one on PATH, or one of pyenv's. Raises PeerMissing if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [shutil.which(name) for name in NEWEST] + sorted(map(str, pyenv.glob("versions/3.*/bin/python3")), reverse=True)
    for program in (sys.executable, *filter(None, found)):
        test = [program, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]
        if subprocess.run(test, capture_output=True).returncode == 0:
            return program
    raise PeerMissing(f"there is no Python 3.12 or newer; looked for {', '.join(NEWEST)} on PATH")


def main(arguments: Sequence[str] = ()) -> int:
    if "--serve" in arguments[:1]:
        serve(arguments[1])
        return 0
    if arguments[1:] or not set(arguments) <= set(ZOO):
        sys.exit(f"there is no mutant {arguments[-1]!r}; choose from {', '.join(ZOO)}")
    try:
        python = python_program()
    except PeerMissing as missing:
        print(f"simloop, simloom not measured: {missing}")
        return 0
    try:
        return look_for(python, arguments[0]) if arguments else measure(python)
    except PeerFailed as failed:
        print(failed)
        return 1


def look_for(python: str, mutant: str) -> int:
    missed = 0
    for name in SIMULATORS:
        try:
            with started(name + SPARED, python) as ask:
                seconds, found, _ = ask(SEEDS.start, SEEDS.stop, mutant)
        except PeerMissing as missing:
            print(f"{name:10} not asked: {missing}")
            continue
        missed |= found is None
        print(f"{name:10} {mutant} " + (f"found by seed {found[0]} after {seconds:.1f} s: {found[1]}" if found else
                                        f"not found in {len(SEEDS)} runs"), flush=True)
    return missed


def measure(python: str) -> int:
    rates: dict[str, list[float]] = {}
    requests = Counter()
    with ExitStack() as processes:
        ask = {}
        for name in EACH:
            try:
                ask[name], rates[name] = processes.enter_context(started(name, python)), []
            except PeerMissing as missing:
                print(f"{name:15} not measured: {missing}")
        for turn in range(TURNS):
            for name in ask:
                seconds, found, counted = ask[name](turn * EACH[name], turn * EACH[name] + EACH[name])
                if found:
                    raise PeerFailed(f"{name}: seed {found[0]}, {found[1]}")
                rates[name].append(EACH[name] / seconds)
                requests[name] += counted["requests"]
    for name, found in rates.items():
        ratio = f"; {OUR} does {median(rates[OUR]) / median(found):.1f} times as many" if name != OUR else ""
        print(f"{name:15} {median(found):7,.0f} runs/s/core, {requests[name] / TURNS / EACH[name]:.1f} requests a run "
              f"(median of {TURNS} x {EACH[name]} runs){ratio}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
