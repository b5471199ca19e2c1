"""When a job is tried again: by its backoff, by what the handler says; and the same rules around one call."""

import asyncio
from collections.abc import Awaitable

import pytest

from packhorse import (
    App,
    Backoff,
    Cancel,
    Fail,
    JobCancelled,
    JobFailed,
    Retry,
    Snooze,
    constant,
    current,
    exponential,
    retrying,
)
from packhorse.jobs.retrying import Retrying
from packhorse.telemetry.names import EventName
from packhorse.testing.clock import START_US, TurnedClock
from tests.engine.factories import EventRecorder
from tests.features.factories import HOUR, PATIENCE, SECOND, run


class Tries:
    """A task that always fails, and when it was tried, in seconds from the start."""

    def __init__(self, app: App, clock: TurnedClock, **options) -> None:
        self.at: list[float] = []
        self._app, self._clock, self._begun = app, clock, clock.now()

        @app.task(name="flaky", **options)
        async def flaky() -> None:
            self.at.append((clock.now() - self._begun) / SECOND)
            raise ConnectionError("no answer")

        self.task = flaky

    async def all_of_them(self) -> list[float]:
        """Go from one due moment to the next until the job has ended."""
        job = await self.task.enqueue()
        while True:
            await run(self._app)
            info = await job.info()
            if info.ended:
                return self.at
            due = info.stored.since
            self._clock.to(due - 1)
            await run(self._app)  # not a microsecond early
            self._clock.to(due)


@pytest.mark.parametrize(
    ("options", "starts"),
    [
        ({"attempts": 4, "backoff": exponential(1, jitter=0)}, [0, 1, 3, 7]),
        ({"attempts": 4, "backoff": exponential(10, jitter=0)}, [0, 10, 30, 70]),
        ({"attempts": 3, "backoff": exponential(1, jitter=0)}, [0, 1, 3]),
        ({"backoff": exponential(2, jitter=0)}, [0, 2, 6]),
        ({"attempts": 5, "backoff": exponential(1, cap=3, jitter=0)}, [0, 1, 3, 6, 9]),
        ({"attempts": 3, "backoff": constant("5s")}, [0, 5, 10]),
        ({"attempts": 1}, [0]),
        ({}, [0, 1, 3]),
    ],
    ids=str,
)
async def test_s13_tries_start_exactly_when_the_backoff_says(app, clock, options, starts):
    assert await Tries(app, clock, **options).all_of_them() == starts


async def test_s13_jitter_spreads_delays_inside_its_band(live):
    recorder = EventRecorder(live.telemetry)

    @live.task(backoff=exponential(10, jitter=0.3))
    async def flaky() -> None:
        raise ConnectionError("no answer")

    await live.enqueue(*(flaky.call() for _ in range(50)))
    async with live.worker():
        reported = await recorder.until(EventName.RETRYING, 50)

    delays = {fields["delay"] / SECOND for fields in reported}
    assert all(7 <= delay <= 13 for delay in delays)
    assert len(delays) > 25
    assert max(delays) - min(delays) > 1


async def test_s13_a_job_keeps_what_went_wrong_at_each_try(app, clock):
    tries = Tries(app, clock)
    await tries.all_of_them()
    [job] = (await app.find(state="dead")).items

    assert [failure.attempt for failure in job.failures] == [1, 2, 3]
    assert {failure.type for failure in job.failures} == {"ConnectionError"}


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_s14_a_handler_chooses_the_next_delay(app, clock, way):
    tried = []

    def once() -> str:
        tried.append(clock.now())
        if len(tried) == 1:
            raise Retry("20s")
        return "done"

    async def once_async() -> str:
        return once()

    task = app.task(name="picky")(once if way == "thread" else once_async)
    job = await task.enqueue()
    await run(app)
    clock.turn(20 * SECOND - 1)
    await run(app)
    assert len(tried) == 1
    clock.turn(1)
    await run(app)

    assert tried[1] - tried[0] == 20 * SECOND
    assert (await job.info()).attempt == 2


async def test_s14_a_retry_without_a_delay_follows_the_backoff_and_counts(app, clock):
    @app.task(attempts=2, backoff=constant(3))
    async def again() -> None:
        raise Retry

    job = await again.enqueue()
    await run(app)
    assert (await job.info()).stored.since == clock.now() + 3 * SECOND
    clock.turn(3 * SECOND)
    await run(app)

    assert ((await job.info()).state, (await job.info()).reason) == ("dead", "exhausted")


async def test_s14_a_snooze_costs_no_attempt(app, clock):
    seen = []

    @app.task(attempts=1)
    async def not_now() -> None:
        seen.append(current().attempt)
        if len(seen) < 4:
            raise Snooze("5m")

    job = await not_now.enqueue()
    for _ in range(4):
        await run(app)
        clock.turn(300 * SECOND)

    assert (seen, await job.state()) == ([1, 1, 1, 1], "done")


async def test_s14_a_handler_fails_its_job_for_good(app):
    @app.task(attempts=20, retry_on=(Exception,))
    async def hopeless() -> None:
        raise Fail("no such account")

    recorder = EventRecorder(app.telemetry)
    job = await hopeless.enqueue()
    await run(app)

    info = await job.info()
    assert (info.state, info.reason, info.attempt) == ("dead", "final", 1)
    assert [each.message for each in info.failures] == ["no such account"]
    assert [fields["error"].message for fields in recorder.of(EventName.DEAD)] == ["no such account"]
    with pytest.raises(JobFailed, match="no such account"):
        await job.result(1)


