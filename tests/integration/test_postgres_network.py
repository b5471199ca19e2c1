"""A bad wire between the store and PostgreSQL: nothing is lost or done twice, and work goes on once it is healed."""

import asyncio
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests import servers
from tests.conftest import kinds
from tests.integration.flowing import Account, Flow
from tests.integration.torn import LONG
from tests.integration.wires import BadWire, Wire

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

ROUNDS = 10 if LONG else 1
BAD = 6 if LONG else 1.5  # seconds
BOUND = 20  # seconds; five are the aim


@pytest.fixture
def server() -> Iterator[servers.Server]:
    """A server of our own that keeps what it has acknowledged."""
    with servers.running("postgres", "synchronous_commit=on") as made:
        yield made


async def suffer(url: str, state: Wire) -> tuple[Account, float]:
    """Let jobs flow while the wire goes bad and is healed, and answer how long after that work went on at the latest."""
    back = []
    async with BadWire(url).running() as wire:

        async def go_bad(flow: Flow) -> None:
            for _ in range(ROUNDS):
                await wire.becomes(state)
                await asyncio.sleep(BAD)
                await wire.becomes(Wire.WELL)
                healed, ran = time.monotonic(), flow.ran.total()
                async with asyncio.timeout(BOUND):
                    while flow.ran.total() <= ran:
                        await asyncio.sleep(0.01)
                back.append(time.monotonic() - healed)
                await flow.more(20)

        account = await Flow(wire.url).through(go_bad)
        assert wire.harmed or state is Wire.REFUSE
    return account, max(back)


async def test_work_goes_on_soon_after_a_bad_wire_is_healed(server):
    connection = await asyncpg.connect(server.url)
    bad = [state for state in Wire if state is not Wire.WELL]
    for state in bad:  # all at once, each in a database of its own: it takes long enough
        await connection.execute(f"CREATE DATABASE {state.name}")
    await connection.close()
    urls = [urlsplit(server.url)._replace(path=f"/{state.name.lower()}").geturl() for state in bad]

    suffered = await asyncio.gather(*map(suffer, urls, bad))

    for state, (account, back) in zip(bad, suffered, strict=True):
        print(f"{state.name}: working again {back:.2f} s after it was healed, at the latest of {ROUNDS}")  # noqa: T201
        assert account.lost == 0
