"""Map the log of a metadata index whose jobs compact one block each to the actions of model/protocols/compaction_queue.py.

A batch is one block. A worker of the model is a lease: nobody can tell from the log why a lease ended. A poll is two entries.
Its plan is made at the first, and has its effect at the second, where it is judged.

    AddBlock      Arrive, of a block that waits now; one that came between the two entries of a poll arrives after it
    UpdatePlan    Finish and Report of what was reported; Report, too, by a worker that has lost its job; then Stall for each
                  lease that was over when the plan was made, or not yet, because nobody sees it; then Poll

After each entry the index must show the model's queue and jobs, in order: whether a worker has each, and has reported, and how
often it has failed.
"""

from typing import Any

from highwater.impl.codecs.index.messages import IN_PROGRESS, AddBlock, GetPlan, UpdatePlan
from highwater.model.protocols import compaction_queue as m
from highwater.traces.form import Keys
from highwater.traces.protocols.compaction_queue_calls import CALLS, JUDGES
from highwater.traces.protocols.indexed.answers import OK
from highwater.traces.protocols.indexed.log import KEYS, Entry, IndexTrace
from highwater.traces.protocols.indexed.rows import Shown
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import refiner_without_witnesses

JOBS, FAILURES = 2, 1  # the limits of the index
LEASES = 8  # that are followed at once
Lease = tuple[str, int]  # a job's name, and the log index of its assignment


def constants(batches: int) -> m.Constants:
    """Return the constants of the model for this number of batches, without other bounds."""
    return m.Constants(BATCHES=batches, WORKERS=LEASES, JOBS=JOBS, FAILURES=FAILURES, MAX_DEATHS=None, MAX_LOST=None,
                       MAX_STALLS=None)


def refiner(c: m.Constants) -> Refiner:
    return refiner_without_witnesses(m.model(c))


class Trace(IndexTrace):
    """Refines the queue of a metadata index."""

    calls, claims = CALLS, JUDGES

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.batches: dict[str, m.Batch] = {}  # by ULID
        self.arriving: list[m.Batch] = []  # came after the first entry of a poll
        self.plan: Any = GetPlan()  # of the latest poll
        self.planned_ns = 0  # the time of the log then
        self.workers: dict[Lease, str] = {}  # -> the model's worker

    # --- entries

    def _applied(self, entry: Entry, before: Shown, after: Shown) -> None:
        command = entry.command
        if isinstance(command, AddBlock):
            was = {one.ulid for one in before.waiting}
            self.arriving += [self.batches.setdefault(one.ulid, len(self.batches)) for one in after.waiting
                              if one.ulid not in was]
        elif isinstance(command, GetPlan):
            self._arrive()
            self.plan, self.planned_ns = command, after.clock_ns
        elif isinstance(command, UpdatePlan) and entry.code == OK:
            if entry.done.evicted_jobs:
                self._arrive()  # the batch that is given up waits behind them
            self._reports(entry.done)
            if self.plan.assign_jobs_max:
                self._polls(entry.done, before, after)
            self._compare(after)
            self._arrive()
        self._compare(after)

    def _arrive(self) -> None:
        for b in self.arriving:
            self._do("Arrive", b)
        self.arriving = []

    def _reports(self, done: Any) -> None:
        """Take the reports of the poll."""
        ended = {part.state.name for part in done.completed_jobs}
        renewed = {part.state.name for part in done.updated_jobs if not part.state.paused}
        for report in self.plan.status_updates:
            me = self.workers.get((report.name, report.token))
            if report.name in ended | renewed:
                if me is None:
                    raise self._refused("Worker.Finish", f"{report.name} is renewed or ended by a worker that has lost it")
                self._do("Finish" if report.name in ended else "Report", me=me, or_stays=report.name in renewed)
            elif me is not None and self._is_lost(me):
                self._do("Report", me=me)

    def _is_lost(self, me: str) -> bool:
        """Tell whether a worker has lost its job, in each state that the model may be in."""
        number = int(me.partition("#")[2])
        return all(workers[number].batch is not None and not m.is_mine(s, number, workers[number])
                   for s, workers in self.refiner.unpacked())

    def _polls(self, done: Any, before: Shown, after: Shown) -> None:
        told = {part.state.name for part in done.completed_jobs}
        told |= {part.state.name for part in done.updated_jobs if not part.state.paused}
        for name, job in before.jobs.items():
            if job.status == IN_PROGRESS and job.lease_expires_at <= self.planned_ns and name not in told:
                me = self.workers.get((name, job.token))
                if me is None:
                    raise self._refused("Worker.Stall", f"{name} is of a worker that has it no more in the model")
                self.refiner.event(me, (0, 0, me, "Stall"), may_be_over)
        me = self._idle()
        self._do("Poll", me=me, or_stays=True)
        got = None
        for part in done.assigned_jobs:
            self.workers[part.state.name, part.state.token] = me
            got = self.batches[before.plans[part.state.name].source_blocks[0]]
        if not self.refiner.keep(me, lambda s, w: w.batch == got):
            raise self._refused("Worker.Poll", f"the worker gets batch {got}, and in the model "
                                f"{self.refiner.local(me).batch}")

    def _idle(self) -> str:
        """Return a worker that has no job. One that has lost its job stops."""
        for number in range(LEASES):
            me = f"Worker#{number}"
            if all(w.batch is None for w in self.refiner.locals(me)):
                return me
        for number in range(LEASES):
            me = f"Worker#{number}"
            if self._is_lost(me):
                self._do("Report", me=me)
                self.workers = {lease: of for lease, of in self.workers.items() if of != me}
                return me
        raise self._refused("Worker.Poll", f"{LEASES} leases hold at once")

    # --- what is compared

    def _compare(self, after: Shown) -> None:
        """Keep the states that show what the index shows. Raises Failure if none does."""
        if without := after.jobs.keys() - after.plans.keys():
            raise self._refused("index.jobs", f"job {min(without)} has no plan")
        jobs = tuple((self.batches[after.plans[name].source_blocks[0]], job.status == IN_PROGRESS, job.heard,
                      min(job.failures, FAILURES)) for name, job in sorted(after.jobs.items(), key=planned))
        queue = tuple(self.batches[one.ulid] for one in after.waiting)
        coming = tuple(self.arriving)

        def same(s: m.Shared, w: Any) -> bool:
            return queue == s.queue + coming and jobs == tuple([(j.batch, j.taken, j.heard, j.failures) for j in s.jobs])

        if not self.refiner.keep("", same):
            s = self.refiner.shared()
            raise self._refused("index.queue", f"the index has the queue {queue} and the jobs {jobs}, and the model {s.queue}, "
                                f"{s.jobs}")


def planned(job: tuple[str, Any]) -> tuple[int, str]:
    return job[1].added_at, job[0]


def may_be_over(event: tuple) -> Match:
    """The lease of a worker has ended, or not yet; or it had ended before."""
    return Match(event[2], (event[3], None), (), unheard=True)
