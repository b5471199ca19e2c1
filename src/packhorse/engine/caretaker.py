"""What every worker does now and then for all: take back lost leases, release what it can run, prune.

There is no leader: each duty is bounded, harmless when several do it at once, and its failure stops no other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from packhorse.engine.losses import WorkerNames, publish_losses
from packhorse.engine.settlement_queue import DeadHook, no_effects
from packhorse.engine.unseen import report_unseen
from packhorse.model import backoff, limits
from packhorse.model.clock import Clock
from packhorse.model.job import State
from packhorse.model.randomness import Randomness
from packhorse.model.reason import WaitReason
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

MAX_BATCH, PRUNE_MIN_BATCH = 500, 20
RETRY_BACKOFF = backoff.exponential(0.5, cap=30, jitter=0.5)
STALLED_PAUSE_US = 50_000
MIN_PAUSE_US = 5_000
REST_FACTOR = 9  # times what a duty took, if it has more to do: a tenth of the time is its share


class Duty(msgspec.Struct, frozen=True):
    """Something to do about every so often; it answers whether there is more to do soon."""

    name: str
    every: int
    run: Callable[[], Awaitable[bool]]


class Caretaker:
    """Does its duties at times that differ from worker to worker."""

    def __init__(self, duties: Sequence[Duty], *, clock: Clock, chance: Randomness, telemetry: Telemetry) -> None:
        self._duties = tuple(duties)
        self._clock, self._chance, self._telemetry = clock, chance, telemetry

    async def run(self) -> None:
        """Go round until cancelled."""
        async with asyncio.TaskGroup() as all_of_them:
            for duty in self._duties:
                all_of_them.create_task(self._keep(duty))

    async def _keep(self, duty: Duty) -> None:
        pause, failures, stood = round(duty.every * self._chance() / 2), 0, False
        while True:
            due = self._clock.steady() + pause
            await self._clock.sleep(pause)
            if not stood and self._clock.steady() > due + duty.every:
                # this process stood still: first it sees to its own leases, or it would take them back; but once only,
                # for a loop that is always late would never come to its duties
                pause, stood = STALLED_PAUSE_US, True
                continue
            stood = False
            begun = self._clock.steady()
            try:
                more, failures = await duty.run(), 0
                took = self._clock.steady() - begun
                pause = (
                    max(MIN_PAUSE_US, REST_FACTOR * took) if more else round(duty.every * (0.75 + self._chance() / 2))
                )
            except Exception as error:  # noqa: BLE001 - one duty that fails must not stop the others, nor itself
                failures += 1
                self._telemetry.emit(EventName.DUTY_FAILED, detail=duty.name, error=error, count=failures)
                pause = max(duty.every, RETRY_BACKOFF.delay(failures, self._chance()))


def duties(
    store: Store,
    tasks: Callable[[], Sequence[str] | None],
    *,
    lease: int,
    max_lost: int,
    telemetry: Telemetry,
    ended: Callable[[], int] = lambda: 0,
    on_dead: DeadHook = no_effects,
) -> list[Duty]:
    """The duties of every worker; ``ended`` is how many jobs it has settled so far."""
    settled = swept = 0
    names = WorkerNames(store)

    async def reap() -> bool:
        lost = await store.jobs.reap(MAX_BATCH, max_lost=max_lost)
        known = await names.of([one.worker for one in lost]) if lost else {}
        for one in lost:
            holder = known.get(one.worker)
            telemetry.emit(
                EventName.LOST, job=one.id, count=one.lost, detail=one.state, holder=holder, attempts=one.attempt
            )
        if lost:
            await publish_losses(store, lost, known)
        if dead := [one.id for one in lost if one.state is State.DEAD]:
            jobs = await store.jobs.get(dead, bodies=False)
            events = [event for job in jobs if job is not None for event in on_dead(job.id, job.headers)]
            if events:
                await store.streams.publish(events)
        return len(lost) == MAX_BATCH

    async def remember_workers() -> bool:
        await names.refresh()
        return False

    async def release() -> bool:
        known, count = tasks(), 0
        parts = (
            [None] if known is None else [known[at : at + limits.ITEMS] for at in range(0, len(known), limits.ITEMS)]
        )
        for some in parts:
            count += await store.jobs.release(WaitReason.UNROUTABLE, tasks=some, limit=MAX_BATCH)
        if count:
            telemetry.emit(EventName.RELEASED, count=count)
        return count >= MAX_BATCH

    async def prune() -> bool:
        # Twice what has ended since: what piles up goes in the end, and jobs that come one by one do not wait for a store
        # that prunes many at once. Twice as many as were over, too: expired pieces may come faster than jobs end.
        nonlocal settled, swept
        before, settled = settled, ended()
        limit = min(max(PRUNE_MIN_BATCH, 2 * (settled - before), 2 * swept), MAX_BATCH)
        pruned = await store.jobs.prune(limit)
        if pruned.jobs or pruned.others:
            telemetry.emit(EventName.PRUNED, count=pruned.jobs, detail=f"and {pruned.others} expired entries")
        await report_unseen(store, telemetry, pruned.dead)
        swept = pruned.others
        return pruned.more

    async def maintain() -> bool:
        tidied = await store.maintain()
        if tidied:
            telemetry.emit(EventName.MAINTAINED, count=len(tidied), detail=", ".join(tidied[:10]))
        return False

    return [
        Duty("reap", lease // 3, reap),
        Duty("remember workers", lease * 2 // 3, remember_workers),  # a beat lasts a lease
        Duty("release", lease // 3, release),
        Duty("prune", lease // 6, prune),
        Duty("maintain", 1_000_000, maintain),
    ]
