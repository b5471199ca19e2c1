"""Producers and workers in processes of their own, and how workers divide themselves between queues."""

import asyncio
import os
import time
from collections import Counter
from statistics import quantiles

import pytest

from tests.engine.making import Inside
from tests.features.making import Place, run, until


def most_at_once(lines: list[list[str]]) -> dict[str, int]:
    """The most jobs that each process had in flight."""
    now: Counter[str] = Counter()
    most: dict[str, int] = {}
    for word, process in lines:
        now[process] += 1 if word == "begin" else -1
        most[process] = max(most.get(process, 0), now[process])
    return most


async def all_done(place: Place, count: int) -> None:
    await place.until("end", count)


async def test_s01_a_worker_process_has_as_many_jobs_in_flight_as_it_may(live, place, workers):
    await workers.start(queues="slow", concurrency=5)
    await live.enqueue(*(live.queue("slow").call("slow", {"seconds": 0.1}) for _ in range(20)))
    await all_done(place, 20)

    [(process, most)] = most_at_once(place.lines()).items()
    assert most == 5
    assert process != str(os.getpid())


async def test_s01_two_worker_processes_have_each_as_many(live, place, workers):
    await asyncio.gather(*(workers.start(queues="slow", concurrency=5) for _ in range(2)))
    await live.enqueue(*(live.queue("slow").call("slow", {"seconds": 0.1}) for _ in range(20)))
    await all_done(place, 20)

    most = most_at_once(place.lines())
    assert len(most) == 2
    assert set(most.values()) == {5}


async def test_s01_a_worker_lives_inside_another_program_beside_other_workers(make):
    producer, consumer, inside = make(), make(), Inside()

    @consumer.task(name="slow", queue="slow")
    async def slow(seconds: float) -> None:
        with inside:
            await asyncio.sleep(seconds)

    jobs = await producer.enqueue(*(producer.queue("slow").call("slow", {"seconds": 0.02}) for _ in range(20)))
    async with consumer.worker("slow", concurrency=5):
        for job in jobs:
            await job.result(20)

    assert inside.most == 5


async def test_s01_a_worker_leaves_queues_alone_that_it_does_not_serve(live):
    @live.task(queue="mine")
    async def mine() -> str:
        return "done"

    other = await live.queue("other").enqueue("anything")
    async with live.worker("mine"):
        assert await (await mine.enqueue()).result(20) == "done"

    assert await other.status() == "ready"


async def test_s02_enqueue_answers_at_once_with_an_id_that_is_known(live):
    @live.task
    async def later(number: int) -> None: ...

    await live.open()
    await later.enqueue(0)
    took = []
    for number in range(300):
        begun = time.perf_counter()
        job = await later.enqueue(number)
        took.append(time.perf_counter() - begun)

    assert await live.job(job.id).status() == "ready"
    assert (await live.job(job.id).info()).data == {"number": 299}
    # The goal is 10 ms in 99 of 100 on a machine of its own; a machine shared with other tests is given more.
    assert quantiles(took, n=100)[49] < 0.010
    assert quantiles(took, n=100)[98] < 0.100


class Picks:
    """Tasks that only note from which queue they were picked."""

    def __init__(self, app) -> None:
        self.app, self.order = app, []

        @app.task(name="pick")
        async def pick(queue: str) -> None:
            self.order.append(queue)

        self._pick = pick

    async def fill(self, **counts: int) -> None:
        calls = [self._pick.using(queue=queue).call(queue) for queue, count in counts.items() for _ in range(count)]
        for first in range(0, len(calls), 500):
            await self.app.enqueue(*calls[first : first + 500])

    def shares(self, first: int) -> Counter[str]:
        return Counter(self.order[:first])


WEIGHTS = {"critical": 6, "default": 3, "low": 1}


@pytest.mark.parametrize("concurrency", [1, 10])
async def test_s09_picks_follow_the_weights_and_starve_nobody(app, concurrency):
    picks = Picks(app)
    await picks.fill(critical=250, default=150, low=100)
    await run(app, WEIGHTS, concurrency=concurrency)

    shares = picks.shares(200)
    assert abs(shares["critical"] - 120) <= 10
    assert abs(shares["default"] - 60) <= 10
    assert abs(shares["low"] - 20) <= 10
    assert len(picks.order) == 500


async def test_s09_the_share_of_an_empty_queue_goes_to_the_others(app):
    picks = Picks(app)
    await picks.fill(default=300, low=150)
    await run(app, WEIGHTS, concurrency=10)

    shares = picks.shares(200)
    assert abs(shares["default"] - 150) <= 10
    assert abs(shares["low"] - 50) <= 10


async def test_s09_weights_hold_for_several_workers(make):
    apps = [make(), make()]
    picks = [Picks(app) for app in apps]
    await picks[0].fill(critical=500, default=300, low=200)

    async def all_done() -> bool:
        return sum(len(one.order) for one in picks) >= 1000

    async with apps[0].worker(WEIGHTS, concurrency=3), apps[1].worker(WEIGHTS, concurrency=10):
        await until(all_done)

    early = sum((one.shares(len(one.order) // 2) for one in picks), Counter())
    assert abs(early["critical"] / early.total() - 0.6) <= 0.05
    assert abs(early["default"] / early.total() - 0.3) <= 0.05
    assert abs(early["low"] / early.total() - 0.1) <= 0.05
