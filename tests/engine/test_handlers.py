"""Handlers that do what they should not: their jobs are accounted for, and the worker goes on."""

import asyncio
from typing import Any

import pytest

from packhorse.engine.attempt import current_attempt
from packhorse.engine.signals import SettleAs
from packhorse.errors import UndecodablePayload
from packhorse.model import limits
from packhorse.model.effect import Publish
from packhorse.model.job import State
from packhorse.model.outcome import Wait
from packhorse.model.reason import DeadReason, WaitReason
from tests.engine.factories import EventName, Run, Tasks, job, worker
from tests.factories import new, one, put_in

ON_LOOP_AND_IN_THREADS = pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class Shifty(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in {"__module__", "__qualname__", "__name__"}:
            raise KeyError(name)
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=Shifty):
    pass


def endless() -> None:
    endless()


def loop_of_causes() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


def raiser(error: BaseException) -> Any:
    def call() -> None:
        raise error

    return call


RAISING = {
    "SystemExit": raiser(SystemExit(3)),
    "KeyboardInterrupt": raiser(KeyboardInterrupt()),
    "GeneratorExit": raiser(GeneratorExit()),
    "CancelledError": raiser(asyncio.CancelledError()),
    "RecursionError": endless,
    "MemoryError": raiser(MemoryError()),
    "Unspeakable": raiser(Unspeakable()),
    "unknown": raiser(Nameless()),
    "ValueError": loop_of_causes,
    "BaseExceptionGroup": raiser(BaseExceptionGroup("both", [SystemExit(), ValueError()])),
    "StopIteration": raiser(StopIteration()),
    "BaseException": raiser(BaseException()),
}


def tasks_of(calls: dict[str, Any], run: Run, **options: Any) -> Tasks:
    """Tasks that run the same plain functions on the loop or in threads."""
    tasks = Tasks()
    for name, call in calls.items():

        async def on_loop(call: Any = call) -> Any:
            await asyncio.sleep(0)
            return call()

        tasks.task(run, name=name, **options)(on_loop if run is Run.ASYNC else call)
    return tasks


async def ran(store: Any, tasks: Tasks, telemetry: Any, recorder: Any, ends: EventName) -> dict[str, Any]:
    """Every task once, in two slots, and then one that works; answers the jobs by task."""
    names = tasks.names
    tasks.task(name="good")(good)
    ids = await put_in(store, *[job(name) for name in names])
    async with worker(store, tasks, telemetry, concurrency=2):
        await recorder.until(ends, len(names))
        [after] = await put_in(store, job("good"))
        await recorder.until(EventName.DONE, task="good")
    assert (await one(store, after)).state is State.DONE
    return {found.task: found for found in [await one(store, each) for each in ids]}


async def good() -> str:
    return "good"


@ON_LOOP_AND_IN_THREADS
async def test_whatever_a_handler_raises_is_the_failure_of_its_job_alone(live, telemetry, recorder, run):
    found = await ran(live, tasks_of(RAISING, run, attempts=1), telemetry, recorder, EventName.DEAD)

    assert {each.state for each in found.values()} == {State.DEAD}
    assert {each.reason for each in found.values()} == {DeadReason.EXHAUSTED}
    kinds = {name: each.failures[-1].type.rpartition(".")[2] for name, each in found.items()}
    expected = {name: name for name in RAISING}
    if run is Run.ASYNC:
        expected["StopIteration"] = "RuntimeError"  # the language turns it into one when it leaves a coroutine
    assert kinds == expected
    assert all(each.attempt == 1 and each.lost == 0 for each in found.values())


@ON_LOOP_AND_IN_THREADS
async def test_what_a_handler_raises_is_tried_again_like_any_error(memory, telemetry, recorder, run):
    found = await ran(memory, tasks_of(RAISING, run, attempts=3), telemetry, recorder, EventName.DEAD)

    assert {each.attempt for each in found.values()} == {3}
    assert {len(each.failures) for each in found.values()} == {3}


