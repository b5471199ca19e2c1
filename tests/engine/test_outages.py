"""A way to the store on which things get lost: no job is, and none runs twice."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from packhorse.engine.caretaker import Duty
from packhorse.engine.context import current
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Entry
from packhorse.errors import (
    ConfigError,
    DurabilityNotMet,
    OutcomeUnknown,
    SchemaMismatch,
    StoreClosed,
    StoreUnavailable,
)
from packhorse.model.job import State
from packhorse.testing.faults import Delay, DelayReply, DropReply, DropRequest, Fault, Faulty, RaiseError
from tests.engine.factories import SECOND, Crossing, EventName, Tasks, job, jobs, lease_ahead, worker
from tests.factories import new, one, put_in, states


class Ran:
    """A task that counts how often each job ran."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.tasks = Tasks()
        self.tasks.task(name="work")(self._work)

    async def _work(self, number: int) -> None:
        self.times[current().job_id] += 1
        current().publish("ran", b"%d" % number)
        await asyncio.sleep(0)


def every(count: int, fault: Fault):
    """A fault at every so manieth call."""
    calls = iter(range(1_000_000))
    return lambda *args: fault if next(calls) % count == 0 else None


@pytest.mark.parametrize(
    "fault", [DropRequest(), DropReply(), Delay(10_000), DelayReply(10_000)], ids=lambda fault: type(fault).__name__
)
async def test_every_job_runs_once_whatever_is_lost_on_the_way(live, telemetry, recorder, fault):
    ran, crossing = Ran(), Crossing()
    for verb in ("jobs.exchange", "jobs.renew", "jobs.reap"):
        crossing.rules[verb] = every(3, fault)
    ids = await put_in(live, *jobs(60))
    async with worker(crossing.before(live), ran.tasks, telemetry, lease=2 * SECOND):
        await recorder.until(EventName.DONE, 60)

    found = [await one(live, each) for each in ids]
    assert {(each.state, each.attempt, each.lost) for each in found} == {(State.DONE, 1, 0)}
    assert set(ran.times.values()) == {1}
    assert len(ran.times) == 60
    assert len(await live.streams.read("ran")) == 60


async def test_the_same_ask_is_repeated_until_it_is_answered(live, telemetry, recorder):
    ran, crossing = Ran(), Crossing()
    faults: list[Any] = [DropReply(), DropRequest(), DropReply()]
    crossing.rules["jobs.exchange"] = lambda *args: faults.pop(0) if faults else None
    await put_in(live, *jobs(5))
    async with worker(crossing.before(live), ran.tasks, telemetry):
        await recorder.until(EventName.DONE, 5)

    asks = [args[1] for name, args in crossing.calls if name == "jobs.exchange"]
    assert [ask.max_bytes for ask in asks[:4]] == [4 << 20, 2 << 20, 1 << 20, 512 << 10]
    assert {replace(ask, max_bytes=1) for ask in asks[1:4]} == {replace(asks[0], again=True, max_bytes=1)}
    assert (asks[4].again, asks[4].number > asks[0].number, asks[4].token != asks[0].token) == (False, True, True)
    assert [each["count"] for each in recorder.of(EventName.EXCHANGE_FAILED)] == [1, 2, 3]
    assert [each["count"] for each in recorder.of(EventName.STORE_RECOVERED)] == [3]
    assert set(ran.times.values()) == {1}


async def test_what_waits_for_the_store_is_bounded_while_it_is_away(memory, telemetry, recorder):
    ran, crossing = Ran(), Crossing()
    ids = await put_in(memory, *jobs(300))
    away: list[Any] = []
    crossing.rules["jobs.exchange"] = lambda *args: DropRequest() if away else None
    async with worker(crossing.before(memory), ran.tasks, telemetry, concurrency=4) as working:
        lease_ahead(working)
        await recorder.until(EventName.STARTED, 4)
        away.append(True)
        await recorder.until(EventName.EXCHANGE_FAILED, 4)
        done, started = recorder.count(EventName.DONE), recorder.count(EventName.STARTED)
        assert started - done <= 4 + 40
        assert working._slots.busy == 0
        away.clear()
        await recorder.until(EventName.STORE_RECOVERED)
        await recorder.until(EventName.DONE, 300)

    assert set(await states(memory, *ids)) == {State.DONE}
    assert set(ran.times.values()) == {1}


async def test_silence_grows_while_the_store_is_away_and_ends_when_it_is_back(memory, telemetry, recorder):
    crossing = Crossing()
    async with worker(crossing.before(memory), Tasks(), telemetry) as working:
        await working.idle()
        crossing.rules["jobs.exchange"] = lambda *args: DropRequest()
        await put_in(memory, job("work"))
        await recorder.until(EventName.EXCHANGE_FAILED, 1)
        early = working.silence
        await recorder.until(EventName.EXCHANGE_FAILED, 4)
        silent = working.silence
        assert silent > early + 50_000  # three pauses at least
        crossing.rules.clear()
        await recorder.until(EventName.STORE_RECOVERED)
        assert working.silence < silent


