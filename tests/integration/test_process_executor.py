"""Attempts in child processes: what they answer, and what goes with the answer."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from packhorse.engine.context import context_of
from packhorse.engine.executors.process import ChildNotStarted, ChildPool, check_entry
from packhorse.engine.registry import Entry, Run
from packhorse.errors import ConfigError, InvalidOption
from packhorse.model import codec, limits
from packhorse.model.clock import SYSTEM
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.outcome import Again, Cancelled, Dead, Done
from packhorse.model.reason import DeadReason
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName
from packhorse.testing import TurnedClock
from tests.factories import SECOND
from tests.integration import child_tasks
from tests.integration.pools import ORIGIN, Pool, pools, within


@pytest.fixture
async def pool() -> AsyncIterator[Callable[..., Pool]]:
    async with pools() as make:
        yield make


# -- what an attempt answers


async def test_a_child_answers_what_the_function_returns(pool):
    children = pool()
    assert await children.outcome("echo", a=[1, "é"]) == Done('{"a":[1,"é"]}'.encode())
    assert await children.outcome("echo_async", a=None) == Done(b'{"a":null}')
    assert await children.result("tell", steps=0) is None


async def test_the_settlement_is_of_the_lease_that_was_given(pool):
    settlement = await pool().run("echo")
    assert settlement.lease == child_tasks.lease("echo")  # with the payload that was not opened


async def test_a_child_stays_warm(pool):
    children = pool()
    assert len({await children.result("pid") for _ in range(3)}) == 1


async def test_an_app_is_an_origin_as_well_as_its_registry(pool):
    assert await pool("tests.integration.child_tasks:app").result("echo", a=1) == {"a": 1}


@pytest.mark.parametrize("task", ["fail", "fail_async"])
async def test_a_failure_is_judged_where_its_class_is_known(pool, task):
    children = pool()
    first = await children.outcome(task, kind="RecursionError")
    assert isinstance(first, Again)
    assert first.error is not None
    assert (first.error.type, first.error.message) == ("RecursionError", "on purpose")
    assert f"in {task}" in first.error.traceback

    last = await children.call(child_tasks.attempt(task, attempt=2), kind="RecursionError")
    assert (last.outcome.reason, last.outcome.error.type) == (DeadReason.EXHAUSTED, "RecursionError")
    assert (await children.outcome(task, kind="ValueError")).reason is DeadReason.FINAL


async def test_signals_are_judged_too(pool):
    children = pool()
    assert (await children.outcome("fail", kind="Retry")).delay == 7 * SECOND
    assert await children.outcome("fail", kind="Snooze") == Again(9 * SECOND, charged=False)
    cancelled = await children.outcome("fail", kind="Cancel")
    assert isinstance(cancelled, Cancelled)
    assert cancelled.error is not None
    assert cancelled.error.message == "on purpose"


async def test_errors_that_end_programs_fail_the_attempt_and_spare_the_child(pool):
    children = pool()
    before = await children.result("pid")
    for task in ("fail", "fail_async"):
        for kind in ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "RecursionError", "MemoryError"):
            assert (await children.outcome(task, kind=kind)).error.type == kind
    assert (await children.outcome("fail", kind="StopIteration")).error.type == "StopIteration"
    assert await children.result("pid") == before


async def test_an_error_is_never_built_again(pool):
    assert "ftp" in (await pool().outcome("fail_here")).error.message


async def test_wrong_arguments_fail_the_attempt(pool):
    children = pool()
    assert (await children.outcome("pid", surplus=1)).error.type == "TypeError"
    undecodable = await within(children.children.call(child_tasks.attempt("pid"), b"[1"))
    assert undecodable.outcome.reason is DeadReason.UNDECODABLE


async def test_a_loop_that_the_task_broke_is_replaced(pool):
    children = pool()
    assert (await children.outcome("stop_loop")).error.type == "RuntimeError"
    assert await children.result("echo_async", a=1) == {"a": 1}


# -- what goes with it


async def test_progress_arrives_in_order(pool):
    running = pool().begin("tell", steps=5)
    assert [await running.received() for _ in range(5)] == list(range(5))
    await running.end()
    assert running.progress.empty()


async def test_progress_of_an_ended_attempt_is_not_taken_for_the_next_ones(pool):
    children = pool()
    await children.run("tell_late")
    running = children.begin("after_late")
    assert await running.received() == "own"
    await running.end()


async def test_effects_come_with_the_result(pool):
    settlement = await pool().run("with_effects", fails=False)
    enqueue, publish, put = settlement.effects
    assert isinstance(enqueue, Enqueue)
    assert (enqueue.job.task, enqueue.job.payload, enqueue.job.delay) == ("other", b'{"a": "\xc3\xa9\\u0000"}', 5)
    assert publish == Publish("news", b'"sold"', "k")
    assert put == Put("kind", "key", b"[1]", expect=0)


async def test_effects_of_a_failed_attempt_are_dropped(pool):
    settlement = await pool().run("with_effects", fails=True)
    assert settlement.effects == ()
    assert isinstance(settlement.outcome, Again)


async def test_too_many_effects_are_dead(pool):
    children = pool()
    assert len((await children.run("many_effects", count=limits.EFFECTS)).effects) == limits.EFFECTS
    assert (await children.outcome("many_effects", count=limits.EFFECTS + 1)).reason is DeadReason.FINAL


async def test_printing_and_reading_do_no_harm(pool, capfd, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    assert await pool().result("noisy") == ""
    out, err = capfd.readouterr()
    assert (out, err) == ("printed\n", "written\n")


async def test_the_largest_payload_and_result_pass(pool):
    text = "é" * ((limits.PAYLOAD - 8) // 2)
    children = pool()
    assert await children.result("echo", a=text) == {"a": text}
    assert len((await children.outcome("big", size=limits.RESULT)).result) == limits.RESULT


async def test_a_result_that_cannot_be_stored_is_dead(pool):
    children = pool()
    dead = await children.outcome("big", size=limits.RESULT + 1)
    assert isinstance(dead, Dead)
    assert (dead.reason, dead.error.type.rpartition(".")[2]) == (DeadReason.FINAL, "PayloadTooLarge")
    assert (await children.outcome("unencodable")).reason is DeadReason.FINAL


async def test_what_is_too_large_for_the_line_is_dead(pool):
    dead = await pool().outcome("huge_effects")
    assert (dead.reason, dead.error.type.rpartition(".")[2]) == (DeadReason.FINAL, "PayloadTooLarge")


async def test_a_child_lives_where_its_worker_does(pool, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    attempt = child_tasks.attempt("place", attempt=3, headers=b'{"user":"u1"}')
    attempt.deadline = SYSTEM.steady() + 60 * SECOND
    answer = await pool().call(attempt)
    place = codec.decode(answer.outcome.result)
    assert 0 < place.pop("left") <= 60 * SECOND
    assert place == {
        "folder": str(Path.cwd()),
        "path": [str(Path.cwd() / part) for part in sys.path],
        "inherited": "/nowhere",
        "session": True,
        "attempt": 3,
        "headers": {"correlation_id": context_of(attempt).correlation_id, "user": "u1"},
    }


async def test_context_variables_do_not_leak_into_the_next_attempt(pool):
    children = pool()
    assert await children.result("tenant", name="a") == "none"
    assert await children.result("tenant", name="b") == "none"


async def test_two_hundred_calls_over_two_children(pool):
    children = pool(size=2)
    await within(children.children.warm(2))
    pids = Counter(await asyncio.gather(*(children.result("pid") for _ in range(200))))
    assert len(pids) == 2
    assert sum(pids.values()) == 200


async def test_children_run_under_uvloop():
    uvloop = pytest.importorskip("uvloop")

    async def run() -> object:
        async with pools() as make:
            return await make().result("echo", a=1)

    def in_thread() -> object:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run())

    assert await within(asyncio.to_thread(in_thread)) == {"a": 1}


# -- what cannot be run


@pytest.mark.parametrize("origin", ["tests.integration.child_tasks", ":app", "module:", ""])
def test_an_origin_names_a_module_and_an_attribute(origin):
    with pytest.raises(ConfigError, match="module:attribute"):
        ChildPool(origin, size=1, clock=SYSTEM, telemetry=Telemetry())


def test_a_pool_has_at_least_one_child():
    with pytest.raises(InvalidOption):
        ChildPool(ORIGIN, size=0, clock=SYSTEM, telemetry=Telemetry())


def test_what_is_defined_in_main_is_refused():
    with pytest.raises(ConfigError, match="to a module"):
        ChildPool("__main__:app", size=1, clock=SYSTEM, telemetry=Telemetry())

    def function() -> None: ...

    function.__module__ = "__main__"
    with pytest.raises(ConfigError, match="move it to a module"):
        check_entry(Entry(name="main", call=function, run=Run.PROCESS))


async def test_a_task_that_only_the_worker_knows_is_refused_and_spares_the_child(pool):
    children = pool()
    before = await children.result("pid")
    attempt = child_tasks.attempt("echo")
    attempt.lease = child_tasks.lease("main.task")
    with pytest.raises(ConfigError, match=r"do not know the task 'main\.task'"):
        await children.call(attempt)
    assert await children.result("pid") == before


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ("tests.integration.child_broken:app", "RuntimeError: broken on purpose"),
        ("tests.integration.child_tasks:missing", "AttributeError"),
        ("tests.integration.child_tasks:nothing", "is not a registry and has none"),
        ("no.such.module:app", "No module named 'no'"),
    ],
)
async def test_a_child_that_cannot_load_its_tasks_says_why(pool, origin, words):
    children = pool(origin)
    with pytest.raises(ChildNotStarted, match=words):
        await children.result("echo")
    assert (await children.hear())[0] is EventName.CHILD_DIED


async def test_starts_that_fail_are_not_repeated_at_once(pool):
    clock = TurnedClock()
    children = pool("tests.integration.child_broken:app", size=3, clock=clock)
    together = await asyncio.gather(*(children.result("echo") for _ in range(3)), return_exceptions=True)
    assert {type(error) for error in together} == {ChildNotStarted}

    assert [(await children.hear())[1]["failures"] for _ in range(3)] == [1, 2, 3]

    await children.emptied()

    later = [children.begin("echo") for _ in range(3)]
    for _ in range(20):
        await asyncio.sleep(0)
    clock.turn(SECOND * 4 // 10 - 1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert children.children.pids == ()
    clock.turn(1)
    for each in later:
        with pytest.raises(ChildNotStarted):
            await each.end()
    assert (await children.hear())[1]["failures"] == 4
    await children.emptied()
    assert children.events.empty()  # it was tried once


async def test_a_child_that_takes_too_long_to_load_is_given_up(pool):
    clock = TurnedClock()
    children = pool("tests.integration.child_slow:app", clock=clock)
    waiting = children.begin("echo")
    while not waiting.task.done():
        await within(asyncio.sleep(0.001))
        clock.turn(60 * SECOND if children.children.pids else 0)
    with pytest.raises(ChildNotStarted, match="loading took too long"):
        await waiting.end()


async def test_a_system_that_refuses_processes_is_reported_each_time(pool, monkeypatch):
    children = pool()
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    async def call() -> None:
        for _ in range(2):
            with pytest.raises(ChildNotStarted, match="the system refused"):
                await children.children.call(child_tasks.attempt("echo"), b"{}")

    await within(call())


async def test_children_can_be_warmed_ahead(pool):
    children = pool(size=2)
    await within(children.children.warm(5))
    warm = set(children.children.pids)
    assert len(warm) == 2
    assert {await children.result("pid"), await children.result("pid")} <= warm
    assert os.getpid() not in warm
