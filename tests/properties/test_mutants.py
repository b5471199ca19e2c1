"""The machine can fail: stores that break one rule each are found out, by rules alone and in a bounded time."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from packhorse.model import limits
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.ids import new_id, new_token
from packhorse.model.job import NewJob, Pruned, Receipt, State, StoredJob
from packhorse.model.lease import ClaimRequest, Exchange, Lease, Lost, Renewed, Settlement, Verdict
from packhorse.model.outcome import Again, Held, Wait
from packhorse.model.page import Filter, Page
from packhorse.model.record import DELIVERED, delivery_key
from packhorse.stores import open_store
from packhorse.stores.contract import Jobs, Store
from packhorse.testing import TurnedClock
from tests.conformance import test_lanes
from tests.properties.ground import Ground
from tests.properties.machine import Machine
from tests.properties.test_machine import chosen


class Mutant:
    """A correct store's jobs, but for what a subclass gets wrong."""

    def __init__(self, store: Store) -> None:
        self.store: Store = store
        self.jobs: Jobs = store.jobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.jobs, name)


class Rewriting(Mutant):
    """Rewrites every settlement before it is written."""

    def rewrite(self, settlement: Settlement) -> Settlement:
        raise NotImplementedError

    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        return await self.jobs.exchange([self.rewrite(it) for it in settlements], ask)


class TheTokenIsIgnored(Mutant):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.tokens: dict[bytes, bytes] = {}

    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        forged = [replace(it, lease=self.forged(it.lease)) for it in settlements]
        answer = await self.jobs.exchange(forged, ask)
        self.tokens |= {lease.id: lease.token for lease in answer.leases}
        return answer

    def forged(self, lease: Lease) -> Lease:
        return replace(lease, token=self.tokens.get(lease.id, lease.token))


class ARepeatedSettlementIsLost(Mutant):
    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        answer = await self.jobs.exchange(settlements, ask)
        return replace(answer, verdicts=tuple(mistaken(it) for it in answer.verdicts))


def mistaken(verdict: Verdict) -> Verdict:
    return Verdict.LOST if verdict is Verdict.REPEATED else verdict


class TheSameAskClaimsAnew(Mutant):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.seen: set[bytes] = set()

    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        if ask and ask.token in self.seen:
            ask = replace(ask, token=new_token())
        self.seen |= {ask.token} if ask else set()
        return await self.jobs.exchange(settlements, ask)


class TheBytesOfAnAskAreIgnored(Mutant):
    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        return await self.jobs.exchange(settlements, replace(ask, max_bytes=limits.EXCHANGE_BYTES) if ask else None)


