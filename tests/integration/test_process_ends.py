"""How attempts in child processes are stopped, how children end, and that nothing is left behind."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from packhorse.engine.executors import frames
from packhorse.engine.executors.process import ChildDied, ChildNotStarted
from packhorse.engine.judge import Cause
from packhorse.model import codec
from packhorse.model.outcome import Cancelled, Done
from packhorse.telemetry.names import EventName
from packhorse.testing import TurnedClock
from tests.factories import SECOND
from tests.integration import child_tasks
from tests.integration.pools import LIMIT, ORIGIN, Fifo, Pool, pools, within, worker

GRACE = 5 * SECOND


def exists(pid: int) -> bool:
    """Whether there is a process that was not reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def descriptors() -> list[str]:
    """What is open in this process."""
    return sorted(path.name for path in Path("/dev/fd").iterdir())


@pytest.fixture
async def pool() -> AsyncIterator[Callable[..., Pool]]:
    async with pools() as make:
        yield make


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    made = Fifo(tmp_path)
    yield made
    made.close()


# -- stopped by the worker


@pytest.mark.parametrize("cause", [Cause.TIMEOUT, Cause.LOST, Cause.SHUTDOWN])
async def test_stopping_kills_the_child_with_all_it_started(pool, fifo, cause):
    children = pool(clock=TurnedClock())
    running = children.begin("hold", fifo=fifo.path)
    await fifo.begun()
    running.stop(cause)
    with pytest.raises(asyncio.CancelledError):
        await running.end()
    await fifo.released()
    assert await children.result("echo", a=1) == {"a": 1}


async def test_native_code_that_holds_the_interpreter_is_killed(pool):
    children = pool()
    running = children.begin("backtrack")
    pid = await running.received()
    running.stop(Cause.TIMEOUT)
    with pytest.raises(asyncio.CancelledError):
        await running.end()
    assert await children.result("pid") != pid
    assert not exists(pid)


async def test_what_is_called_off_may_end_by_itself(pool):
    children = pool()
    for task, given in (("stop_nicely", {"value": None}), ("stop_async", {})):
        running = children.begin(task, **given)
        assert await running.received() == "waiting"
        running.stop(Cause.CANCEL)
        assert isinstance((await running.end()).outcome, Cancelled)
    running = children.begin("stop_nicely", value="finished all the same")
    await running.received()
    running.stop(Cause.CANCEL)
    assert (await running.end()).outcome == Done(b'"finished all the same"')
    assert await children.result("pid") in children.children.pids
    assert children.events.empty()


async def test_what_does_not_end_after_the_grace_is_killed(pool):
    clock = TurnedClock()
    children = pool(clock=clock)
    running = children.begin("never_stop")
    await running.received()
    [pid] = children.children.pids
    running.stop(Cause.CANCEL)
    assert await running.received() == "swallowed"
    clock.turn(GRACE - 1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not running.task.done()
    clock.turn(1)
    with pytest.raises(asyncio.CancelledError):
        await running.end()
    assert await children.result("pid") != pid


async def test_a_second_cancellation_kills_at_once(pool):
    children = pool(clock=TurnedClock())
    running = children.begin("never_stop")
    await running.received()
    running.stop(Cause.CANCEL)
    assert await running.received() == "swallowed"
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.end()
    await children.emptied()


async def test_one_that_dies_while_called_off_is_called_off(pool):
    children = pool(clock=TurnedClock())
    running = children.begin("never_stop")
    await running.received()
    running.stop(Cause.CANCEL)
    await running.received()
    os.kill(children.children.pids[0], signal.SIGKILL)
    with pytest.raises(asyncio.CancelledError):
        await running.end()


async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_child_to_others(pool):
    children = pool()
    running = children.begin("wait")
    pid = await running.received()
    waiting = children.begin("echo")
    await asyncio.sleep(0)
    waiting.stop(Cause.TIMEOUT)
    with pytest.raises(asyncio.CancelledError):
        await waiting.end()
    assert children.children.pids == (pid,)


async def test_a_start_is_not_wasted_when_its_call_is_cancelled(pool):
    children = pool(size=2)
    running = children.begin("echo")
    while not children.children.pids:
        await asyncio.sleep(0)
    [pid] = children.children.pids
    running.stop(Cause.TIMEOUT)
    with pytest.raises(asyncio.CancelledError):
        await running.end()
    assert await children.result("pid") == pid
    assert children.children.pids == (pid,)


# -- ended by itself


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("3", "exit code 3"),
        ("0", "exit code 0"),
        ("SIGKILL", "SIGKILL"),
        ("SIGSEGV", "SIGSEGV"),
        ("SIGABRT", "SIGABRT"),
    ],
)
async def test_a_child_that_dies_fails_its_attempt_and_nothing_else(pool, how, words):
    children = pool()
    with pytest.raises(ChildDied, match=words) as raised:
        await children.run("die", how=how)
    assert raised.value.begun
    name, fields = await children.hear()
    assert (name, fields["lease"].task, fields["error"]) == (EventName.CHILD_DIED, "die", raised.value)
    assert await children.result("echo", a=1) == {"a": 1}


