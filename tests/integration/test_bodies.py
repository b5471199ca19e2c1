"""Bodies that are not wanted: they are not sent by servers, and not read from the pages of a file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from packhorse.model.job import Failure, failure
from packhorse.model.lease import Settlement
from packhorse.model.page import Filter
from packhorse.model.reason import DeadReason
from packhorse.stores import open_store
from tests.conftest import kinds, namespace
from tests.factories import Dead, Done, new, put_in, take
from tests.proxy import Proxy

LARGE = b'"%s"' % (b"x" * 100_000)


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind not in ("sqlite", "memory")])
async def test_bodies_that_are_not_wanted_are_not_sent(kind: str, url: str):
    async with Proxy(url).running() as proxy:
        store = open_store(proxy.url, namespace=namespace(kind))
        await store.migrate()
        await store.open()
        await put_in(store, *(new(payload=LARGE) for _ in range(10)))
        broken = failure("Broken", "it broke", "a line of a traceback\n" * 400)
        dead, done = Dead(DeadReason.FINAL, broken), Done(LARGE)
        leases = await take(store, 8)
        await store.jobs.exchange([Settlement(lease, dead) for lease in leases[:4]])
        await store.jobs.exchange([Settlement(lease, done) for lease in leases[4:]])
        await store.jobs.find(Filter(), bodies=False)  # scripts are loaded, statements prepared
        sent = {}
        for bodies in (False, True):
            before = proxy.bytes_back
            assert len((await store.jobs.find(Filter(), bodies=bodies)).items) == 10
            sent[bodies] = proxy.bytes_back - before
        await store.close()

    assert sent[True] > 14 * len(LARGE)
    assert sent[False] < 10_000


async def test_no_column_stands_behind_a_body_in_a_file(tmp_path: Path):
    """SQLite follows the chain of pages of a long column to come to those behind it."""
    store = open_store(f"sqlite:///{tmp_path / 'packhorse.db'}")
    await store.migrate()
    with closing(sqlite3.connect(tmp_path / "packhorse.db")) as file:
        last = {
            table: [name for _, name, *_ in file.execute(f"PRAGMA table_info(packhorse_{table})")][-1]
            for table in ("jobs", "ended", "tries")
        }

    assert last == {"jobs": "payload", "ended": "result", "tries": "error"}


def test_behind_the_traceback_a_stored_failure_has_nothing_that_is_needed():
    """Servers cut a failure before its traceback: what comes behind it is kept in columns."""
    names = [field.name for field in msgspec.structs.fields(Failure)]

    assert names[names.index("traceback") + 1 :] == ["attempt", "at"]
    assert b',"traceback":' in msgspec.json.encode(failure("Broken", "it broke"))
