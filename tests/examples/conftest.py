"""An app of each kind of store on a turned clock."""

from collections.abc import AsyncIterator

import pytest

from packhorse import App
from packhorse.testing.clock import TurnedClock
from tests.conftest import namespace


@pytest.fixture
async def app(kind: str, url: str, clock: TurnedClock) -> AsyncIterator[App]:
    """An app whose time the test turns."""
    async with App(url, namespace=namespace(kind), clock=clock) as made:
        yield made
