"""Each death is consumed once, whatever is trimmed, lost or done by several processes at once."""

import asyncio
import random
from collections import Counter

import pytest

from packhorse.dead_letters import reader
from packhorse.dead_letters.consumer import CURSORS, cursor_of
from packhorse.dead_letters.reader import DeathReader
from packhorse.errors import StoreUnavailable
from packhorse.model.death import Death
from packhorse.model.effect import Publish
from packhorse.model.event import LIFECYCLE
from packhorse.model.job import State
from packhorse.model.lease import ClaimRequest, Settlement, Share
from packhorse.model.page import Filter
from packhorse.testing.faults import DropReply, DropRequest, Faulty
from tests.factories import DAY, DEAD, SECOND, WORKER, end, new, put_in, take


class Publisher:
    """Writes each death to a stream, in the step that consumes it."""

    def __init__(self, name: str = "publisher", *, repeatable: bool = False, fails: bool = False) -> None:
        self.name, self.repeatable, self.fails = name, repeatable, fails
        self.sizes: list[int] = []

    async def on_deaths(self, store, deaths):
        if self.fails:
            raise ConnectionError("no")
        self.sizes.append(len(deaths))
        return [Publish(self.name, line_of(death)) for death in deaths]


def line_of(death: Death) -> bytes:
    return f"{death.job.id.hex()} {death.at}".encode()


@pytest.fixture
async def store(app):
    return await app.store()


async def published(store, name: str = "publisher") -> Counter[bytes]:
    counts: Counter[bytes] = Counter()
    after = 0
    while events := await store.streams.read(name, after=after, limit=1000):
        counts.update(event.data for event in events)
        after = events[-1].offset
    return counts


async def die(store, count: int, queue: str = "default") -> list[bytes]:
    """Let so many jobs die in one exchange, and answer what is to be published of them."""
    await put_in(store, *[new(queue=queue) for _ in range(count)])
    leases = (await store.jobs.exchange((), ClaimRequest(WORKER, (Share(queue, count),)))).leases
    assert len(leases) == count
    await store.jobs.exchange([Settlement(lease, DEAD) for lease in leases])
    jobs = await store.jobs.get([lease.id for lease in leases])
    return [f"{job.id.hex()} {job.since}".encode() for job in jobs]


async def read(death_reader: DeathReader) -> None:
    while await death_reader.look():
        pass


async def trim(store) -> None:
    """Trim the lifecycle of jobs as far as it goes: its newest event stays."""
    await store.streams.trim(LIFECYCLE, 10**9, 1000)
    bounds = await store.streams.bounds(LIFECYCLE)
    assert bounds.first == bounds.last


async def test_many_deaths_of_one_exchange_are_consumed_in_small_moves(store):
    consumer = Publisher()
    died = await die(store, 130)
    await read(DeathReader(store, [consumer]))

    assert await published(store) == Counter(died)
    assert consumer.sizes == [50, 50, 30]


async def test_while_nothing_dies_a_look_reads_twice_and_writes_nothing(store, clock):
    calls: list[str] = []
    await die(store, 1)
    death_reader = DeathReader(Faulty(store, lambda name, _: calls.append(name)), [Publisher(), Publisher("other")])
    await read(death_reader)
    for _ in range(3):
        await put_in(store, new())
        calls.clear()
        assert not await death_reader.look()
        assert calls == ["queues.stats", "streams.bounds"]


async def test_a_death_between_the_reads_of_a_look_is_consumed_by_the_next(store):
    died: list[bytes] = []

    class Between:
        """A store in which a job dies between the two reads."""

        def __getattr__(self, name):
            return getattr(store, name)

        @property
        def queues(self):
            return self

        async def stats(self):
            found = await store.queues.stats()
            died.extend(await die(store, 1))
            return found

    death_reader = DeathReader(Between(), [Publisher()])
    for _ in range(3):
        await death_reader.look()
    await read(DeathReader(store, [Publisher()]))
    assert await published(store) == Counter(died)


async def test_a_reader_that_is_overtaken_between_its_moves_consumes_nothing_again(store):
    died, overtaken = await die(store, 130), []

    class Overtaken:
        """A store in which another reader consumes the rest right after the first move."""

        def __getattr__(self, name):
            return getattr(store, name)

        @property
        def jobs(self):
            return self

        async def get(self, ids, *, bodies):
            return await store.jobs.get(ids, bodies=bodies)

        async def fire(self, moves):
            verdicts = await store.jobs.fire(moves)
            if not overtaken:
                overtaken.append(True)
                await read(DeathReader(store, [Publisher()]))
            return verdicts

    await read(DeathReader(Overtaken(), [Publisher()]))
    assert await published(store) == Counter(died)