async def test_retrying_gives_up_at_once_when_the_call_fails_for_good():
    calls: list[int] = []

    async def hopeless() -> None:
        calls.append(1)
        raise Fail("no such account")

    with pytest.raises(Fail, match="no such account"):
        await retrying(hopeless, attempts=5, retry_on=(Exception,))
    assert calls == [1]


async def test_s14_a_handler_calls_its_job_off(app):
    @app.task
    async def never_mind() -> None:
        raise Cancel("nobody wants it")

    recorder = EventRecorder(app.telemetry)
    job = await never_mind.enqueue()
    await run(app)

    assert await job.state() == "cancelled"
    assert [fields["error"].message for fields in recorder.of(EventName.CANCELLED)] == ["nobody wants it"]
    assert [each.message for each in (await job.info()).failures] == ["nobody wants it"]
    with pytest.raises(JobCancelled, match=r"was cancelled \(nobody wants it\)") as raised:
        await job.result(1)
    assert raised.value.why == "nobody wants it"


async def test_s14_earlier_failures_are_not_why_a_job_was_cancelled(app, clock):
    @app.task
    async def work() -> None:
        raise KeyError("k")

    job = await work.using(attempts=2).enqueue()
    await run(app)
    clock.turn(SECOND)
    await job.cancel()

    with pytest.raises(JobCancelled) as raised:
        await job.result(1)
    assert (raised.value.why, len((await job.info()).failures)) == ("", 1)


class Answer(Exception):
    """What a client raises for an answer that is no success."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers


class Service:
    """Answers as it is set up, and notes when it was asked, in seconds from the start."""

    def __init__(self, clock: TurnedClock, *answers: int) -> None:
        self._clock, self._answers, self._begun = clock, list(answers), clock.now()
        self.asked: list[float] = []

    async def __call__(self, word: str = "ok") -> str:
        return self.plain(word)

    def plain(self, word: str = "ok") -> str:
        self.asked.append((self._clock.now() - self._begun) / SECOND)
        status = self._answers.pop(0)
        if status >= 400:
            raise Answer(status)
        return word


async def patiently(clock: TurnedClock, service: Service, call: Awaitable[object], asks: int = 1) -> object:
    """Turn the clock by half a second after another until the service was asked so often; then the call is to end."""
    calling = asyncio.ensure_future(call)
    async with asyncio.timeout(PATIENCE):
        while len(service.asked) < asks:
            if service.asked:
                clock.turn(SECOND // 2)
            await asyncio.sleep(0.001)
        return await calling


@pytest.mark.parametrize("way", ["async", "plain"])
async def test_s16_a_call_that_fails_for_now_is_tried_at_0_2_and_6_seconds(clock, way):
    service = Service(clock, 503, 503, 200)
    call = service if way == "async" else service.plain
    assert await patiently(clock, service, Retrying(clock=clock).call(call, word="fetched"), 3) == "fetched"

    assert service.asked == [0, 2, 6]


async def test_s16_a_call_that_fails_for_good_is_made_once(clock):
    service = Service(clock, 404)
    with pytest.raises(Answer, match="404"):
        await patiently(clock, service, Retrying(clock=clock).call(service))

    assert service.asked == [0]


async def test_s16_the_last_error_is_raised_when_tries_are_used_up(clock):
    service = Service(clock, 503, 500, 502)
    with pytest.raises(Answer, match="502"):
        await patiently(clock, service, Retrying(clock=clock).call(service), 3)

    assert service.asked == [0, 2, 6]


async def test_s16_the_rules_are_those_of_jobs(clock):
    service = Service(clock, 404, 409, 200)
    patience = Retrying(attempts=5, backoff=Backoff(SECOND), retry_on=(Answer,), clock=clock)
    assert await patiently(clock, service, patience.call(service), 3) == "ok"
    assert service.asked == [0, 1, 3]

    service = Service(clock, 503)
    with pytest.raises(Answer):
        await patiently(clock, service, Retrying(dead_on=(Answer,), clock=clock).call(service))
    assert service.asked == [0]


async def test_s16_retrying_works_with_no_job_running():
    asked = []

    async def fetch(url: str, *, page: int) -> str:
        asked.append((url, page))
        if len(asked) < 3:
            raise ConnectionError("no answer")
        return "fetched"

    assert await retrying(fetch, "u", page=2, attempts=3, backoff=constant("1ms")) == "fetched"
    assert asked == [("u", 2)] * 3
    with pytest.raises(Answer):
        await retrying(Service(TurnedClock(), 404))


async def test_s16_inside_a_job_it_never_waits_past_the_job_s_own_time(app, clock):
    service, gave_up = Service(clock, 503, 503, 503), []

    @app.task(timeout=5, attempts=1)
    async def fetch() -> None:
        try:
            await Retrying(clock=clock).call(service)
        finally:
            gave_up.append((clock.now() - START_US) / SECOND)

    job = await fetch.enqueue()
    await patiently(clock, service, run(app), 2)

    assert (service.asked, gave_up) == ([0, 2], [2])  # the third would be at 6
    info = await job.info()
    assert (info.state, info.failures[-1].message) == ("dead", "status 503")


async def test_s16_inside_a_job_with_time_enough_it_goes_on(app, clock):
    service = Service(clock, 503, 503, 200)

    @app.task(timeout=HOUR // SECOND)
    async def fetch() -> str:
        return await Retrying(clock=clock).call(service)

    job = await fetch.enqueue()
    await patiently(clock, service, run(app), 3)

    assert (service.asked, await job.result(1)) == ([0, 2, 6], "ok")
