"""Pieces and progress of handlers with a transaction: all are there once it is committed, in order."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from packhorse import App, Position, current, exponential
from packhorse.engine.emitted import UNWRITTEN_MAX_BYTES, UNWRITTEN_MAX_EFFECTS
from packhorse.testing.faults import DropReply, Fault, Faulty
from tests.conftest import kinds
from tests.features.drivers import Factories
from tests.features.factories import Place, Workers, run
from tests.features.test_transactions import Mine

STORES = [kind for kind in kinds() if kind in Factories.KINDS]
ADAPTERS = [(kind, name) for kind in STORES for name in Factories.KINDS[kind]]
AT_ONCE = exponential(0)
ON_LOOP_AND_IN_THREADS = pytest.mark.parametrize("way", ["async", "thread"])


async def read(app: App, job: str, after: Position | None = None) -> list[object]:
    """All pieces from a position on, until the job has ended."""
    async with asyncio.timeout(20):
        return [chunk.data async for chunk in app.job(job).stream(after)]


class TestFromTheStore:
    """``transaction=True``."""

    @pytest.fixture(params=STORES)
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @ON_LOOP_AND_IN_THREADS
    async def test_pieces_from_before_and_within_a_transaction_are_read_in_order(self, live: App, way: str):
        async def on_loop() -> None:
            current().emit("before")
            await current().tx.execute("select 1")
            current().emit("one")
            await current().tx.execute("select 2")
            current().emit("two")

        def in_thread() -> None:
            current().emit("before")
            current().tx.execute("select 1")
            current().emit("one")
            current().tx.execute("select 2")
            current().emit("two")

        task = live.task(name="write", transaction=True, attempts=1)(on_loop if way == "async" else in_thread)
        job = await task.enqueue()
        await run(live)

        assert await read(live, job.id) == ["before", "one", "two"]
        assert await job.state() == "done"

    async def test_thousands_of_pieces_of_a_transaction_are_all_there(self, live: App):
        @live.task(transaction=True, attempts=1)
        async def write() -> None:
            for number in range(3000):
                if number == 1000:
                    await current().tx.execute("select 1")
                if number == 2000:
                    await current().tx.execute("select 2")
                current().emit(number)

        job = await write.enqueue()
        await run(live)

        assert await read(live, job.id) == list(range(3000))

    async def test_a_transaction_keeps_the_newest_pieces_to_the_same_bound(
        self, live: App, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("packhorse.engine.context.CHUNKS_KEPT", 10)

        @live.task(transaction=True, attempts=1)
        async def write() -> None:
            await current().tx.execute("select 1")
            for number in range(25):
                current().emit(number)

        job = await write.enqueue()
        await run(live)

        assert await read(live, job.id) == list(range(15, 25))

    @pytest.mark.parametrize(
        ("count", "piece"),
        [(UNWRITTEN_MAX_EFFECTS, "x"), (20, "x" * (UNWRITTEN_MAX_BYTES // 20))],
        ids=["pieces", "bytes"],
    )
    async def test_more_pieces_than_a_transaction_holds_are_refused(self, live: App, count: int, piece: str):
        @live.task(transaction=True, attempts=1)
        async def write() -> None:
            await current().tx.execute("select 1")
            for _ in range(count):
                current().emit(piece)

        job = await write.enqueue()
        await run(live)

        [failure] = (await job.info()).failures
        assert await job.state() == "dead"
        assert failure.type.endswith("TooMuchEmitted")
        assert "transaction" in failure.message
        assert len(await read(live, job.id)) == count - 1, (
            "what was taken before is there, as for any attempt that fails"
        )

    @ON_LOOP_AND_IN_THREADS
    async def test_pieces_of_a_transaction_that_fails_are_read_and_the_next_try_begins_anew(self, live: App, way: str):
        def tell() -> None:
            for number in range(2):
                current().emit([current().attempt, number])
            if current().attempt == 1:
                failed.set()
                raise ValueError("no")

        async def on_loop() -> None:
            await current().tx.execute("select 1")
            if current().attempt == 2:
                await go.wait()
            tell()

        def in_thread() -> None:
            current().tx.execute("select 1")
            if current().attempt == 2:
                asyncio.run_coroutine_threadsafe(go.wait(), loop).result(20)
            tell()

        go, failed, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
        task = live.task(name="write", transaction=True, backoff=AT_ONCE)(on_loop if way == "async" else in_thread)
        job = await task.enqueue()
        seen = []
        async with live.worker(), asyncio.timeout(20):
            async for chunk in job.stream():
                seen.append((chunk.attempt, chunk.data))
                if len(seen) == 2:
                    go.set()

        assert seen == [(1, [1, 0]), (1, [1, 1]), (2, [2, 0]), (2, [2, 1])]

    async def test_pieces_of_a_commit_without_an_answer_are_there_if_it_was_committed(self, live: App, make: Any):
        def faults(name: str, args: tuple[Any, ...]) -> Fault | None:
            return DropReply() if name == "transaction.settle" else None

        @live.task(transaction=True, attempts=1)
        async def write() -> None:
            await current().tx.execute("select 1")
            current().emit("one")

        job = await write.enqueue()
        home = await live.client.loop_store()
        home.store = Faulty(home.store, faults)
        await run(live)

        assert await job.state() == "done"
        assert await read(make(), job.id) == ["one"]


@pytest.mark.parametrize("kind", STORES)
async def test_a_worker_that_is_killed_in_a_transaction_leaves_the_pieces_to_the_next_try(
    live: App, place: Place, workers: Workers
):
    worker = await workers.start(queues="drips", lease=1)
    job = await live.queue("drips").enqueue("drips_in_a_transaction")
    await place.until("dripped")
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    await workers.start(queues="drips", lease=1)
    await job.result(20)

    late = [(chunk.attempt, chunk.data) async for chunk in job.stream()]
    assert late == [(2, 0), (2, 1), (2, 2)]


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind == "postgres"])
async def test_a_reader_follows_a_transaction_that_is_open_on_postgres(live: App):
    @live.task(transaction=True, attempts=1)
    async def write() -> None:
        await current().tx.execute("select 1")
        current().emit("one")
        await go.wait()
        current().emit("two")

    go = asyncio.Event()
    job = await write.enqueue()
    seen = []
    async with live.worker(), asyncio.timeout(20):
        async for chunk in job.stream():
            seen.append((chunk.data, await job.state()))
            go.set()

    assert [data for data, _ in seen] == ["one", "two"]
    assert seen[0][1] == "running"


class TestFromAFactory:
    """``transaction=factory``: the user's own sessions."""

    @pytest.fixture(params=ADAPTERS, ids="-".join)
    def adapter(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        kind, name = request.param
        return kind, name

    @pytest.fixture
    def kind(self, adapter: tuple[str, str]) -> str:
        return adapter[0]

    @pytest.fixture
    async def factories(self, kind: str, url: str) -> AsyncIterator[Factories]:
        made = Factories(kind, url)
        yield made
        await made.close()

    @pytest.fixture
    async def mine(self, kind: str, url: str, live: App) -> Mine:
        await live.open()
        return Mine(kind, url)

    @pytest.mark.parametrize("fails", [False, True], ids=["done", "dead"])
    async def test_pieces_and_the_last_progress_of_a_session_are_there_when_its_job_has_ended(
        self, live: App, mine: Mine, adapter: tuple[str, str], factories: Factories, fails: bool
    ):
        factory, handler = await factories.of(adapter[1])

        def tell() -> None:
            for number in range(150):
                current().emit(number)
            for percent in (10, 90):
                current().progress(percent)
            if fails:
                raise ValueError("no")

        async def on_loop() -> None:
            await handler(1)
            tell()

        def in_thread() -> None:
            handler(1)
            tell()

        both = on_loop if asyncio.iscoroutinefunction(handler) else in_thread
        job = await live.task(name="write", transaction=factory, attempts=1)(both).enqueue()
        await run(live)

        info = await job.info()
        assert info.state == ("dead" if fails else "done")
        assert await read(live, job.id) == list(range(150))
        assert info.progress is not None
        assert info.progress.percent == 90