class WhatIsGivenBackIsCharged(Mutant):
    """The same ask again for fewer bytes: leases that do not fit any more count as attempts."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.given: dict[bytes, set[bytes]] = {}

    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        answer = await self.jobs.exchange(settlements, ask)
        if ask is None:
            return answer
        ids = {lease.id for lease in answer.leases}
        if ask.max_bytes == limits.EXCHANGE_BYTES:
            self.given[ask.token] = ids
            return answer
        database: Any = self.store._handle.database._writing  # type: ignore[attr-defined]
        for job in self.given.pop(ask.token, ids) - ids:
            seq = "(SELECT seq FROM packhorse_jobs WHERE id = ?)"
            database.execute(f"UPDATE packhorse_ready SET attempt = attempt + 1 WHERE seq = {seq}", (job,))
        return answer


class LeasesComeWorstFirst(Mutant):
    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        answer = await self.jobs.exchange(settlements, ask)
        return replace(answer, leases=answer.leases[::-1])


class EffectsOfAStaleTokenAreWritten(Mutant):
    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        answer = await self.jobs.exchange(settlements, ask)
        for settlement, verdict in zip(settlements, answer.verdicts, strict=True):
            if verdict is Verdict.LOST:
                await self.store.streams.publish([it for it in settlement.effects if isinstance(it, Publish)])
        return answer


class EffectsOfACancelledRetryAreWritten(Mutant):
    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        jobs = await self.jobs.get([it.lease.id for it in settlements])
        answer = await self.jobs.exchange(settlements, ask)
        for settlement, job, verdict in zip(settlements, jobs, answer.verdicts, strict=True):
            stopped = job is not None and job.cancelling and isinstance(settlement.outcome, Again | Wait)
            if stopped and verdict is Verdict.WRITTEN:
                await self.jobs.enqueue([it.job for it in settlement.effects if isinstance(it, Enqueue)])
        return answer


class TheAttemptIsNotCounted(Rewriting):
    def rewrite(self, settlement: Settlement) -> Settlement:
        outcome = settlement.outcome
        return (
            replace(settlement, outcome=replace(outcome, charged=False)) if isinstance(outcome, Again) else settlement
        )


class AHeldStepIsWrittenTwice(Rewriting):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.step = 0

    def rewrite(self, settlement: Settlement) -> Settlement:
        self.step += 1
        return replace(settlement, outcome=Held(self.step)) if isinstance(settlement.outcome, Held) else settlement


class AnExpectationIsIgnored(Rewriting):
    def rewrite(self, settlement: Settlement) -> Settlement:
        effects = (replace(it, expect=None) if isinstance(it, Put) else it for it in settlement.effects)
        return replace(settlement, effects=tuple(effects))


class WhatIsThereAlreadyIsWaitedFor(Rewriting):
    def rewrite(self, settlement: Settlement) -> Settlement:
        outcome = settlement.outcome
        if not isinstance(outcome, Wait) or outcome.on is None:
            return settlement
        return replace(settlement, outcome=replace(outcome, on=replace(outcome.on, after=2**52)))


class Enqueuing(Mutant):
    """Rewrites every job before it is stored."""

    def rewrite(self, job: NewJob) -> NewJob:
        raise NotImplementedError

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        return await self.jobs.enqueue([self.rewrite(job) for job in jobs])


class UniqueKeysAreIgnored(Enqueuing):
    def rewrite(self, job: NewJob) -> NewJob:
        return replace(job, unique=None)


class TheLimitOfALaneIsIgnored(Enqueuing):
    def rewrite(self, job: NewJob) -> NewJob:
        return replace(job, lane_limit=100)


class ADuplicateIsCreated(Mutant):
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        taken = [job is not None for job in await self.jobs.get([job.id for job in jobs])]
        fresh = [replace(job, id=new_id()) if there else job for job, there in zip(jobs, taken, strict=True)]
        receipts = await self.jobs.enqueue(fresh)
        return [
            replace(receipt, id=job.id, created=False) if there else receipt
            for job, there, receipt in zip(jobs, taken, receipts, strict=True)
        ]


class ALossIsForgotten(Mutant):
    async def reap(self, limit: int, **options: Any) -> list[Lost]:
        return await self.jobs.reap(limit, **options | {"max_lost": 1000})


class WhatNeverBeganIsCharged(Mutant):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.leases: list[Lease] = []

    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        answer = await self.jobs.exchange(settlements, ask)
        self.leases += answer.leases
        return answer

    async def reap(self, limit: int, **options: Any) -> list[Lost]:
        await self.jobs.exchange([Settlement(lease, Held(2**31 - 1)) for lease in self.leases[-500:]])
        return await self.jobs.reap(limit, **options)


class ACancelOfARunningJobIsIgnored(Mutant):
    async def cancel(self, ids: Sequence[bytes], **options: Any) -> list[State | None]:
        running = [job is not None and job.state is State.RUNNING for job in await self.jobs.get(ids)]
        idle = [job for job, runs in zip(ids, running, strict=True) if not runs]
        answers = iter(await self.jobs.cancel(idle, **options))
        return [State.RUNNING if runs else next(answers) for runs in running]


class AReplayedJobLeavesItsDelivery(Mutant):
    async def replay(self, ids: Sequence[bytes]) -> list[bool]:
        jobs = await self.jobs.get(ids)
        keys = [delivery_key(job.parent, job.id) for job in jobs if job is not None and job.parent is not None]
        left = await self.store.records.get(DELIVERED, keys)
        answers = await self.jobs.replay(ids)
        await self.store.records.put([Put(DELIVERED, it.key, it.value) for it in left if it is not None])
        return answers


class AReplayedParentDoesNotWait(Mutant):
    """Makes a parent ready at once, whichever of its children have not ended again."""

    async def replay(self, ids: Sequence[bytes]) -> list[bool]:
        database: Any = self.store._handle.database._writing  # type: ignore[attr-defined]
        waiting = database.execute("SELECT seq, children FROM packhorse_jobs WHERE children").fetchall()
        database.execute("UPDATE packhorse_jobs SET children = 0")
        try:
            return await self.jobs.replay(ids)
        finally:
            for seq, children in waiting:
                database.execute("UPDATE packhorse_jobs SET children = ? WHERE seq = ?", (children, seq))


class AParentThatHasEndedIsNotNotified(Mutant):
    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        parents = [it.lease.parent for it in settlements if it.lease.parent is not None]
        ended = [job.id for job in await self.jobs.get(parents) if job is not None and job.state.ended]
        answer = await self.jobs.exchange(settlements, ask)
        keys = [delivery_key(it.lease.parent, it.lease.id) for it in settlements if it.lease.parent in ended]
        await self.store.records.drop(DELIVERED, keys)
        return answer


class APromotionIsOnlyReported(Mutant):
    async def promote(self, ids: Sequence[bytes]) -> list[bool]:
        jobs = await self.jobs.get(ids)
        return [job is not None and job.state is State.SCHEDULED for job in jobs]


class AJobThatCameDueIsOvertaken(Mutant):
    """Does not see what has come due and was not moved yet."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        database: Any = self.store._handle.database._writing  # type: ignore[attr-defined]
        now = await self.store.ping()
        database.execute(
            f"UPDATE packhorse_scheduled SET since = since + {2**60} WHERE flags & 3 = 2 AND since <= {now}"
        )
        try:
            return await self.jobs.enqueue(jobs)
        finally:
            database.execute(f"UPDATE packhorse_scheduled SET since = since - {2**60} WHERE since > {2**60}")


