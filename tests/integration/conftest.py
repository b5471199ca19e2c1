"""What tests of one kind of store share."""

from collections.abc import AsyncIterator
from typing import Any

import pytest


@pytest.fixture
async def raw(url: str) -> AsyncIterator[Any]:
    """A connection of the test's own to PostgreSQL."""
    import asyncpg

    connection = await asyncpg.connect(url)
    await connection.set_type_codec("uuid", schema="pg_catalog", format="binary", encoder=bytes, decoder=bytes)
    yield connection
    await connection.close()
