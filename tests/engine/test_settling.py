"""Settlements that the store does not take, and how they harm no other."""

import asyncio
from typing import Any

import pytest

from packhorse.engine.attempt import current_attempt
from packhorse.engine.context import current
from packhorse.model import limits
from packhorse.model.effect import Publish, Put
from packhorse.model.job import State
from packhorse.model.outcome import Done, Held
from packhorse.model.reason import DeadReason
from packhorse.testing.faults import DropRequest, RaiseError
from tests.engine.factories import Crossing, EventName, Gate, Tasks, job, jobs, worker
from tests.factories import one, put_in, states


def refused(*tasks: str, outcome: type | None = None):
    """Refuse every exchange that settles one of these tasks, if it ended so."""

    def rule(settlements, ask=None):
        bad = [each for each in settlements if each.lease.task in tasks]
        return (
            RaiseError(ValueError("no"))
            if any(outcome is None or isinstance(each.outcome, outcome) for each in bad)
            else None
        )

    return rule


async def test_a_settlement_the_store_refuses_harms_no_other_and_its_job_failed(live, telemetry, recorder):
    tasks, gate, crossing = Tasks(), Gate(), Crossing()
    tasks.many({"good": gate, "marked": gate}, attempts=1)
    crossing.rules["jobs.exchange"] = refused("marked", outcome=Done)
    marked = [job("marked"), job("marked")]
    good = jobs(18, "good")
    await put_in(live, *good[:7], marked[0], *good[7:12], marked[1], *good[12:])
    async with worker(crossing.before(live), tasks, telemetry, concurrency=20):
        await recorder.until(EventName.STARTED, 20)
        gate.open()
        await recorder.until(EventName.DONE, 18)
        await recorder.until(EventName.DEAD, 2)

    assert set(await states(live, *[each.id for each in good])) == {State.DONE}
    for each in marked:
        found = await one(live, each.id)
        assert (found.reason, found.failures[-1].type, found.failures[-1].message) == (
            DeadReason.EXHAUSTED,
            "ValueError",
            "no",
        )
    assert recorder.count(EventName.SETTLEMENT_REFUSED) == 2


async def test_a_settlement_that_is_refused_again_is_let_go(memory, telemetry, recorder):
    tasks, gate, crossing = Tasks(), Gate(), Crossing()
    tasks.many({"good": gate, "marked": gate})
    crossing.rules["jobs.exchange"] = refused("marked")
    [dropped] = await put_in(memory, job("marked"))
    await put_in(memory, *jobs(5, "good"))
    async with worker(crossing.before(memory), tasks, telemetry):
        await recorder.until(EventName.STARTED, 6)
        gate.open()
        await recorder.until(EventName.DONE, 5)
        await recorder.until(EventName.SETTLEMENT_REFUSED, 2)
        await put_in(memory, *jobs(5, "good"))
        await recorder.until(EventName.DONE, 10)

    found = await one(memory, dropped)
    assert (found.state, found.failures) == (State.RUNNING, ())
    assert recorder.count(EventName.SETTLEMENT_REFUSED) == 2


async def test_what_cannot_be_settled_in_parts_either_is_settled_when_the_store_is_back(memory, telemetry, recorder):
    tasks, gate, crossing = Tasks(), Gate(), Crossing()
    tasks.many({"good": gate})
    await put_in(memory, *jobs(10, "good"))
    async with worker(crossing.before(memory), tasks, telemetry):
        await recorder.until(EventName.STARTED, 10)
        faults = [RaiseError(ValueError("as a whole")), *[DropRequest()] * 4]
        crossing.rules["jobs.exchange"] = lambda settlements, ask=None: faults.pop(0) if faults else None
        gate.open()
        await recorder.until(EventName.DONE, 10)
        await recorder.until(EventName.STORE_RECOVERED)

    assert recorder.count(EventName.SETTLEMENT_REFUSED) == 0
    assert faults == []


async def test_a_record_that_was_changed_meanwhile_fails_the_attempt_which_is_run_again(live, telemetry, recorder):
    tasks, tries = Tasks(), []

    @tasks.task()
    async def count() -> None:
        [record] = await live.records.get("counter", ["a"])
        tries.append(record.version if record else 0)
        if len(tries) == 1:
            await live.records.put([Put("counter", "a", b"1")])
        current_attempt().effects += [Put("counter", "a", b"2", expect=tries[-1]), Publish("news", b"1")]

    [counted] = await put_in(live, job("count"))
    async with worker(live, tasks, telemetry):
        await recorder.until(EventName.DONE)

    found = await one(live, counted)
    [record] = await live.records.get("counter", ["a"])
    assert record.value == b"2"
    assert tries[0] == 0 < tries[1] < record.version
    assert (found.attempt, [each.type for each in found.failures]) == (2, ["packhorse.errors.RecordConflict"])
    assert len(await live.streams.read("news")) == 1
    assert recorder.count(EventName.SETTLEMENT_REFUSED) == 1


async def test_many_effects_that_end_at_once_are_written_in_several_exchanges(live, telemetry, recorder):
    tasks, gate, crossing = Tasks(), Gate(), Crossing()

    @tasks.task()
    async def spread(number: int) -> None:
        current_attempt().effects += [Publish("news", b"1")] * 450
        await gate()

    await put_in(live, *jobs(10, "spread"))
    async with worker(crossing.before(live), tasks, telemetry):
        await recorder.until(EventName.STARTED, 10)
        gate.open()
        await recorder.until(EventName.DONE, 10)

    sizes = [sum(len(each.effects) for each in args[0]) for name, args in crossing.calls if name == "jobs.exchange"]
    assert sum(sizes) == 4500
    assert max(sizes) <= limits.EFFECTS_PER_CALL
    assert len(await live.streams.read("news", after=4000, limit=1000)) == 500


async def test_what_ends_while_an_exchange_is_under_way_goes_with_the_next(memory, telemetry, recorder):
    tasks, crossing = Tasks(), Crossing()

    @tasks.task()
    async def work(number: int) -> None:
        await asyncio.sleep(0)

    await put_in(memory, *jobs(200))
    async with worker(crossing.before(memory), tasks, telemetry, concurrency=20):
        await recorder.until(EventName.DONE, 200)

    sizes = [len(args[0]) for name, args in crossing.calls if name == "jobs.exchange"]
    assert sum(sizes) == 200
    assert len(sizes) < 60


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_attempt_whose_pieces_the_store_refuses_has_failed(memory, telemetry, recorder, at_once):
    tasks, crossing, refusing = Tasks(), Crossing(), [True]

    def rule(settlements: Any, *_: Any) -> RaiseError | None:
        held = [each for each in settlements if isinstance(each.outcome, Held)]
        return RaiseError(ValueError("not these")) if held and refusing[0] else None

    @tasks.task()
    async def work() -> None:
        refusing[0] = current().attempt == 1
        for number in range(3):
            current().emit(number)
        if not at_once and current().attempt == 1:
            await recorder.until(EventName.SETTLEMENT_REFUSED)

    crossing.rules["jobs.exchange"] = rule
    [job_id] = await put_in(memory, job("work"))
    async with worker(crossing.before(memory), tasks, telemetry):
        await recorder.until(EventName.DONE)

    found = await one(memory, job_id)
    assert (found.attempt, [each.message for each in found.failures]) == (2, ["not these"])
