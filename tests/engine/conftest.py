"""Stores on the clock of the machine, for workers that live beside the test."""

from collections.abc import AsyncIterator

import pytest

from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from tests.conftest import namespace
from tests.engine.making import Heard


async def opened(url: str, name: str) -> Store:
    made = open_store(url, namespace=name)
    await made.migrate()
    await made.open()
    return made


@pytest.fixture
async def live(kind: str, url: str) -> AsyncIterator[Store]:
    """An open, empty store of each kind, on its own clock."""
    made = await opened(url, namespace(kind))
    yield made
    await made.close()


@pytest.fixture
async def other(live: Store, kind: str, url: str) -> AsyncIterator[Store]:
    """The same place, as another process would have it."""
    made = live.twin() if kind == "memory" else open_store(url, namespace=namespace(kind))
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def memory() -> AsyncIterator[Store]:
    """An open, empty store in memory, for what does not depend on the store."""
    made = await opened("sqlite:///:memory:", "packhorse")
    yield made
    await made.close()


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
async def heard(telemetry: Telemetry) -> Heard:
    return Heard(telemetry)
