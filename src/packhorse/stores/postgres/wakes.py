"""Hints from the server: one listening connection for all who wait, made anew with growing pauses when it breaks."""

import asyncio
from collections.abc import AsyncIterator

from packhorse.model import backoff
from packhorse.model.clock import SYSTEM
from packhorse.stores.contract import Topic
from packhorse.stores.postgres.database import WORKER_CALL_SECONDS, PostgresDatabase

LISTEN_PING_SECONDS = 30.0  # of silence after which a listener asks whether its line is still there
_TOPICS = frozenset(topic.value for topic in Topic)
_PAUSES = backoff.exponential(0.1, cap=10, jitter=0)


class PostgresWakes:
    """Listens while somebody waits for hints."""

    def __init__(self, database: PostgresDatabase, channel: str, question: str) -> None:
        self._database = database
        self._channel = channel
        self._question = question
        self._waiting: dict[asyncio.Event, Topic] = {}
        self._listener: asyncio.Task[None] | None = None
        self._closed = False

    def open(self) -> None:
        """Allow listening."""
        self._closed = False

    async def close(self) -> None:
        """End every wait."""
        self._closed = True
        for woken in self._waiting:
            woken.set()
        await self._stop()

    async def listen(self, topic: Topic) -> AsyncIterator[None]:
        """A hint whenever something may be there; also when the line was just made, for some may have been missed."""
        woken = asyncio.Event()
        self._waiting[woken] = topic
        try:
            while not self._closed:
                if self._listener is None and self._database.listens:
                    self._listener = asyncio.ensure_future(self._keep_listening())
                await woken.wait()
                woken.clear()
                if not self._closed:
                    yield
        finally:
            del self._waiting[woken]
            if not self._waiting:
                await self._stop()

    async def _stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])

    async def _keep_listening(self) -> None:
        failures = 0
        while True:
            try:
                async with self._database.alone(listening=True, limit=WORKER_CALL_SECONDS) as connection:
                    ended = asyncio.Event()
                    connection.add_termination_listener(lambda _, ended=ended: ended.set())
                    await connection.add_listener(self._channel, self._on_notification)
                    self._tell(*Topic)
                    failures = 0
                    while not await _within(ended, LISTEN_PING_SECONDS):
                        await connection.fetch(self._question, timeout=WORKER_CALL_SECONDS)
            except Exception:  # noqa: BLE001 - nobody would start it again; hints may be missed, polling goes on
                failures += 1
            await SYSTEM.sleep(_PAUSES.delay(max(failures, 1), 0))

    def _on_notification(self, _connection: object, _pid: int, _channel: str, topic: object) -> None:
        if topic in _TOPICS:  # a newer release may tell more
            self._tell(Topic(topic))

    def _tell(self, *topics: Topic) -> None:
        for woken, topic in self._waiting.items():
            if topic in topics:
                woken.set()


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        return await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
