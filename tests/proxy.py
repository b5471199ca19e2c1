"""A small TCP proxy between a store and its server that counts round trips, and may be slow."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


class Rate:
    """So many bytes a second, for all connections together."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free = rate, 0.0

    async def take(self, count: int) -> None:
        """Wait until so many bytes may pass."""
        self._free = max(self._free, time.monotonic()) + count / self._rate
        await asyncio.sleep(self._free - time.monotonic())


class Proxy:
    """Passes bytes on; ``round_trips`` counts how often the client spoke after the server had.

    With a rate it passes so many bytes a second in each direction, and takes in little more than it has passed on.
    """

    def __init__(self, url: str, rate: float | None = None) -> None:
        self._up, self._back = (Rate(rate), Rate(rate)) if rate else (None, None)
        self._flows = asyncio.Event()
        self._flows.set()
        parts = urlsplit(url)
        self._parts, self._host, self._port = parts, parts.hostname, parts.port
        self._open: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._cut: set[asyncio.StreamWriter] = set()
        self.round_trips = self.bytes_back = 0
        self.url = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Proxy"]:
        """Serve as long as the block runs."""
        listening = socket.create_server(("127.0.0.1", 0))
        if self._up is not None:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        server = await asyncio.start_server(self._serve, sock=listening)
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

    def cut(self) -> None:
        """Reset every connection at the client's side only: the server does not learn of it."""
        self._cut |= self._clients
        for client in self._clients:
            client.transport.abort()
        self._clients.clear()

    def block(self) -> None:
        """Pass nothing on any more, and close nothing."""
        self._flows.clear()

    def unblock(self) -> None:
        """Pass on what was held up, and what comes."""
        self._flows.set()

    async def _pace(self, rate: Rate | None, data: bytes) -> None:
        if rate is not None:
            await rate.take(len(data))
            await self._flows.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        upstream, down = await asyncio.open_connection(self._host, self._port)
        self._clients.add(writer)
        answered = asyncio.Event()
        answered.set()

        async def up() -> None:
            while data := await reader.read(1 << 15):
                await self._pace(self._up, data)
                if answered.is_set():
                    self.round_trips += 1
                    answered.clear()
                down.write(data)
            if writer not in self._cut:
                down.close()

        async def back() -> None:
            while data := await upstream.read(1 << 15):
                self.bytes_back += len(data)
                await self._pace(self._back, data)
                answered.set()
                if writer not in self._cut:
                    writer.write(data)
            writer.close()

        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            try:
                await asyncio.gather(up(), back())
            finally:
                self._clients.discard(writer)
                down.close()
                writer.close()
