"""A store whose invariants are checked after each test, and a second one on the same place."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.testing.clock import TurnedClock
from tests.conformance.invariants import check
from tests.conftest import namespace


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