async def test_deaths_in_queues_of_packhorse_are_left_out(store):
    await die(store, 3, "packhorse.system")
    await read(DeathReader(store, [Publisher()]))
    assert not await published(store)


async def test_a_queue_that_was_forgotten_makes_no_death(store, clock):
    death_reader = DeathReader(store, [Publisher()])
    died = await die(store, 2, "rare")
    await read(death_reader)
    clock.turn(30 * DAY)
    while (await store.jobs.prune(1000)).more:
        pass
    await read(death_reader)
    died += await die(store, 1, "rare")
    await read(death_reader)
    assert await published(store) == Counter(died)


async def test_deaths_whose_events_were_trimmed_are_found_among_the_dead(store, clock):
    consumer = Publisher()
    first = await die(store, 60)
    await read(DeathReader(store, [consumer]))
    clock.turn(3600 * SECOND)
    second = await die(store, 60)
    clock.turn(SECOND)
    await trim(store)
    third = await die(store, 60)
    await read(DeathReader(store, [consumer]))

    assert await published(store) == Counter(first + second + third)


async def test_a_repeatable_consumer_gets_deaths_again_that_may_be_older_than_its_cursor(store, clock):
    consumer = Publisher(repeatable=True)
    first = await die(store, 2)
    await read(DeathReader(store, [consumer]))
    clock.turn(SECOND)
    second = await die(store, 1)
    await trim(store)
    await put_in(store, new())
    await trim(store)
    await read(DeathReader(store, [consumer]))

    assert await published(store) == Counter(first + first + second)


async def test_a_trimmed_entry_that_was_consumed_in_part_is_not_consumed_again(store, clock):
    died = await die(store, 120)
    failing = Publisher()
    stop = 0

    def refuse(name, _):
        nonlocal stop
        stop += name == "jobs.fire"
        return DropRequest() if stop == 3 and name == "jobs.fire" else None

    with pytest.raises(StoreUnavailable):
        await read(DeathReader(Faulty(store, refuse), [failing]))
    assert sum((await published(store)).values()) == 100
    clock.turn(SECOND)
    await put_in(store, new())
    await trim(store)
    await read(DeathReader(store, [Publisher()]))

    assert await published(store) == Counter(died)


async def test_the_failure_of_one_consumer_keeps_no_death_from_the_others(store):
    died = await die(store, 3)
    death_reader = DeathReader(store, [Publisher("first", fails=True), Publisher("second")])
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await death_reader.look()
    assert await published(store, "second") == Counter(died)


async def test_the_cursor_goes_on_without_deaths_before_the_lifecycle_is_trimmed(store, monkeypatch):
    monkeypatch.setattr(reader, "CURSOR_LAG_EVENTS", 5)
    died = await die(store, 1)
    death_reader = DeathReader(store, [Publisher()])
    for _ in range(10):
        await put_in(store, new())
        await read(death_reader)
    [record] = await store.records.get(CURSORS, ["publisher"])

    assert cursor_of(record).offset >= 8
    await trim(store)
    died += await die(store, 1)
    await read(DeathReader(store, [Publisher()]))
    assert await published(store) == Counter(died)


@pytest.mark.parametrize("seed", range(2))
async def test_each_death_is_consumed_once_by_readers_that_race_and_lose_answers(store, clock, seed):
    chance, died = random.Random(seed), list[bytes]()

    def lose(name, _):
        if name in ("jobs.fire", "records.get") and chance.random() < 0.2:
            return DropReply() if chance.random() < 0.5 else DropRequest()
        return None

    readers = [DeathReader(Faulty(store, lose), [Publisher()]) for _ in range(3)]
    for _ in range(30):
        clock.turn(SECOND)
        match chance.randrange(5):
            case 0:
                died += await die(store, chance.randrange(1, 120))
            case 1:
                dead = await store.jobs.find(Filter(state=State.DEAD), limit=chance.randrange(1, 50))
                await store.jobs.replay([job.id for job in dead.items])
                for lease in await take(store, 500):
                    await end(store, lease, DEAD)
                    [job] = await store.jobs.get([lease.id])
                    died.append(f"{job.id.hex()} {job.since}".encode())
            case 2:
                await put_in(store, new(queue="idle"))
            case _:
                await asyncio.gather(*(each.look() for each in readers), return_exceptions=True)
    await read(DeathReader(store, [Publisher()]))

    assert await published(store) == Counter(died)
