"""An app of each kind of store on a turned clock, and places of their own."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import psycopg
import pytest

from packhorse import App
from packhorse.testing import TurnedClock
from tests.conftest import namespace, room


@pytest.fixture
async def app(kind: str, url: str, clock: TurnedClock) -> AsyncIterator[App]:
    """An app whose time the test turns."""
    async with App(url, namespace=namespace(kind), clock=clock) as made:
        yield made


@pytest.fixture
async def place(kind: str, url: str) -> AsyncIterator[str]:
    """A place of its own for what goes by names that everybody uses: tables of an example, the namespace of who says nothing."""
    if kind != "postgres":
        yield url
        return
    name = f"example_{room()}"
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f"drop database if exists {name} with (force)")
        await connection.execute(f"create database {name}")
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
        await connection.execute(f"drop database {name} with (force)")
