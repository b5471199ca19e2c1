"""What handlers see of the attempt they run in, and what stands around them."""

import asyncio
import contextvars
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from packhorse.engine.attempt import current_attempt
from packhorse.engine.context import Context, current
from packhorse.engine.signals import Retry
from packhorse.engine.worker import Settings
from packhorse.errors import NotInAJob
from packhorse.model import codec
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.ids import id_text
from packhorse.model.job import State
from packhorse.testing import run_until_idle
from tests.engine.factories import EventName, Run, Tasks, job, jobs, worker
from tests.factories import new, one, put_in, state

TENANT = contextvars.ContextVar("TENANT", default="nobody")
ON_LOOP_AND_IN_THREADS = pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])


def on(run: Run, call: Any) -> Any:
    """The same plain function, on the loop or in a thread."""

    async def on_loop(**given: Any) -> Any:
        await asyncio.sleep(0)
        return call(**given)

    return on_loop if run is Run.ASYNC else call


@ON_LOOP_AND_IN_THREADS
async def test_a_variable_set_in_one_job_is_unset_in_the_next(memory, telemetry, recorder, run):
    tasks, seen = Tasks(), []

    def tenant(number: int) -> None:
        seen.append(TENANT.get())
        TENANT.set(str(number))

    tasks.task(run, name="work")(on(run, tenant))
    TENANT.set("of the worker")
    await put_in(memory, *jobs(20))
    async with worker(memory, tasks, telemetry, concurrency=1):
        await recorder.until(EventName.DONE, 20)

    assert seen == ["nobody"] * 20
    assert TENANT.get() == "of the worker"


async def test_code_outside_of_a_job_has_no_current_one():
    with pytest.raises(NotInAJob):
        current()


@ON_LOOP_AND_IN_THREADS
async def test_code_in_a_job_knows_it(memory, telemetry, recorder, run):
    tasks, seen = Tasks(), []

    def look() -> None:
        ctx = current()
        seen.append((ctx.job_id, ctx.task, ctx.queue, ctx.attempt, ctx.cancelled, ctx.idempotency_key, ctx.headers))

    tasks.task(run, name="look")(on(run, look))
    [looked] = await put_in(memory, new("look", headers=b'{"tenant":"t1"}'))
    async with worker(memory, tasks, telemetry):
        await recorder.until(EventName.DONE)

    text = id_text(looked)
    assert seen == [(text, "look", "default", 1, False, text, {"correlation_id": text, "tenant": "t1"})]
    with pytest.raises(NotInAJob):
        current()


async def test_many_jobs_at_once_know_each_their_own(memory, telemetry, recorder):
    tasks, wrong = Tasks(), []

    @tasks.task()
    async def work(number: int) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
            if codec.decode(current_attempt().lease.payload) != {"number": number}:
                wrong.append(number)

    await put_in(memory, *jobs(100))
    async with worker(memory, tasks, telemetry, concurrency=20):
        await recorder.until(EventName.DONE, 100)

    assert wrong == []


