"""A bad wire between the store and PostgreSQL: nothing is lost or done twice, and work goes on once it is healed."""

import asyncio
from collections.abc import Iterator
from itertools import repeat
from urllib.parse import urlsplit

import asyncpg
import pytest

from packhorse.errors import OutcomeUnknown
from packhorse.stores.contract import Topic
from packhorse.stores.postgres import wakes
from packhorse.stores.postgres.store import PostgresStore
from tests import servers
from tests.conftest import kinds
from tests.integration.wires import BAD, BOUND, ROUNDS, BadWire, Wire, show, suffer

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)


@pytest.fixture
def server() -> Iterator[servers.Server]:
    """A server of our own that keeps what it has acknowledged."""
    with servers.running("postgres", "synchronous_commit=on") as made:
        yield made


async def test_work_goes_on_soon_after_a_bad_wire_is_healed(server):
    connection = await asyncpg.connect(server.url)
    for state in BAD:  # all at once, each in a database of its own: it takes long enough
        await connection.execute(f"CREATE DATABASE {state.name}")
    await connection.close()
    urls = [urlsplit(server.url)._replace(path=f"/{state.name.lower()}").geturl() for state in BAD]

    show(await asyncio.gather(*map(suffer, urls, BAD, repeat(ROUNDS))))


async def test_a_listener_on_a_mute_wire_asks_and_listens_anew(server, monkeypatch):
    monkeypatch.setattr(wakes, "LISTEN_PING_SECONDS", 0.1)
    monkeypatch.setattr(wakes, "WORKER_CALL_SECONDS", 0.5)
    async with BadWire(server.url).running() as wire:
        store = PostgresStore(wire.url)
        await store.migrate()
        await store.open()
        hints = store.wakes(Topic.WORK)
        await asyncio.wait_for(anext(hints), BOUND)  # the line was just made
        await wire.becomes(Wire.HOLE)
        again = asyncio.ensure_future(anext(hints))
        async with asyncio.timeout(BOUND):
            while not wire.harmed:
                await asyncio.sleep(0.01)
        await wire.becomes(Wire.WELL)

        await asyncio.wait_for(again, BOUND)

        await hints.aclose()
        await store.close()


async def test_even_what_may_take_long_is_given_up_on_a_line_that_swallows_words(server):
    async with BadWire(server.url).running() as wire:
        store = PostgresStore(wire.url)
        await store.migrate()

        async def ask() -> None:
            async with store._database.alone(limit=0.3) as connection:
                await wire.becomes(Wire.HOLE)
                await connection.execute("SELECT 1")

        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(ask(), BOUND)
