"""A log of writes that was cut anywhere, as a power cut leaves it: the store is what it was at some moment before."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from packhorse.model.lease import Lease
from packhorse.testing import TurnedClock
from tests import servers
from tests.integration.keyspaces import KINDS, NONE, opened
from tests.integration.torn import LONG, audit, work

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

CUTS = 2500 if LONG else 30  # for each server
LOGGED = ("--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "yes")


@pytest.fixture(params=KINDS)
def logged(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.running(str(request.param), *LOGGED) as server:
        yield server


def log_of(server: servers.Server) -> Path:
    """The file at whose end the server writes."""
    assert server.folder is not None
    [path] = [path for name in ("appendonly.aof", "appendonlydir/*.incr.aof") for path in server.folder.glob(name)]
    return path


async def audited(url: str, held: list[Lease], clock: TurnedClock) -> None:
    async with opened(url, clock=clock) as store:
        assert await store.maintain() == []  # all numbers fit, nothing is to be put right
        await audit(store, held, clock)
        store._repair._next_sample = 0
        assert await store.maintain() == []


def test_a_log_cut_at_any_byte_gives_the_store_as_it_was_at_some_moment(logged):
    chance = random.Random(7)
    clock = TurnedClock()

    async def fill() -> list[Lease]:
        async with opened(logged.url, clock=clock) as store:
            laid.append(log_of(logged).stat().st_size)
            return await work(store, clock, chance)

    laid: list[int] = []
    held = asyncio.run(fill())
    logged.kill()
    log = log_of(logged)
    whole = log.read_bytes()
    for cut in sorted(chance.randrange(laid[0], len(whole)) for _ in range(CUTS)):
        log.write_bytes(whole[:cut])
        logged.restart()
        asyncio.run(audited(logged.url, held, TurnedClock(clock.now())))
        logged.kill()
