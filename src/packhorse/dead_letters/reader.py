"""Find out cheaply whether jobs have died, and give each death to each consumer once.

Every process may do this at any time. The cursor of a consumer moves by compare-and-set, in one step with what the
consumer writes; a process that loses a race reads the cursor again.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from packhorse.dead_letters.consumer import CURSORS, DeathConsumer, DeathCursor, cursor_of, cursor_put
from packhorse.errors import UndecodablePayload
from packhorse.model import limits
from packhorse.model.death import Death
from packhorse.model.effect import Effect
from packhorse.model.event import LIFECYCLE, Change, Event, StreamBounds, unpack
from packhorse.model.ids import JobId
from packhorse.model.job import State
from packhorse.model.lease import Verdict
from packhorse.model.page import Filter
from packhorse.model.queue import QueueStats
from packhorse.model.record import Record
from packhorse.stores.contract import Store

DEATHS_PER_MOVE = 50
EVENTS_PER_READ = 200
CURSOR_LAG_EVENTS = 1000  # without a death; then the cursor moves all the same, before the lifecycle is trimmed
OVERLAP_US = 10 * limits.SECOND  # two deaths may be logged in another order than they happened, within a transaction

Moment = tuple[int, JobId]  # of a death: when, and of which job


class DeathReader:
    """Reads deaths for some consumers, in one process."""

    def __init__(self, store: Store, consumers: Sequence[DeathConsumer]) -> None:
        self._store = store
        self._consumers = [_Follower(store, consumer) for consumer in consumers]
        self._totals: dict[str, int] | None = None

    async def look(self) -> bool:
        """Consume what has died since the last look; answer whether there is more to do now."""
        totals = died_so_far(await self._store.queues.stats())
        bounds = await self._store.streams.bounds(
            LIFECYCLE
        )  # read after the totals: the deaths in them are below its end
        if self._totals is None or any(count > self._totals.get(queue, 0) for queue, count in totals.items()):
            if await self._follow(bounds):
                return True
        else:
            for follower in self._consumers:
                await follower.nothing_died(bounds)
        self._totals = {**(self._totals or {}), **totals}  # a queue without jobs has no totals until it has some again
        return False

    async def _follow(self, bounds: StreamBounds) -> bool:
        """Let each consumer have its deaths; the failure of one does not keep them from the others."""
        more, failures = False, []
        for follower in self._consumers:
            try:
                more |= await follower.follow(bounds)
            except Exception as error:  # noqa: BLE001 - raised below, when the others had their deaths
                failures.append(error)
        if failures:
            raise failures[0]
        return more


class _Follower:
    """Follows the deaths for one consumer."""

    def __init__(self, store: Store, consumer: DeathConsumer) -> None:
        self._store, self._consumer = store, consumer
        self._clear = self._end = 0  # no death up to the first is left; nothing had died yet when the second was read
        self._record: Record | None = None

    async def nothing_died(self, bounds: StreamBounds) -> None:
        """Note that no job has died since the last look."""
        self._clear, self._end = max(self._clear, self._end), bounds.last
        if self._clear - self._cursor.offset > CURSOR_LAG_EVENTS:
            await self._read_cursor()
            if self._clear > self._cursor.offset:
                await self._move(DeathCursor(self._clear, 0, self._cursor.at, self._cursor.job), ())

    async def follow(self, bounds: StreamBounds) -> bool:
        """Consume all deaths up to the end of the lifecycle; answer whether there is more to do."""
        await self._read_cursor()
        if bounds.first > max(self._cursor.offset, self._clear) + 1 and not await self._close_gap(bounds.first):
            return True
        after = max(self._cursor.offset, self._clear)
        while after < bounds.last:
            events = await self._store.streams.read(LIFECYCLE, after=after, limit=EVENTS_PER_READ)
            if not events:
                break
            if not await self._consume(events):
                return True
            after = events[-1].offset
        self._clear = self._end = max(self._clear, bounds.last)
        return False

    async def _consume(self, events: Sequence[Event]) -> bool:
        """Consume the deaths of some events; False if another process has moved the cursor."""
        died: list[tuple[Moment, DeathCursor]] = []
        cursor = self._cursor
        for event in events:
            dead = dead_in(event)
            for number, job in enumerate(dead, 1):
                if event.offset == self._cursor.offset + 1 and number <= self._cursor.deaths:
                    continue
                place = (event.offset, 0) if number == len(dead) else (event.offset - 1, number)
                cursor = msgspec.structs.replace(cursor.passed(event.at, job), offset=place[0], deaths=place[1])
                died.append(((event.at, job), cursor))
        for start in range(0, len(died), DEATHS_PER_MOVE):
            part = died[start : start + DEATHS_PER_MOVE]
            if not await self._move(part[-1][1], [moment for moment, _ in part]):
                return False
        return True

    async def _close_gap(self, first: int) -> bool:
        """Consume the deaths whose events were trimmed before they were read; False if another process did."""
        left = await self._trimmed_deaths(first)
        if self._consumer.repeatable:
            near = [death for death in left if not self._cursor.before(*death)]
            for start in range(0, len(near), DEATHS_PER_MOVE):
                if not await self._move(self._cursor, near[start : start + DEATHS_PER_MOVE]):
                    return False
        after = [death for death in left if self._cursor.before(*death)]
        for start in range(0, len(after), DEATHS_PER_MOVE):
            part = after[start : start + DEATHS_PER_MOVE]
            if not await self._move(self._cursor.passed(*part[-1]), part):
                return False
        return await self._move(DeathCursor(first - 1, 0, self._cursor.at, self._cursor.job), ())

    async def _trimmed_deaths(self, first: int) -> list[Moment]:
        """Find the dead jobs that died about when the cursor stood still or later, without those in kept events."""
        since, found, page_cursor = self._cursor.at - OVERLAP_US, list[Moment](), None
        while True:
            page = await self._store.jobs.find(
                Filter(state=State.DEAD), limit=limits.ITEMS, cursor=page_cursor, bodies=False
            )
            found += [(job.since, job.id) for job in page.items if job.since >= since]
            page_cursor = page.cursor
            if page_cursor is None or (page.items and page.items[-1].since < since):
                break
        kept, after = set[Moment](), first - 1
        while events := await self._store.streams.read(LIFECYCLE, after=after, limit=EVENTS_PER_READ):
            kept |= {(event.at, job) for event in events for job in dead_in(event)}
            after = events[-1].offset
        return sorted(set(found) - kept)

    # -- the cursor

    @property
    def _cursor(self) -> DeathCursor:
        return cursor_of(self._record)

    async def _read_cursor(self) -> None:
        [self._record] = await self._store.records.get(CURSORS, [self._consumer.name])

    async def _move(self, cursor: DeathCursor, died: Sequence[Moment]) -> bool:
        """Write what follows from these deaths, and move the cursor; False if another process has moved it."""
        deaths = await deaths_of(self._store, died)
        effects: Sequence[Effect] = await self._consumer.on_deaths(self._store, deaths) if deaths else ()
        put = cursor_put(self._consumer.name, cursor, self._record, await self._store.ping())
        [verdict] = await self._store.jobs.fire([[put, *effects]])
        await self._read_cursor()
        return verdict is Verdict.WRITTEN and self._cursor == cursor  # else another process has gone on from there


def died_so_far(queues: Iterable[QueueStats]) -> Mapping[str, int]:
    """Give how many jobs of each queue ever died, without the queues of Packhorse itself."""
    return {queue.name: queue.total_ended.get(State.DEAD, 0) for queue in queues if not is_own(queue.name)}


def is_own(queue: str) -> bool:
    """Whether a queue is one of Packhorse itself: a letter about a letter that failed would fail too."""
    return queue.startswith(limits.RESERVED)


def dead_in(event: Event) -> list[JobId]:
    """Give the jobs that died by an event, in the order of their ids; an event that cannot be read has none."""
    with suppress(UndecodablePayload):
        return sorted({job for change, job in unpack(event.data) if change is Change.DEAD})
    return []


async def deaths_of(store: Store, died: Sequence[Moment]) -> list[Death]:
    """Give the deaths whose jobs are still kept."""
    jobs = await store.jobs.get([job for _, job in died], bodies=False) if died else []
    return [
        Death(job, at) for (at, _), job in zip(died, jobs, strict=True) if job is not None and not is_own(job.queue)
    ]
