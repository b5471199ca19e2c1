"""Calls from code without an event loop: scripts, threads, forks, servers that fork, notebooks."""

import asyncio
import builtins
import concurrent.futures
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from packhorse import App, ConfigError, JobCancelled, JobFailed, JobState, chain, correlated, current, group
from packhorse.errors import InvalidArguments, StoreClosed
from packhorse.jobs.portal import PORTAL
from packhorse.jobs.result_waiter import ResultWaiter
from packhorse.jobs.search import PAGE_SIZE
from tests import servers
from tests.features.factories import PATIENCE, Place, everything, working

ROOT = Path(__file__).parents[2]
MINUTE = 60


class Faced:
    """An app and its tasks."""

    def __init__(self, app: App) -> None:
        self.app = app

        @app.task(name="add")
        async def add(a: int, b: int) -> int:
            return a + b

        @app.task(name="fails", attempts=1)
        async def fails() -> None:
            raise LookupError("nothing there")

        @app.task(name="double")
        async def double(number: int) -> int:
            return number * 2

        @app.task(name="speaks")
        async def speaks(words: list[str]) -> None:
            for word in words:
                current().emit(word)

        self.add, self.double, self.fails, self.speaks = add, double, fails, speaks


@pytest.fixture
def faced(live: App) -> Iterator[Faced]:
    yield Faced(live)
    live.sync.close()
    PORTAL.stop()


def run(place: Place, scene: str) -> list[str]:
    """What a program says that runs to its end in a process of its own."""
    # From 3.12 on, Python warns of every fork of a process with threads.
    quiet = "-Wignore:This process:DeprecationWarning"
    program = [sys.executable, quiet, "-m", "tests.features.sync_scenes", scene]
    done = subprocess.run(
        program, cwd=ROOT, env=place.environment, capture_output=True, text=True, timeout=MINUTE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


async def words(app: App) -> list[str]:
    """What the jobs at a place were enqueued with."""
    return sorted(job.data["word"] for job in await everything(app))


# -- the same surface


async def test_a_result_has_its_type_and_its_errors(faced: Faced):
    def script() -> None:
        assert faced.add.sync.enqueue(1, b=2).result(timeout=PATIENCE) + 1 == 4
        assert faced.add.using(id="sum").sync.enqueue_and_wait(1, b=2) == 3
        with pytest.raises(JobFailed, match="nothing there"):
            faced.fails.sync.enqueue().result(timeout=PATIENCE)

    async with working(faced.app):
        await asyncio.to_thread(script)


def test_a_handle_does_what_the_async_one_does(faced: Faced):
    job = faced.add.using(delay="1h", id="once").sync.enqueue(1, 2)

    assert job.created
    assert not faced.add.using(id="once").sync.enqueue(1, 2).created
    assert job.state() is JobState.SCHEDULED
    assert job.promote()
    assert job.info().state is JobState.READY
    assert job.progress() is None
    with pytest.raises(TimeoutError):
        job.result(timeout=0.01)
    assert job.cancel() is JobState.CANCELLED
    assert faced.app.sync.job(job.id) == faced.app.sync.job("once") == faced.add.sync.job("once") == job
    with pytest.raises(JobCancelled):
        faced.app.sync.job(job.id).result()


def test_wrong_arguments_are_the_callers_error(faced: Faced):
    with pytest.raises(InvalidArguments, match=r"add\(\) does not take these arguments"):
        faced.add.sync.enqueue("one", 2)  # type: ignore[arg-type]


def test_an_app_enqueues_several_calls_and_finds_them(faced: Faced):
    first, second = faced.app.sync.enqueue(faced.add.call(1, 2), faced.fails.call())
    more = faced.app.sync.enqueue(*(faced.add.call(1, number) for number in range(PAGE_SIZE)))

    assert isinstance(more, tuple)
    assert sorted(job.id for job in faced.app.sync.jobs(task="add")) == sorted(job.id for job in (first, *more))
    assert [job.id for job in faced.app.sync.find(task="fails").items] == [second.id]


def test_a_queue_is_steered(faced: Faced):
    queue = faced.app.sync.queue("mail")
    with faced.app.sync:
        queue.pause()
        queue.resume()
        jobs = [queue.enqueue("send", {"to": number}, delay=number) for number in range(3)]
        assert (queue.counts()["ready"], queue.counts()["scheduled"]) == (1, 2)
        assert queue.cancel_pending() == 3
        assert {job.state() for job in jobs} == {JobState.CANCELLED}
        assert queue.purge() == 3


async def test_a_paused_queue_gives_no_jobs_until_it_is_resumed(faced: Faced):
    def script() -> int:
        queue = faced.app.sync.queue("default")
        queue.pause()
        job = faced.add.sync.enqueue(1, 2)
        with pytest.raises(TimeoutError):
            job.result(timeout=0.2)
        queue.resume()
        return job.result(timeout=PATIENCE)

    async with working(faced.app):
        assert await asyncio.to_thread(script) == 3


async def test_plans_are_enqueued_whole_and_cancelled_whole(faced: Faced):
    def script() -> None:
        assert chain(faced.add.call(1, 2), faced.double).sync.enqueue().result(timeout=PATIENCE) == 6
        assert group(faced.add.call(1, 2), faced.add.call(3, 4)).sync.enqueue().result(timeout=PATIENCE) == [3, 7]
        later = group(*(faced.add.using(delay="1h").call(n, n) for n in range(3))).sync.enqueue()
        assert later.cancel() is JobState.CANCELLED
        assert not faced.app.sync.find(state="scheduled").items

    async with working(faced.app):
        await asyncio.to_thread(script)


async def test_pieces_are_read_one_by_one_and_on_from_where_one_was(faced: Faced):
    def script() -> list[Any]:
        job = faced.speaks.sync.enqueue(["a", "b", "c"])
        first = next(job.stream())
        return [first.data, *(chunk.data for chunk in job.stream(first.after))]

    async with working(faced.app):
        assert await asyncio.to_thread(script) == ["a", "b", "c"]


async def test_progress_is_seen_while_a_job_runs(faced: Faced):
    go, loop = asyncio.Event(), asyncio.get_running_loop()

    @faced.app.task(name="half")
    async def half() -> str:
        current().progress(50, "half")
        await go.wait()
        return "whole"

    def script() -> tuple[float | None, str]:
        job = half.sync.enqueue()
        while (progress := job.progress()) is None:
            pass
        loop.call_soon_threadsafe(go.set)
        return progress.percent, job.result(timeout=PATIENCE)

    async with working(faced.app), asyncio.timeout(PATIENCE):
        assert await asyncio.to_thread(script) == (50, "whole")


# -- where it is called from


async def test_a_plain_script_enqueues_and_waits_for_the_result(place: Place, live: App):
    live.task(name="note")(_note)
    async with working(live):
        assert await asyncio.to_thread(run, place, "script") == ["plain"]


def test_many_threads_share_one_loop(faced: Faced):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda number: faced.add.sync.enqueue(number, 1), range(40)))

    assert len({job.id for job in jobs}) == 40
    assert faced.app.sync.queue("default").counts()["ready"] == 40
    assert [thread.name for thread in threading.enumerate()].count("packhorse-portal") == 1


