"""Hot verbs are one round trip to a server, and one transaction in a file."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from packhorse.jobs.result_waiter import ResultWaiter
from packhorse.model.clock import SYSTEM
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Again, Done, Held
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from tests.conftest import namespace
from tests.factories import SECOND, ask, new, put_in, take
from tests.proxy import Proxy

Counter = Callable[[], int]


@contextlib.asynccontextmanager
async def counted(kind: str, url: str) -> AsyncIterator[tuple[Store, Counter]]:
    """A store, and how many round trips (or transactions) it has made."""
    if kind in ("sqlite", "memory"):
        store = open_store(url)
        await store.migrate()
        await store.open()
        commits: list[str] = []
        store._handle.database._writing.set_trace_callback(
            lambda text: commits.append(text) if text == "COMMIT" else None
        )
        yield store, lambda: len(commits)
        await store.close()
        return
    async with Proxy(url).running() as proxy:
        store = open_store(proxy.url, namespace=namespace(kind))
        await store.migrate()
        await store.open()
        yield store, lambda: proxy.round_trips
        await store.close()


async def round_trips(count: Counter, call: Awaitable[object]) -> int:
    before = count()
    await call
    return count() - before


@pytest.mark.parametrize("size", [1, 50])
async def test_a_hot_verb_is_one_round_trip(kind: str, url: str, size: int):
    async with counted(kind, url) as (store, count):
        for measured in (False, True):  # once to prepare statements and load scripts
            jobs = [new(lane=f"k{n % 3}" if n % 2 else None) for n in range(size)]
            made = {"enqueue": await round_trips(count, store.jobs.enqueue(jobs))}
            leases = await take(store, 20)
            settlements = [
                Settlement(leases[0], Held(1), (Enqueue(new()), Publish("s", b"1"), Put("k", "a", b"1"))),
                *(Settlement(lease, Again(0) if n % 2 else Done(b"1")) for n, lease in enumerate(leases[1:])),
            ]
            made["exchange"] = await round_trips(count, store.jobs.exchange(settlements, ask(20)))
            made["renew"] = await round_trips(count, store.jobs.renew(leases, 30 * SECOND))
            made["reap"] = await round_trips(count, store.jobs.reap(100))
            if measured:
                assert made == dict.fromkeys(made, 1)


async def test_an_ask_that_finds_nothing_takes_one_round_trip_at_most(kind: str, url: str):
    async with counted(kind, url) as (store, count):
        await put_in(store, new())
        await take(store)
        await take(store)

        assert await round_trips(count, store.jobs.exchange((), ask(5))) <= 1


async def test_waiting_for_a_job_that_has_ended_is_one_read_and_no_write(kind: str, url: str):
    async with counted(kind, url) as (store, count):
        jobs = await put_in(store, *(new() for _ in range(4)))
        await store.jobs.cancel(jobs)
        ends = ResultWaiter(store, SYSTEM)
        await ends.of(jobs[0])  # once to load scripts

        async def one_by_one() -> None:
            for job in jobs[1:]:
                assert await ends.of(job) is not None

        assert await round_trips(count, one_by_one()) == (
            0 if kind == "sqlite" else 3
        )  # a read in memory is a transaction too
