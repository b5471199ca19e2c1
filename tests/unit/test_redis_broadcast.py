"""One connection for all listeners: the next listener opens it again after it failed."""

import asyncio

import pytest

from packhorse.stores.redis.wakes import Broadcast


async def test_a_new_listener_gets_hints_while_another_has_not_noticed_that_the_connection_failed():
    fail = asyncio.Event()

    async def source():
        yield None
        if fail.is_set():
            await asyncio.Event().wait()
        await fail.wait()
        raise ValueError("a message that nobody can read")

    broadcast = Broadcast(source)
    slow, quick = broadcast.listen(), broadcast.listen()
    await asyncio.gather(anext(slow), anext(quick))
    fail.set()
    with pytest.raises(ValueError, match="nobody can read"):
        await anext(quick)

    async with asyncio.timeout(5):
        await anext(broadcast.listen())

    await slow.aclose()
    await broadcast.stop()
