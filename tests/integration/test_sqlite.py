"""What only the embedded store has to show: faults, durability, processes."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from packhorse.errors import ConfigError, StoreClosed, StoreError, StoreFull
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.job import UniqueKey
from packhorse.model.lease import ClaimRequest, Settlement, Verdict
from packhorse.model.outcome import Again, Done, Held, Wait
from packhorse.model.reason import WaitReason
from packhorse.stores import open_store
from packhorse.stores.sqlite.store import SQLiteStore, path_of
from packhorse.stores.sqlite.unit_of_work import SQL
from packhorse.testing import TurnedClock
from tests.factories import DEAD, HOUR, MINUTE, WORKER, ask, new, put_in, take


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = open_store(f"sqlite:///{tmp_path}/store.db", clock=TurnedClock())
    await store.migrate()
    await store.open()
    assert isinstance(store, SQLiteStore)
    yield store
    await store.close()


def connection(store: SQLiteStore) -> sqlite3.Connection:
    found = store._handle.database._writing
    assert found is not None
    return found


def dump(store: SQLiteStore) -> list[str]:
    lines = connection(store).iterdump()
    return [line for line in lines if not line.startswith("CREATE TRIGGER")]


async def everything(store: SQLiteStore) -> tuple[list[Settlement], ClaimRequest]:
    """An exchange that touches all there is: ends, lanes, families, uniques, records, streams, retries, waits."""
    parent, child, laned, behind, *others = (
        new(children=1),
        new(priority=1),
        new(lane="a", priority=2),
        new(lane="a", priority=2),
        new(priority=3),
        new(priority=4),
        new(priority=5),
    )
    child = new(priority=1, parent=parent.id)
    await store.jobs.enqueue([parent, child, laned, behind, *others, new(delay=MINUTE)])
    ended, lane_head, again, waiting, held = await take(store, 5)
    await store.records.put([Put("kind", "there", b"0")])
    settlements = [
        Settlement(ended, Done(b"1"), (Enqueue(new(lane="b")), Publish("s", b"1"), Put("kind", "key", b"1"))),
        Settlement(lane_head, Done(b"2")),
        Settlement(again, Again(MINUTE)),
        Settlement(waiting, Wait(WaitReason.CIRCUIT)),
        Settlement(held, Held(1), (Put("kind", "there", None),)),
    ]
    return settlements, ask(5)


async def test_a_fault_at_any_write_leaves_everything_or_nothing(tmp_path: Path):
    fired = set()
    tables = []
    for number in range(200):
        clock = TurnedClock()
        store = open_store(f"sqlite:///{tmp_path}/{number}.db", clock=clock)
        assert isinstance(store, SQLiteStore)
        await store.migrate()
        await store.open()
        settlements, request = await everything(store)
        tables = [row[0] for row in connection(store).execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        faults = [(table, verb) for table in sorted(tables) for verb in ("INSERT", "UPDATE", "DELETE")]
        if number == len(faults):
            await store.close()
            break
        table, verb = faults[number]
        connection(store).execute(
            f"CREATE TRIGGER fault BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'fault'); END"
        )
        before = dump(store)
        try:
            await store.jobs.exchange(settlements, request)
        except StoreError:
            fired.add((table, verb))
            assert dump(store) == before, (table, verb)
        await store.close()

    touched = {table.removeprefix("packhorse_") for table, _ in fired}
    assert touched >= {
        "jobs", "ready", "scheduled", "running", "waiting", "ended", "retention_groups", "tries", "lanes", "families",
        "records", "stream_heads", "events", "counts", "lifecycle", "claim_requests", "moment",
    }  # fmt: skip


async def test_plain_ends_among_which_some_are_not_so_plain_after_all_are_distinguished(file: SQLiteStore):
    held = UniqueKey("key")
    await put_in(file, *(new() for _ in range(3)), new(unique=held), new())
    first, second, third, unique, again = await take(file, 5)
    await file.jobs.exchange([Settlement(again, Again())])
    [newer] = await take(file)
    leases = [first, first, again, newer, unique, msgspec.structs.replace(second, token=bytes(16)), second]

    ended = await file.jobs.exchange([Settlement(lease, Done(b"1")) for lease in leases])

    assert [str(verdict) for verdict in ended.verdicts] == [
        "written", "repeated", "repeated", "written", "written", "lost", "written",
    ]  # fmt: skip
    counts = await file.jobs.count()
    assert {state: count for state, count in counts["default"].items() if count} == {"running": 1, "done": 4}
    assert [receipt.created for receipt in await file.jobs.enqueue([new(unique=held)])] == [True]
    assert (await file.jobs.exchange([Settlement(third, Done())])).verdicts == (Verdict.WRITTEN,)


async def test_a_lease_that_was_settled_otherwise_in_the_same_call_is_not_ended_again(file: SQLiteStore):
    await put_in(file, new(), new())
    first, second = await take(file)
    settlements = [Settlement(first, DEAD), Settlement(first, Done()), Settlement(second, Done())]

    ended = await file.jobs.exchange(settlements)

    assert ended.verdicts == (Verdict.WRITTEN, Verdict.REPEATED, Verdict.WRITTEN)


async def test_a_failing_verb_does_not_harm_those_it_is_merged_with(file: SQLiteStore):
    def bad(step):
        step.run(SQL.pause, "half written", 1)
        raise RuntimeError("mine alone")

    jobs = [new() for _ in range(20)]
    calls = [file.jobs.enqueue([job]) for job in jobs]
    answers = await asyncio.gather(*calls[:10], file._handle.database.write(bad), *calls[10:], return_exceptions=True)

    assert [type(answer) for answer in answers].count(RuntimeError) == 1
    assert len([job for job in await file.jobs.get([job.id for job in jobs]) if job]) == 20
    assert "half written" not in [queue.name for queue in await file.queues.stats()]


async def test_concurrent_calls_share_a_transaction(file: SQLiteStore):
    commits: list[str] = []
    connection(file).set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)

    await asyncio.gather(*(file.jobs.enqueue([new()]) for _ in range(200)))

    assert len(commits) < 20


async def test_the_file_is_synced_before_a_call_is_answered(file: SQLiteStore):
    assert connection(file).execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection(file).execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_full_disk_refuses_new_jobs_and_loses_none(file: SQLiteStore):
    await put_in(file, new(payload=b'"' + b"x" * 1000 + b'"'))
    pages = connection(file).execute("PRAGMA page_count").fetchone()[0]
    connection(file).execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreFull):
        await put_in(file, new(payload=b'"' + b"x" * 100_000 + b'"'))

    connection(file).execute("PRAGMA max_page_count = 1000000")
    [lease] = await take(file)

    assert (await file.jobs.exchange([Settlement(lease, Done())])).verdicts == (Verdict.WRITTEN,)
    assert len(await put_in(file, new(payload=b'"' + b"x" * 100_000 + b'"'))) == 1


async def test_time_does_not_go_back_with_the_machines_clock(tmp_path: Path):
    first = open_store(f"sqlite:///{tmp_path}/store.db", clock=TurnedClock())
    await first.migrate()
    await first.open()
    await put_in(first, new())
    late = await first.ping()
    await first.close()

    second = open_store(f"sqlite:///{tmp_path}/store.db", clock=TurnedClock(late - HOUR))
    await second.open()
    try:
        assert await second.ping() == late
    finally:
        await second.close()


async def test_a_forked_child_is_asked_to_open_a_store_of_its_own(file: SQLiteStore):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        call = file.jobs.count()
        try:
            call.send(None)
        except StoreClosed as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)

    assert b"fork" in os.read(read, 1000)
    os.close(read)
    assert await file.jobs.count() == {}


async def test_renewals_go_before_what_waits_already(file: SQLiteStore):
    order: list[str] = []
    await put_in(file, new())
    [lease] = await take(file)
    block = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(step):
        asyncio.run_coroutine_threadsafe(block.wait(), loop).result()

    first = asyncio.ensure_future(file._handle.database.write(slow))
    await asyncio.sleep(0)
    later = [asyncio.ensure_future(file.jobs.enqueue([new()])) for _ in range(3)]
    await asyncio.sleep(0)
    urgent = asyncio.ensure_future(file.jobs.renew([lease], MINUTE))
    for call in later:
        call.add_done_callback(lambda _: order.append("enqueue"))
    urgent.add_done_callback(lambda _: order.append("renew"))
    block.set()
    await asyncio.gather(first, urgent, *later)

    assert order[0] == "renew"


@pytest.mark.parametrize("url", ["sqlite://file.db", "sqlite:///", "sqlite:"])
def test_an_address_that_names_no_file_says_how_to_write_one(url: str):
    with pytest.raises(ConfigError, match=r"sqlite:///relative\.db"):
        path_of(url)


def test_a_lease_by_a_worker_of_another_length_is_refused():
    from packhorse.errors import InvalidId

    with pytest.raises(InvalidId):
        ask(1, worker=WORKER[:15])
