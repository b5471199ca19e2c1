"""The listening connection goes on, whatever comes on it."""

import asyncio

import asyncpg
import pytest

from packhorse.stores.contract import Topic
from packhorse.stores.postgres import database
from tests.conftest import kinds
from tests.factories import new, put_in, take

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

SOON = 20


@pytest.fixture(params=["postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_hint_of_a_newer_release_is_passed_over(store, url):
    failed: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    assert await take(store) == []  # who came away with nothing is asleep
    hints = store.wakes(Topic.WORK)
    await asyncio.wait_for(anext(hints), SOON)  # the line was just made
    connection = await asyncpg.connect(url)
    await connection.execute("SELECT pg_notify($1, 'of a newer release')", store._wakes._channel)
    await connection.close()

    await put_in(store, new())

    await asyncio.wait_for(anext(hints), SOON)
    await hints.aclose()
    assert failed == []


async def test_a_listener_lives_on_after_an_error_of_any_kind(store, monkeypatch):
    real, broken = database.PostgresDatabase.alone, []

    def once(self, **options):
        if not broken:
            broken.append(1)
            raise ValueError("nobody thought of this")
        return real(self, **options)

    monkeypatch.setattr(database.PostgresDatabase, "alone", once)
    hints = store.wakes(Topic.WORK)

    await asyncio.wait_for(anext(hints), SOON)

    await hints.aclose()
    assert broken == [1]
