"""Stands in for a language model: says the words of a prompt back, one after the other."""

import asyncio
from collections.abc import AsyncIterator, Callable

Model = Callable[[str], AsyncIterator[str]]
PACE = 0.05


async def echo(text: str) -> AsyncIterator[str]:
    """The tokens of an answer, as they come."""
    for word in text.split():
        await asyncio.sleep(PACE)
        yield f"{word} "