@pytest.mark.parametrize("error", [ConfigError("no"), SchemaMismatch("no"), ValueError("no"), DurabilityNotMet("no")])
async def test_what_is_wrong_from_the_start_ends_the_worker_at_once(memory, telemetry, error):
    crossing = Crossing()
    crossing.rules["jobs.exchange"] = lambda *args: RaiseError(error)

    with pytest.raises(type(error)) as caught:
        await asyncio.wait_for(worker(crossing.before(memory), Tasks(), telemetry).run(), 10)

    assert caught.value is error


@pytest.mark.parametrize("error", [SchemaMismatch("newer"), StoreClosed("closed")])
async def test_what_no_waiting_can_repair_ends_the_worker_also_later(memory, telemetry, recorder, error):
    crossing = Crossing()
    working = worker(crossing.before(memory), Tasks(), telemetry)
    running = asyncio.create_task(working.run())
    await recorder.until(EventName.WORKER_STARTED)
    await working.idle()
    crossing.rules["jobs.exchange"] = lambda *args: RaiseError(error)
    await put_in(memory, job("work"))

    with pytest.raises(type(error)):
        await asyncio.wait_for(running, 10)


async def test_a_store_that_refuses_for_a_while_is_asked_ever_less_often_and_not_given_up(memory, telemetry, recorder):
    ran, crossing = Ran(), Crossing()
    async with worker(crossing.before(memory), ran.tasks, telemetry) as working:
        await working.idle()
        crossing.rules["jobs.exchange"] = lambda *args: RaiseError(DurabilityNotMet("for now"))
        await put_in(memory, *jobs(3))
        failed = await recorder.until(EventName.EXCHANGE_FAILED, 4)
        assert [each["count"] for each in failed] == [1, 2, 3, 4]
        assert working.silence > 200_000
        crossing.rules.clear()
        await recorder.until(EventName.DONE, 3)

    assert recorder.count(EventName.STORE_RECOVERED) == 1


async def test_a_duty_that_fails_is_reported_and_stops_no_other(memory, telemetry, recorder):
    crossing = Crossing()
    tasks = Tasks()
    tasks.task(name="work")(print)
    extra = []

    async def more() -> bool:
        extra.append(1)
        raise RuntimeError("no extra")

    for verb in ("jobs.reap", "jobs.release"):
        crossing.rules[verb] = lambda *args, **options: RaiseError(RuntimeError("no duty"))
    duties = {"more_duties": [Duty("extra", 50_000, more)]}
    async with worker(crossing.before(memory), tasks, telemetry, more=duties, lease=300_000):
        await recorder.until(EventName.DUTY_FAILED, 3)
        async with asyncio.timeout(10):
            while crossing.count("jobs.prune") < 3 or not extra:
                await asyncio.sleep(0.01)

    assert {each["detail"] for each in recorder.of(EventName.DUTY_FAILED)} == {"reap", "release", "extra"}


async def test_a_keeper_that_cannot_reach_the_store_at_first_keeps_trying(memory, telemetry, recorder):
    crossing = Crossing()
    faults = [DropRequest()] * 3
    crossing.rules["fleet.beat"] = lambda *args: faults.pop() if faults else None
    async with worker(crossing.before(memory), Tasks(), telemetry, name="w1"):
        await recorder.until(EventName.RENEWAL_FAILED, 3)
        async with asyncio.timeout(10):
            while [each.name for each in await memory.fleet.workers()] != ["w1"]:
                await asyncio.sleep(0.01)


class Fetching:
    """What completes a payload, behind a store that is away for the first tries."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)

    def wanted(self, headers: bytes) -> bool:
        return True

    async def payload(self, lease: Any, payload: bytes) -> bytes:
        if self._errors:
            raise self._errors.pop()
        return payload


@pytest.mark.parametrize(
    "error", [StoreUnavailable("away"), OutcomeUnknown("away")], ids=lambda each: type(each).__name__
)
async def test_a_store_that_is_away_while_a_payload_is_completed_costs_no_attempt(memory, telemetry, recorder, error):
    tasks, seen = Tasks(), []

    async def work() -> None:
        seen.append(current().attempt)

    tasks.add(Entry(name="work", call=work, policy=Policy(attempts=1), fetch=Fetching(error)))
    [done] = await put_in(memory, new("work", headers=b'{"user":"u1"}'))
    async with worker(memory, tasks, telemetry):
        await recorder.until(EventName.DONE)

    assert (seen, (await one(memory, done)).attempt) == ([1], 1)


class Garbled(Faulty):
    """A store whose answers to the first claims cannot be understood."""

    claims = 1

    async def call(self, name: str, verb: Any, *args: Any, **options: Any) -> Any:
        answer = await super().call(name, verb, *args, **options)
        if name == "jobs.exchange" and answer.leases and self.claims:
            self.claims -= 1
            raise ValueError("not what was expected")
        return answer


async def test_jobs_of_a_claim_that_was_not_understood_are_asked_for_again(memory, telemetry, recorder):
    ran = Ran()
    async with worker(Garbled(memory, Crossing()), ran.tasks, telemetry) as working:
        await working.idle()
        ids = await put_in(memory, *jobs(5))
        await recorder.until(EventName.DONE, 5)

    found = [await one(memory, each) for each in ids]
    assert {(each.attempt, each.lost) for each in found} == {(1, 0)}