class ARenewalDoesNotExtend(Mutant):
    async def renew(self, leases: Sequence[Lease], duration: int) -> list[Renewed]:
        return await self.jobs.renew(leases, 1000)


class APrunedIdIsForgotten(Mutant):
    async def prune(self, limit: int) -> Pruned:
        known = [job.id for job in (await self.jobs.find(Filter(), limit=1000)).items]
        removed = await self.jobs.prune(limit)
        left = await self.jobs.get(known)
        await self.jobs.drop([job for job, there in zip(known, left, strict=True) if there is None])
        return removed


class WhatIsPrunedLeavesTheTotals(Mutant):
    async def prune(self, limit: int) -> Pruned:
        database: Any = self.store._handle.database._writing  # type: ignore[attr-defined]
        before = database.execute("SELECT * FROM packhorse_past_counts").fetchall()
        removed = await self.jobs.prune(limit)
        database.execute("DELETE FROM packhorse_past_counts")
        database.executemany("INSERT INTO packhorse_past_counts VALUES (?, ?, ?)", before)
        return removed


class AReplayedJobLeavesTheTotals(Mutant):
    async def replay(self, ids: Sequence[bytes]) -> list[bool]:
        database: Any = self.store._handle.database._writing  # type: ignore[attr-defined]
        answers = await self.jobs.replay(ids)
        database.execute(f"UPDATE packhorse_past_counts SET n = n - {sum(answers)} WHERE what = 'cancelled'")
        return answers


class EndedJobsComeQueueByQueue(Mutant):
    async def find(self, filter: Filter, **options: Any) -> Page[StoredJob]:
        page = await self.jobs.find(filter, **options)
        by_queue = sorted(page.items, key=lambda job: job.queue)
        return Page(tuple(by_queue) if filter.state and filter.state.ended else page.items, page.cursor)


Kind = Callable[[Store], Mutant]
MUTANTS: tuple[Kind, ...] = (
    TheTokenIsIgnored, ARepeatedSettlementIsLost, TheSameAskClaimsAnew, TheBytesOfAnAskAreIgnored,
    WhatIsGivenBackIsCharged, LeasesComeWorstFirst, TheAttemptIsNotCounted,
    EffectsOfAStaleTokenAreWritten, EffectsOfACancelledRetryAreWritten, AHeldStepIsWrittenTwice,
    AnExpectationIsIgnored, WhatIsThereAlreadyIsWaitedFor, UniqueKeysAreIgnored,
    TheLimitOfALaneIsIgnored, ADuplicateIsCreated, ALossIsForgotten, WhatNeverBeganIsCharged, ARenewalDoesNotExtend,
    ACancelOfARunningJobIsIgnored, AReplayedJobLeavesItsDelivery, AReplayedParentDoesNotWait,
    AParentThatHasEndedIsNotNotified, APromotionIsOnlyReported, APrunedIdIsForgotten,
    WhatIsPrunedLeavesTheTotals, AReplayedJobLeavesTheTotals, EndedJobsComeQueueByQueue,
)  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_store_that_breaks_a_rule_is_found_out(mutant: Kind, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        tried(mutant, tmp_path, 400)


def test_a_store_that_breaks_none_is_not(tmp_path: Path) -> None:
    tried(Mutant, tmp_path, 20)


@pytest.mark.parametrize(("mutant", "found"), [(AJobThatCameDueIsOvertaken, True), (Mutant, False)])
async def test_a_store_that_lets_due_jobs_be_overtaken_is_found_out_by_their_history(mutant: Kind, found: bool) -> None:
    """The machine comes upon this history by chance only: the conformance tests try it on every store."""
    clock = TurnedClock()
    store = open_store("sqlite:///:memory:", clock=clock)
    await store.migrate()
    await store.open()
    view: Any = SimpleNamespace(**vars(store) | {"jobs": mutant(store)})
    history = test_lanes.test_a_job_of_a_lane_whose_moment_has_come_is_not_overtaken_by_one_that_is_enqueued_later
    try:
        with pytest.raises(AssertionError) if found else nullcontext():
            await history(view, clock)
    finally:
        await store.close()


def tried(mutant: Kind, folder: Path, examples: int) -> None:
    ground = Ground("memory", folder, lambda store: SimpleNamespace(**vars(store) | {"jobs": mutant(store)}))
    factory: Any = lambda: Machine(ground)  # noqa: E731
    bounded = settings(chosen(examples), derandomize=True, phases=(Phase.generate,))
    try:
        run_state_machine_as_test(factory, settings=bounded)
    finally:
        ground.leave()
