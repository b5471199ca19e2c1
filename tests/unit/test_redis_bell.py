"""One line to the server for all who listen: it is made anew after it failed, whoever comes first."""

import asyncio

import pytest

from packhorse.stores.redis.wakes import Bell


async def test_who_listens_anew_is_heard_while_another_has_not_noticed_that_the_line_failed():
    fail = asyncio.Event()

    async def source():
        yield None
        if fail.is_set():
            await asyncio.Event().wait()
        await fail.wait()
        raise ValueError("a message that nobody can read")

    bell = Bell(source)
    slow, quick = bell.heard(), bell.heard()
    await asyncio.gather(anext(slow), anext(quick))
    fail.set()
    with pytest.raises(ValueError, match="nobody can read"):
        await anext(quick)

    async with asyncio.timeout(5):
        await anext(bell.heard())

    await slow.aclose()
    await bell.stop()
