"""Reading an answer while it is still being written; httpx's transport for ASGI apps waits for all of it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message


class Answer:
    """A body that comes in parts."""

    def __init__(self) -> None:
        self.status = 0
        self._parts: asyncio.Queue[Message] = asyncio.Queue()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            await self._parts.put(message)

    async def events(self) -> AsyncIterator[str]:
        """Server-sent events as they come; none may take longer than half a minute."""
        while True:
            part = await asyncio.wait_for(self._parts.get(), 30)
            for text in part.get("body", b"").decode().split("\n\n"):
                if text:
                    yield text
            if not part.get("more_body", False):
                return


@asynccontextmanager
async def get(web: ASGIApp, path: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[Answer]:
    """Begin a GET, and leave it when the block ends."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    left = asyncio.Event()
    requests = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if requests:
            return requests.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    answer = Answer()
    serving = asyncio.create_task(web(scope, receive, answer.send))  # type: ignore[arg-type]
    try:
        yield answer
    finally:
        left.set()
        await asyncio.wait_for(serving, 30)
