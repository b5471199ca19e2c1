"""A server that shakes hands and then answers each request with the next of some words, or hangs up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from packhorse.stores.redis.store import RedisStore
from packhorse.testing import TurnedClock

GREETINGS = (b"CLIENT", b"SELECT", b"AUTH")


class Refusing:
    """``login`` answers a greeting, each of ``answers`` one request; None is no answer, for ever."""

    def __init__(self, *answers: bytes | None, login: bytes | None = b"+OK") -> None:
        self.answers, self.login, self.received = list(answers), login, 0
        self.port = 0
        self._lines: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._lines[task] = writer
        task.add_done_callback(self._lines.pop)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while line := await reader.readline():
                words = [await self._word(reader) for _ in range(int(line[1:]))]
                answer = self.login
                if words[0] not in GREETINGS:
                    self.received += 1
                    if not self.answers:
                        break
                    answer = self.answers.pop(0)
                if answer is not None:
                    writer.write(answer + b"\r\n")
        writer.close()

    async def _word(self, reader: asyncio.StreamReader) -> bytes:
        size = int((await reader.readline())[1:])
        return (await reader.readexactly(size + 2))[:-2]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Refusing"]:
        """Serve as long as the block runs."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task, writer in list(self._lines.items()):
                writer.transport.abort()
                task.cancel()
            await asyncio.gather(*self._lines, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def store(self, parameters: str = "") -> AsyncIterator[RedisStore]:
        """A store that believes to be open on it."""
        async with self.running():
            store = RedisStore(f"redis://ox:hay@127.0.0.1:{self.port}/0{parameters}", clock=TurnedClock())
            store._keyspace.connections.open()
            try:
                yield store
            finally:
                await store.close()
