"""Apps on each of the three stores: one whose time the test turns, one on the clock of the machine."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from packhorse import App
from packhorse.testing import TurnedClock
from tests.conftest import kinds, namespace
from tests.features.factories import Place, Workers
from tests.features.receivers import HttpReceiver, http_receiver
from tests.features.tracing import Recorded

STORES = ("sqlite", "redis", "postgres")
Make = Callable[..., App]


@pytest.fixture(params=[kind for kind in kinds() if kind in STORES])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def make(kind: str, url: str) -> AsyncIterator[Make]:
    """Makes apps at one place, each with connections of its own, as in as many programs."""
    made: list[App] = []

    def one(**options: Any) -> App:
        app = App(url, namespace=namespace(kind), **options)
        made.append(app)
        return app

    yield one
    for app in made:
        await app.close()


@pytest.fixture
async def app(make: Make, clock: TurnedClock) -> App:
    """An app at an empty place, whose time the test turns."""
    return make(clock=clock)


@pytest.fixture
async def live(make: Make) -> App:
    """An app at an empty place, on the clock of the machine."""
    return make()


@pytest.fixture
async def memory(clock: TurnedClock) -> AsyncIterator[App]:
    """An app in memory, whose time the test turns: for what does not depend on the store."""
    app = App("sqlite:///:memory:", clock=clock)
    yield app
    await app.close()


@pytest.fixture
def place(kind: str, url: str, tmp_path: Path) -> Place:
    """Where the processes of a test meet: a store and a ledger."""
    return Place(url, namespace(kind), tmp_path / "ledger")


@pytest.fixture
async def workers(place: Place) -> AsyncIterator[Workers]:
    """Starts worker processes at the place; none of them outlives the test."""
    started = Workers(place)
    yield started
    await started.end()


@pytest.fixture
async def receiver() -> AsyncIterator[HttpReceiver]:
    """A receiver of HTTP on this machine."""
    async with http_receiver() as made:
        yield made


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    made = Recorded()
    yield made
    made.provider.shutdown()
    made.meters.shutdown()


@pytest.fixture
async def traced(recorded: Recorded, clock: TurnedClock) -> AsyncIterator[Make]:
    """Makes apps in memory with the integration."""
    made: list[App] = []

    def one(**options: Any) -> App:
        app = App("sqlite:///:memory:", clock=clock, integrations=[recorded.integration(**options)])
        made.append(app)
        return app

    yield one
    for app in made:
        await app.close()
