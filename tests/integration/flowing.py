"""Jobs that come and go while something happens to the servers, and an account of what became of them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from packhorse.engine.context import current
from packhorse.errors import DurabilityNotMet, OutcomeUnknown, StoreUnavailable
from packhorse.model.ids import JobId, parse_id
from packhorse.model.job import State
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from tests.conformance.invariants import check, plain
from tests.crash.proof import note
from tests.engine.factories import SECOND, Tasks, job, worker
from tests.factories import found

RAN = "ran"
PATIENCE = 60
BATCH = 5


@dataclass
class Account:
    """What callers were answered, and what the store has in the end."""

    acknowledged: set[JobId] = field(default_factory=set)
    refusals: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    states: Counter[State] = field(default_factory=Counter)
    settled: Counter[bytes] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"{len(self.acknowledged)} acknowledged, {self.lost} of them lost, {dict(self.states)}, "
            f"refused: {dict(self.refusals)}, settled twice: {sum(n > 1 for n in self.settled.values())}"
        )


class Plan:
    """A producer and a worker on one store."""

    def __init__(self, url: str) -> None:
        self.store: Store = open_store(url)
        self.account = Account()
        self.ran: Counter[str] = Counter()
        self._tasks = Tasks()
        self._tasks.task(name="work")(self._work)
        self._going = True

    async def _work(self, number: int) -> None:
        self.ran[current().job_id] += 1
        current().publish(RAN, current().job_id.encode())
        await asyncio.sleep(0.001)

    async def produce(self) -> None:
        """Enqueue for as long as it flows; what was refused or is of unknown outcome is repeated as it is."""
        number = 0
        while self._going:
            batch = [job("work", number=number + n) for n in range(BATCH)]
            number += BATCH
            while True:
                try:
                    await self.store.jobs.enqueue(batch)
                    break
                except (StoreUnavailable, OutcomeUnknown, DurabilityNotMet) as error:
                    self.account.refusals[type(error).__name__] += 1
                    await asyncio.sleep(0.02)
            self.account.acknowledged |= {each.id for each in batch}
            await asyncio.sleep(0.002)

    async def more(self, count: int) -> None:
        """Wait until so many more jobs were acknowledged, and as many have run."""
        known, ran = len(self.account.acknowledged) + count, self.ran.total() + count
        async with asyncio.timeout(PATIENCE):
            while len(self.account.acknowledged) < known or self.ran.total() < ran:
                await asyncio.sleep(0.01)

    async def through(self, disturb: Callable[["Plan"], Awaitable[None]]) -> Account:
        """Let jobs flow before, while and after something happens, until all of them have ended."""
        await self.store.migrate()
        await self.store.open()
        try:
            async with worker(self.store, self._tasks, Telemetry(), lease=2 * SECOND):
                producing = asyncio.create_task(self.produce())
                await self.more(50)
                await disturb(self)
                await self.more(50)
                self._going = False
                await producing
                await self._ended()
            await self._audit()
        finally:
            await self.store.close()
        print(f"\n{self.account}")  # noqa: T201 - what a failover lost is known to nobody else
        doubled = sum(times > 1 for times in self.account.settled.values())
        note(acknowledged=len(self.account.acknowledged), lost=self.account.lost, doubled=doubled)
        return self.account

    async def _ended(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while any(not State(state).ended for _, state in plain(await self.store.jobs.count())):
                await asyncio.sleep(0.05)

    async def _audit(self) -> None:
        await check(self.store)
        jobs = await found(self.store, limit=1000)
        self.account.states = Counter(each.state for each in jobs)
        after = 0
        while events := await self.store.streams.read(RAN, after=after, limit=500):
            self.account.settled.update(event.data for event in events)
            after = events[-1].offset
        # Ends beyond what is kept are pruned, and are no loss.
        ended = {each.id for each in jobs} | {parse_id(text.decode()) for text in self.account.settled}
        self.account.lost = len(self.account.acknowledged - ended)
        assert set(self.account.states) == {State.DONE}, self.account
        assert set(self.account.settled.values()) == {1}, self.account
        assert len(self.account.settled) == len(ended), self.account