async def test_a_child_that_closes_its_line_is_killed(pool):
    with pytest.raises(ChildDied):
        await pool().run("close_all")


async def test_what_a_dead_child_started_dies_too(pool, fifo):
    children = pool()
    running = children.begin("hold", fifo=fifo.path)
    await fifo.begun()
    os.kill(children.children.pids[0], signal.SIGKILL)
    with pytest.raises(ChildDied, match="SIGKILL"):
        await running.end()
    await fifo.released()


async def test_a_child_that_dies_idle_is_replaced(pool):
    children = pool()
    pid = await children.result("pid")
    os.kill(pid, signal.SIGKILL)
    name, fields = await children.hear()
    assert (name, fields["lease"]) == (EventName.CHILD_DIED, None)
    assert children.children.pids == ()
    assert await children.result("pid") != pid


async def test_a_call_to_a_child_that_just_died_goes_to_another(pool):
    children = pool(size=3)
    await within(children.children.warm(3))
    used = await asyncio.gather(*(children.result("pid") for _ in range(3)))
    for pid in children.children.pids:
        os.kill(pid, signal.SIGSTOP)  # it will not hear the call
    asking = asyncio.create_task(children.result("pid"))
    await asyncio.sleep(0)
    for pid in children.children.pids:
        os.kill(pid, signal.SIGKILL)
    assert await asking not in used


async def test_signals_to_everybody_are_left_to_the_worker(pool):
    children = pool()
    running = children.begin("stop_nicely", value="ok")
    await running.received()
    [pid] = children.children.pids
    for number in (signal.SIGINT, signal.SIGTERM):
        os.killpg(pid, number)
    running.stop(Cause.CANCEL)
    assert (await running.end()).outcome == Done(b'"ok"')
    assert await children.result("pid") == pid
    assert await children.result("bystander") == -signal.SIGTERM


async def test_signals_end_what_was_forked_from_a_child(pool):
    children = pool()
    assert await children.result("fork_and_end", number=signal.SIGTERM) == -signal.SIGTERM
    assert await children.result("fork_and_end", number=signal.SIGINT) == 55


async def test_a_fork_that_strays_out_of_a_task_ends_there(pool):
    children = pool()
    pid = await children.result("pid")
    assert await children.result("stray") == "ok"
    assert await children.result("pid") == pid


# -- replaced


async def test_a_child_is_replaced_after_so_many_attempts(pool):
    children = pool(recycle_jobs=2)
    pids = [await children.result("pid") for _ in range(5)]
    assert [len(set(pids[:2])), len(set(pids[2:4])), len(set(pids))] == [1, 1, 3]
    name, fields = await children.hear()
    assert (name, fields) == (EventName.CHILD_RECYCLED, {"reason": "jobs", "count": 2})