async def test_inside_a_running_loop_it_says_what_to_do_instead(faced: Faced):
    with pytest.raises(ConfigError, match=r"await task\.enqueue"):
        faced.add.sync.enqueue(1, 2)

    assert await everything(faced.app) == []


async def test_a_notebook_may_block_the_loop_below_it(faced: Faced, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(builtins, "get_ipython", object, raising=False)

    assert faced.add.sync.enqueue(1, 2).state() is JobState.READY


async def test_the_portal_does_not_wait_for_itself(faced: Faced, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(builtins, "get_ipython", object, raising=False)

    async def inside() -> None:
        faced.add.sync.enqueue(1, 2)

    with pytest.raises(ConfigError, match=r"await task\.enqueue"):
        PORTAL.run(inside())


@pytest.mark.parametrize("patched", ["threading", "select"])
def test_under_gevent_it_says_what_to_do(faced: Faced, monkeypatch: pytest.MonkeyPatch, patched: str):
    monkeypatch.setitem(sys.modules, "gevent.monkey", SimpleNamespace(is_module_patched=patched.__eq__))

    with pytest.raises(ConfigError, match="gthread"):
        faced.add.sync.enqueue(1, 2)


def test_the_chain_of_work_is_the_callers(faced: Faced):
    with correlated("order-7"):
        job = faced.add.sync.enqueue(1, 2)

    assert job.info().correlation_id == "order-7"


def test_what_a_call_sets_in_its_context_stays_there(faced: Faced):
    seen: ContextVar[str] = ContextVar("seen")
    seen.set("outside")

    async def inside() -> str:
        found = seen.get()
        seen.set("inside")
        return found

    assert (PORTAL.run(inside()), seen.get()) == ("outside", "outside")


# -- forks


@pytest.mark.parametrize(
    ("scene", "there"),
    [("fork", ["child", "grandchild", "parent", "parent again"]), ("fork_unused", ["child", "parent"])],
)
async def test_parent_and_child_both_call(place: Place, live: App, scene: str, there: list[str]):
    assert run(place, scene) == ["ready", "ready"]
    assert await words(live) == there


async def test_children_are_forked_while_others_call(place: Place, live: App):
    failed, called = run(place, "fork_busy")

    found = await words(live)
    assert failed == ""
    assert found.count("child") == 30
    assert found.count("busy") == int(called) > 0


async def test_a_child_loses_nothing_when_its_parent_is_gone(place: Place, live: App):
    assert run(place, "fork_orphan") == ["ready"]
    assert await words(live) == ["child", "orphan", "other", "parent"]


def test_a_child_notices_a_fork_that_python_does_not_know_of(place: Place):
    assert run(place, "fork_in_c") == ["both"]


def test_what_is_in_memory_is_not_shared_with_a_child(tmp_path: Path):
    memory = Place("sqlite:///:memory:", "packhorse", tmp_path / "ledger")
    assert run(memory, "fork_memory") == ["child 0 1", "parent 1"]


@contextmanager
def gunicorn(place: Place, port: int) -> Iterator["subprocess.Popen[str]"]:
    """A server that loads the app, then forks two workers; it is asked to end at the end."""
    options = ["--preload", "--workers=2", "--graceful-timeout=20", f"--bind=127.0.0.1:{port}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", *options, "tests.features.sync_wsgi:application"],
        cwd=ROOT,
        env=place.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_a_server_that_loads_the_app_and_then_forks_serves_and_ends(place: Place, live: App):
    port = servers.free_port()

    def ask(number: int) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/?request-{number}", timeout=PATIENCE) as answer:
            assert answer.status == 201
            return str(answer.read())

    with gunicorn(place, port) as process, concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert process.stderr is not None
        given = []
        while sum("Booting worker" in line for line in given) < 2:
            given.append(process.stderr.readline())
            assert given[-1], given
        answers = list(pool.map(ask, range(20)))
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert "SIGKILL" not in rest
    assert "Error" not in rest
    assert len(set(answers)) == 20
    assert await words(live) == sorted(["loaded", *(f"request-{number}" for number in range(20))])


# -- interrupts and ends


def test_an_interrupt_ends_the_wait_and_the_call(place: Place):
    assert run(place, "interrupt") == ["interrupted", "ready"]


def test_a_signal_handler_may_call_while_the_main_thread_makes_its_first_call(place: Place):
    assert run(place, "signalled") == ["True ready"]


async def test_a_call_when_the_interpreter_ends_is_refused(place: Place, live: App):
    first, second = run(place, "at_exit")

    assert first == second == "The interpreter is ending and runs no more calls: make this one before the program ends"
    assert await words(live) == ["in time"]


def test_a_thread_that_outlives_the_main_one_may_call(place: Place):
    assert run(place, "threads_go_on") == ["ready"]


def test_a_program_ends_though_the_portal_is_busy(place: Place):
    assert run(place, "busy_exit") == ["ready"]


def test_closing_the_app_ends_the_waits_and_a_call_opens_it_again(faced: Faced):
    job = faced.add.sync.enqueue(1, 2)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(job.result)
        while not PORTAL.run(_waits()):
            pass
        faced.app.sync.close()
        with pytest.raises(StoreClosed, match="closed while this call waited"):
            waiting.result(timeout=PATIENCE)

    assert job.state() is JobState.READY


def test_a_call_that_wants_to_exit_is_not_the_last_one(faced: Faced):
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        PORTAL.run(leave())

    assert faced.add.sync.enqueue(1, 2).state() is JobState.READY


async def _waits() -> bool:
    return any(task.get_coro().__qualname__ == ResultWaiter._listen.__qualname__ for task in asyncio.all_tasks())


def _note(word: str) -> str:
    return word
