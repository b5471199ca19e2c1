"""Stores on the clock of the machine, for workers that live beside the test."""

from collections.abc import AsyncIterator

import pytest

from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from tests.conftest import kinds, namespace, open_up
from tests.engine.factories import EventRecorder

# A store in memory is the one on a file without the file; what does not depend on the store asks for `memory`.
STORES = [kind for kind in kinds() if kind != "memory"]


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def opened(kind: str, url: str, name: str) -> Store:
    made = open_store(url, namespace=name)
    await open_up(kind, made)
    return made


@pytest.fixture
async def live(kind: str, url: str) -> AsyncIterator[Store]:
    """An open, empty store of each kind, on its own clock."""
    made = await opened(kind, url, namespace(kind))
    yield made
    await made.close()


@pytest.fixture
async def other(live: Store, kind: str, url: str) -> AsyncIterator[Store]:
    """The same place, as another process would have it."""
    made = open_store(url, namespace=namespace(kind))
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def memory() -> AsyncIterator[Store]:
    """An open, empty store in memory, for what does not depend on the store."""
    made = await opened("memory", "sqlite:///:memory:", "packhorse")
    yield made
    await made.close()


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
async def recorder(telemetry: Telemetry) -> EventRecorder:
    return EventRecorder(telemetry)
