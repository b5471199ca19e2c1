"""A store whose invariants are checked after each test, a second one on the same place, and places without a layout."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from packhorse.model.ids import new_token
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.testing import TurnedClock
from tests.conformance.invariants import check
from tests.conftest import all_kinds, namespace


@pytest.fixture(params=all_kinds())
def kind(request: pytest.FixtureRequest) -> str:
    """Every store, for this is what they are held to: Valkey too."""
    return str(request.param)


@pytest.fixture
async def store(store: Store) -> AsyncIterator[Store]:
    """An open, empty store that is checked when the test is over."""
    yield store
    await check(store)


@pytest.fixture
async def another(kind: str, url: str, clock: TurnedClock) -> AsyncIterator[Callable[..., Awaitable[Store]]]:
    """Opens one more store of this kind, where all of them share a place if the kind has one."""
    opened: list[Store] = []

    async def opener(**options: Any) -> Store:
        made = open_store(url, namespace=namespace(kind), **{"clock": clock, **options})
        await made.migrate()
        await made.open()
        opened.append(made)
        return made

    yield opener
    for made in opened:
        await made.close()


@pytest.fixture
async def second(store: Store, url: str, another: Callable[..., Awaitable[Store]]) -> Store:
    """A second store open on the same place; what lives in memory has only the one."""
    return store if url.endswith(":memory:") else await another()


@pytest.fixture
async def place(url: str, tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """An address and a namespace where no layout was made yet; what lives in memory gets a file to outlive it."""
    fresh = f"fresh_{new_token().hex()}"
    yield f"sqlite:///{tmp_path / 'fresh.db'}" if url.startswith("sqlite:") else url, fresh
    if url.startswith("postgres"):
        import asyncpg

        connection = await asyncpg.connect(url)
        await connection.execute(f"DROP SCHEMA IF EXISTS {fresh} CASCADE")
        await connection.close()


@pytest.fixture
async def made(place: tuple[str, str]) -> AsyncIterator[Callable[..., Store]]:
    """Makes stores of the fresh place, none of them open yet."""
    stores: list[Store] = []

    def make(**options: Any) -> Store:
        stores.append(open_store(place[0], namespace=place[1], **options))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()
