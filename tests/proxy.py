"""A small TCP proxy between a store and its server that counts round trips."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


class Proxy:
    """Passes bytes on; ``trips`` counts how often the client spoke after the server had."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._parts, self._host, self._port = parts, parts.hostname, parts.port
        self._open: set[asyncio.Task[None]] = set()
        self.trips = 0
        self.url = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Proxy"]:
        """Serve as long as the block runs."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        user = f"{self._parts.username}@" if self._parts.username else ""
        self.url = self._parts._replace(netloc=f"{user}127.0.0.1:{port}").geturl()
        try:
            yield self
        finally:
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        upstream, down = await asyncio.open_connection(self._host, self._port)
        answered = asyncio.Event()
        answered.set()

        async def up() -> None:
            while data := await reader.read(1 << 16):
                if answered.is_set():
                    self.trips += 1
                    answered.clear()
                down.write(data)
            down.close()

        async def back() -> None:
            while data := await upstream.read(1 << 16):
                answered.set()
                writer.write(data)
            writer.close()

        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            try:
                await asyncio.gather(up(), back())
            finally:
                down.close()
                writer.close()