class Layer:
    """Middleware that notes down what passes through it."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name, self.notes = name, notes

    @contextmanager
    def __call__(self, ctx: Context) -> Iterator[None]:
        self.notes.append(f"{self.name} before {ctx.task}")
        try:
            yield
        except Exception as error:
            self.notes.append(f"{self.name} saw {type(error).__name__}")
            raise
        self.notes.append(f"{self.name} after")


@ON_LOOP_AND_IN_THREADS
async def test_middleware_stands_around_every_attempt_the_first_outermost(memory, clock, run):
    tasks, notes = Tasks(), []
    tasks.task(run, name="work")(on(run, lambda: notes.append("work")))
    await put_in(memory, job("work"))

    await run_until_idle(memory, tasks, middleware=[Layer("outer", notes), Layer("inner", notes)])

    assert notes == ["outer before work", "inner before work", "work", "inner after", "outer after"]


@ON_LOOP_AND_IN_THREADS
async def test_errors_pass_through_middleware(memory, run):
    tasks, notes = Tasks(), []

    def work() -> None:
        raise KeyError("work")

    tasks.task(run, name="work", attempts=1)(on(run, work))
    [failed] = await put_in(memory, job("work"))

    await run_until_idle(memory, tasks, middleware=[Layer("outer", notes), Layer("inner", notes)])

    assert notes[2:] == ["inner saw KeyError", "outer saw KeyError"]
    assert (await one(memory, failed)).failures[-1].type == "KeyError"


@ON_LOOP_AND_IN_THREADS
async def test_middleware_that_swallows_an_error_does_not_keep_the_attempt_from_failing(memory, run):
    tasks, notes = Tasks(), []
    tasks.task(run, name="work", attempts=1)(on(run, lambda: {}["missing"]))
    [failed] = await put_in(memory, job("work"))

    await run_until_idle(memory, tasks, middleware=[Layer("outer", notes), lambda ctx: suppress(Exception)])

    found = await one(memory, failed)
    assert (found.state, found.failures[-1].type) == (State.DEAD, "KeyError")
    assert notes == ["outer before work", "outer after"]


@ON_LOOP_AND_IN_THREADS
async def test_middleware_may_turn_one_error_into_another(memory, run):
    tasks = Tasks()

    @contextmanager
    def patient(ctx: Context) -> Iterator[None]:
        try:
            yield
        except KeyError as error:
            raise Retry(60) from error

    tasks.task(run, name="work")(on(run, lambda: {}["missing"]))
    [again] = await put_in(memory, job("work"))

    await run_until_idle(memory, tasks, middleware=[patient])

    found = await one(memory, again)
    assert (found.state, found.attempt) == (State.SCHEDULED, 1)


@ON_LOOP_AND_IN_THREADS
async def test_middleware_that_fails_fails_the_attempt_and_those_outside_see_it(memory, run):
    tasks, notes = Tasks(), []

    @contextmanager
    def broken(ctx: Context) -> Iterator[None]:
        raise LookupError("no database")
        yield

    tasks.task(run, name="work", attempts=1)(on(run, lambda: notes.append("work")))
    [failed] = await put_in(memory, job("work"))

    await run_until_idle(memory, tasks, middleware=[Layer("outer", notes), broken])

    assert notes == ["outer before work", "outer saw LookupError"]
    assert (await one(memory, failed)).failures[-1].message == "no database"


@ON_LOOP_AND_IN_THREADS
async def test_variables_set_by_middleware_are_seen_by_the_handler(memory, run):
    tasks, seen = Tasks(), []

    @contextmanager
    def tenant(ctx: Context) -> Iterator[None]:
        token = TENANT.set(ctx.headers["tenant"])
        yield
        TENANT.reset(token)

    tasks.task(run, name="work")(on(run, lambda: seen.append(TENANT.get())))
    await put_in(memory, new("work", headers=b'{"tenant":"t1"}'))

    await run_until_idle(memory, tasks, middleware=[tenant])

    assert seen == ["t1"]


def effects() -> list[Any]:
    return [Enqueue(new("next", queue="later")), Publish("news", b'"reported"'), Put("kind", "key", b"[1]")]


@ON_LOOP_AND_IN_THREADS
async def test_effects_of_an_attempt_that_works_are_written_with_its_completion(store, clock, run):
    tasks, wanted = Tasks(), effects()
    tasks.task(run, name="work")(on(run, lambda: current_attempt().effects.extend(wanted)))
    [done] = await put_in(store, job("work"))

    await run_until_idle(store, tasks, Settings(), clock=clock)

    assert await state(store, done) is State.DONE
    assert await state(store, wanted[0].job.id) is State.READY
    assert [event.data for event in await store.streams.read("news")] == [b'"reported"']
    assert (await store.records.get("kind", ["key"]))[0].value == b"[1]"


@ON_LOOP_AND_IN_THREADS
async def test_effects_of_an_attempt_that_fails_are_dropped(store, clock, run):
    tasks, wanted = Tasks(), effects()

    def work() -> None:
        current_attempt().effects.extend(wanted)
        raise ValueError("after all")

    tasks.task(run, name="work", attempts=2)(on(run, work))
    [failed] = await put_in(store, job("work"))

    await run_until_idle(store, tasks, clock=clock)

    assert await state(store, failed) is State.DEAD
    assert await state(store, wanted[0].job.id) is None
    assert await store.streams.read("news") == []
    assert await store.records.get("kind", ["key"]) == [None]


async def test_jobs_that_jobs_enqueue_are_run_too(store, clock):
    tasks, ran = Tasks(), []

    @tasks.task()
    async def work(number: int) -> None:
        ran.append(number)
        if number < 5:
            current_attempt().effects.append(Enqueue(job("work", number=number + 1)))

    await put_in(store, job("work", number=1))

    await run_until_idle(store, tasks, clock=clock)

    assert ran == [1, 2, 3, 4, 5]
