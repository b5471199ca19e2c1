"""Waiting until a call of this test process waits for a lock: others do so too, on the same server."""

import asyncio
from typing import Any

from tests.conftest import namespace

SECONDS = 20
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1"


async def waiting_for_a_lock(connection: Any) -> None:
    """Return when a call in this schema waits for a lock."""
    async with asyncio.timeout(SECONDS):
        while not await connection.fetchval(WAITING, f"%{namespace('postgres')}%"):
            await asyncio.sleep(0.01)