@ON_LOOP_AND_IN_THREADS
async def test_a_result_that_cannot_be_stored_is_a_failure_for_good(live, telemetry, recorder, run):
    circle: list[Any] = []
    circle.append(circle)
    results = {
        "object": object(),
        "nan": float("nan"),
        "inside": {"list": [1, float("inf")]},
        "surrogate": "\ud800",
        "circle": circle,
        "oversized": "x" * (limits.RESULT + 1),
    }

    found = await ran(
        live,
        tasks_of({name: lambda value=value: value for name, value in results.items()}, run),
        telemetry,
        recorder,
        EventName.DEAD,
    )

    assert {each.reason for each in found.values()} == {DeadReason.FINAL}
    assert {each.result for each in found.values()} == {None}
    kinds = {name: each.failures[-1].type for name, each in found.items()}
    assert kinds.pop("oversized") == "packhorse.errors.PayloadTooLarge"
    assert set(kinds.values()) == {"packhorse.errors.InvalidArguments"}


@ON_LOOP_AND_IN_THREADS
async def test_too_many_effects_are_a_failure_for_good_and_none_is_written(live, telemetry, recorder, run):
    def spread() -> None:
        current_attempt().effects.extend([Publish("news", b"1")] * (limits.EFFECTS + 1))

    def spread_and_wait() -> None:
        spread()
        raise SettleAs(Wait(WaitReason.INTERVENTION))

    found = await ran(
        live, tasks_of({"spread": spread, "spread_and_wait": spread_and_wait}, run), telemetry, recorder, EventName.DEAD
    )

    assert {each.reason for each in found.values()} == {DeadReason.FINAL}
    assert {each.failures[-1].type for each in found.values()} == {"packhorse.errors.TooManyEffects"}
    assert await live.streams.read("news") == []


@ON_LOOP_AND_IN_THREADS
async def test_arguments_that_do_not_fit_are_the_failure_of_their_job_alone(memory, telemetry, recorder, run):
    tasks = tasks_of({"strict": lambda: None}, run, attempts=1)
    tasks.task(name="good")(good)
    await put_in(memory, job("strict", surplus=1), job("good"))

    async with worker(memory, tasks, telemetry):
        await recorder.until(EventName.DEAD)
        await recorder.until(EventName.DONE)

    assert recorder.of(EventName.DEAD)[0]["error"].type == "TypeError"


async def test_a_payload_that_is_no_object_is_dead_as_undecodable(memory, telemetry, recorder):
    tasks = tasks_of({"good": good}, Run.THREAD)
    await put_in(memory, new("good", payload=b"[1,2]"), new("good", payload=b"not json"))

    async with worker(memory, tasks, telemetry):
        dead = await recorder.until(EventName.DEAD, 2)

    assert {each["reason"] for each in dead} == {DeadReason.UNDECODABLE}


async def test_a_coroutine_function_in_a_thread_is_a_failure_that_is_reported(memory, telemetry, recorder):
    tasks = Tasks()
    tasks.task(Run.THREAD, name="odd", attempts=1)(good)
    await put_in(memory, job("odd"))

    with pytest.warns(RuntimeWarning, match="never awaited"):
        async with worker(memory, tasks, telemetry):
            dead = await recorder.until(EventName.DEAD)

    assert "coroutine" in dead[0]["error"].message


@ON_LOOP_AND_IN_THREADS
async def test_headers_that_make_no_sense_are_the_failure_of_their_job_alone(memory, telemetry, recorder, run):
    def tune(policy: Any, headers: bytes) -> Any:
        if headers != b"{}":
            raise UndecodablePayload("no sense")
        return policy

    ran_at_all: list[str] = []
    tasks = tasks_of({"odd": lambda: ran_at_all.append("odd")}, run, tune=tune)
    tasks.task(name="good", tune=tune)(good)
    [odd, _] = await put_in(memory, new("odd", headers=b"{}[]"), job("good"))
    async with worker(memory, tasks, telemetry):
        await recorder.until(EventName.DEAD)
        await recorder.until(EventName.DONE)

    found = await one(memory, odd)
    assert (found.reason, found.attempt, ran_at_all) == (DeadReason.UNDECODABLE, 1, [])
