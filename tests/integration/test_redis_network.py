"""A bad wire between the store and Redis: nothing is lost or done twice, and work goes on once it is healed."""

import asyncio
import time
from collections.abc import Iterator
from itertools import repeat
from urllib.parse import urlsplit

import pytest

from packhorse.errors import StoreUnavailable
from packhorse.stores.redis import topology
from packhorse.stores.redis.store import RedisStore
from tests import servers
from tests.integration.keyspaces import KINDS, NONE
from tests.integration.refusing import Refusing
from tests.integration.wires import BAD, ROUNDS, show, suffer

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

SOON = 0.2  # seconds


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """A server of our own."""
    with servers.running(str(request.param)) as made:
        yield made


async def test_work_goes_on_soon_after_a_bad_wire_is_healed(server):
    urls = [urlsplit(server.url)._replace(path=f"/{number}").geturl() for number, _ in enumerate(BAD)]

    show(await asyncio.gather(*map(suffer, urls, BAD, repeat(ROUNDS))))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody have long to answer."""
    monkeypatch.setattr(topology, "CONNECT_TIMEOUT_SECONDS", SOON)
    monkeypatch.setattr(topology, "NODE_TIMEOUT_SECONDS", SOON)


@pytest.mark.parametrize(
    "form", ["redis://{}/0", "redis://ox:hay@{}/3", "redis+sentinel://{}/barn", "redis+cluster://{}"]
)
async def test_who_accepts_a_connection_and_says_nothing_is_given_up(form, hasty):
    async with Refusing(login=None).running() as mute:
        store = RedisStore(form.format(f"127.0.0.1:{mute.port}"))
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(store.open(), 30)
        assert time.monotonic() - began >= SOON


async def test_who_does_not_say_whether_it_is_the_primary_is_given_up(hasty):
    async with Refusing(*[None] * 50).running() as primary:
        place = f"*2\r\n$9\r\n127.0.0.1\r\n${len(str(primary.port))}\r\n{primary.port}".encode()
        async with Refusing(*[place] * 50).running() as sentinel:
            store = RedisStore(f"redis+sentinel://127.0.0.1:{sentinel.port}/barn")
            with pytest.raises(StoreUnavailable, match="not reached"):
                await asyncio.wait_for(store.open(), 30)
        assert primary.received > 1


async def test_callers_behind_a_silent_server_all_come_to_an_end(hasty):
    mute = Refusing(login=None)
    async with mute.store() as store:
        calls = [asyncio.create_task(store.jobs.count()) for _ in range(20)]
        ends = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
        assert {type(end) for end in ends} == {StoreUnavailable}
