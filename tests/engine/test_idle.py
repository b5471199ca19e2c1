"""A worker with nothing to do: it costs little and wakes when there is something."""

import asyncio
import time

from packhorse.testing.faults import Delay, DelayReply, DropRequest
from tests.engine.factories import SECOND, Crossing, EventName, at_once, job, worker
from tests.factories import put_in


async def test_an_idle_worker_wakes_when_somebody_enqueues(live, other, telemetry, recorder):
    async with worker(live, at_once(), telemetry) as working:
        await working.idle()
        begun = time.monotonic()
        for number in range(1, 6):
            await put_in(other, job("work"))
            await recorder.until(EventName.DONE, number)
            await working.idle()
        took = time.monotonic() - begun

    assert took < 2.5  # looking once a second would take twice as long


async def test_a_job_that_comes_alone_takes_two_exchanges(memory, telemetry, recorder):
    crossing = Crossing()
    async with worker(crossing.before(memory), at_once(), telemetry) as working:
        await working.idle()
        before = crossing.count("jobs.exchange")
        await put_in(memory, job("work"))
        await recorder.until(EventName.DONE)
        await working.idle()

        assert crossing.count("jobs.exchange") - before == 2  # one claims it; one settles it, and finds no more


async def test_a_job_starts_when_it_is_due(live, other, telemetry, recorder):
    async with worker(live, at_once(), telemetry) as working:
        await working.idle()
        begun = time.monotonic()
        await put_in(other, job("work", delay=300_000))
        await recorder.until(EventName.STARTED)
        took = time.monotonic() - begun

    assert 0.3 <= took < 2


async def test_a_worker_whose_hints_are_all_missed_looks_by_itself(memory, telemetry, recorder):
    crossing = Crossing()
    crossing.rules["wakes"] = lambda *args: DropRequest()
    async with worker(crossing.before(memory), at_once(), telemetry) as working:
        await working.idle()
        await put_in(memory, job("work"))
        await asyncio.wait_for(recorder.until(EventName.DONE), 3)


async def test_a_hint_that_comes_while_an_exchange_is_under_way_is_not_forgotten(memory, telemetry, recorder):
    crossing = Crossing()
    delays = [DelayReply(200_000)]
    crossing.rules["jobs.exchange"] = lambda *args: delays.pop() if delays else None
    async with worker(crossing.before(memory), at_once(), telemetry):
        async with asyncio.timeout(5):
            while delays:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)  # the store has answered, and the answer is on its way
        begun = time.monotonic()
        await put_in(memory, job("work"))
        await recorder.until(EventName.STARTED)

    assert time.monotonic() - begun < 0.7


async def test_an_idle_worker_asks_for_little(live, telemetry, recorder):
    crossing = Crossing()
    async with worker(crossing.before(live), at_once(), telemetry) as working:
        await working.idle()
        before = len(crossing.calls)
        await asyncio.sleep(1.5)
        asked = [name for name, _ in crossing.calls[before:]]

    assert asked.count("jobs.exchange") <= 4
    assert len(asked) <= 12


async def test_an_idle_worker_sends_beats(live, telemetry, recorder):
    async with worker(live, at_once(), telemetry) as working:
        await working.idle()
        assert working.silence < 2 * SECOND


async def test_a_worker_says_that_it_lives_and_says_goodbye(live, telemetry, recorder):
    known = at_once()
    known.task(name="other", aliases=("older",))(print)
    settings = {"name": "w1", "release": "1.2.3", "queues": {"a": 2, "b": 1}}
    async with worker(live, known, telemetry, **settings) as working:
        async with asyncio.timeout(10):
            while not (workers := await live.fleet.workers()):
                await asyncio.sleep(0.005)
        [member] = workers
        assert (member.id, member.name, member.release) == (working.id, "w1", "1.2.3")
        assert set(member.queues) == {"a", "b"}
        assert set(member.tasks) == {"work", "other", "older"}

    assert await live.fleet.workers() == []


async def test_a_worker_says_goodbye_also_to_a_store_that_answers_slowly(memory, telemetry, recorder):
    crossing = Crossing()
    async with worker(crossing.before(memory), at_once(), telemetry):
        async with asyncio.timeout(5):
            while not await memory.fleet.workers():
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # the answer is on its way to the keeper's thread
        crossing.rules["fleet.beat"] = lambda *args: Delay(SECOND)

    assert await memory.fleet.workers() == []


async def test_several_workers_are_known_each_by_itself(live, telemetry, recorder):
    async with worker(live, at_once(), telemetry, name="w1"), worker(live, at_once(), telemetry, name="w2"):
        async with asyncio.timeout(10):
            while len(await live.fleet.workers()) < 2:
                await asyncio.sleep(0.005)
        assert [member.name for member in await live.fleet.workers()] == ["w1", "w2"]


async def test_a_worker_keeps_saying_that_it_lives(memory, telemetry, recorder):
    async with worker(memory, at_once(), telemetry, lease=300_000):
        await asyncio.sleep(0.9)
        assert len(await memory.fleet.workers()) == 1