async def test_a_child_is_replaced_when_it_has_too_much_memory(pool):
    children = pool(recycle_rss=200 << 20)
    first = await children.result("hoard", size=1000)
    assert await children.result("hoard", size=200 << 20) == first
    name, fields = await children.hear()
    assert (name, fields["reason"]) == (EventName.CHILD_RECYCLED, "memory")
    assert await children.result("pid") != first


# -- nothing left behind


async def test_closing_leaves_neither_processes_nor_descriptors(pool):
    before = descriptors()
    children = pool(size=2)
    await asyncio.gather(*(children.result("pid") for _ in range(4)))
    pids = children.children.pids
    assert len(pids) == 2
    await within(children.children.close(GRACE))
    assert children.children.pids == ()
    assert not any(exists(pid) for pid in pids)
    assert descriptors() == before
    with pytest.raises(ChildNotStarted, match="closing"):
        await children.run("echo")


async def test_closing_waits_for_what_runs(pool):
    children = pool()
    running = children.begin("stop_nicely", value="ok")
    await running.received()
    closing = asyncio.create_task(children.children.close(LIMIT * SECOND))
    await asyncio.sleep(0)
    running.stop(Cause.CANCEL)
    assert (await running.end()).outcome == Done(b'"ok"')
    await within(closing)


async def test_closing_kills_what_runs_after_the_grace_and_refuses_what_waits(pool):
    clock = TurnedClock()
    children = pool(clock=clock)
    running = children.begin("wait")
    await running.received()
    waiting = children.begin("echo")
    await asyncio.sleep(0)
    closing = asyncio.create_task(children.children.close(GRACE))
    with pytest.raises(ChildNotStarted):
        await waiting.end()
    assert not closing.done()
    clock.turn(GRACE)
    with pytest.raises(ChildDied, match="closing"):
        await running.end()
    await within(closing)


async def test_closing_while_children_start(pool):
    children = pool(size=2)
    running = children.begin("echo")
    await asyncio.sleep(0)
    await within(children.children.close(0))
    with pytest.raises(ChildNotStarted):
        await running.end()
    assert children.children.pids == ()


async def test_closing_while_a_start_is_put_off(pool):
    children = pool("tests.integration.child_broken:app", clock=TurnedClock())
    with pytest.raises(ChildNotStarted):
        await children.run("echo")
    running = children.begin("echo")
    await asyncio.sleep(0)
    await within(children.children.close(0))
    with pytest.raises(ChildNotStarted):
        await running.end()


@pytest.mark.parametrize("task", ["hold", "hold_hard"])
async def test_a_killed_worker_leaves_no_child_behind(fifo, task):
    killed = subprocess.Popen(worker(task, fifo=fifo.path), cwd=Path(child_tasks.__file__).parents[2])
    try:
        await fifo.begun()
    finally:
        killed.kill()
        killed.wait()
    await fifo.released()


async def test_a_child_that_only_hears_of_its_worker_by_the_line_dies_with_it_too(fifo):
    line, theirs = socket.socketpair()
    ending, held = os.pipe()
    command = [sys.executable, "-m", "packhorse.engine.executors.child", ORIGIN, str(theirs.fileno()), str(ending)]
    child = subprocess.Popen(command, pass_fds=(theirs.fileno(), ending), start_new_session=True)
    theirs.close()
    os.close(ending)
    try:
        with line:
            payload = codec.encode({"fifo": fifo.path})
            line.sendall(frames.pack(frames.Start(tuple(sys.path), None)))
            assert list(frames.Unpacker().feed(await within(asyncio.to_thread(line.recv, 100)))) == [frames.Ready()]
            line.sendall(frames.pack(frames.CallFrame(child_tasks.lease("hold", payload=payload))))
            await fifo.begun()
        await fifo.released()
    finally:
        child.kill()
        assert child.wait() == -signal.SIGKILL
        os.close(held)
