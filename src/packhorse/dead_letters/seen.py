"""When the dead jobs of a queue were last looked at, so that pruning can say which were never looked at."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from packhorse.model.effect import Put
from packhorse.model.record import SEEN

if TYPE_CHECKING:
    from packhorse.jobs.client import Client


class SeenMarks:
    """Notes when queues were looked at, by a person or by a handler."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._marked: dict[str, int] = {}  # by this process

    async def letter(self, queue: str, died_at: int) -> None:
        """Note that a letter was handled; one that died before the last mark needs no other."""
        if self._marked.get(queue, 0) < died_at:
            await self.now([queue])

    async def now(self, queues: Iterable[str]) -> None:
        """Note that the dead jobs of these queues are looked at now."""
        chosen = sorted(set(queues))
        if not chosen:
            return
        store = await self._client.store()
        at = await store.ping()
        await store.records.put([Put(SEEN, queue, str(at).encode()) for queue in chosen])
        self._marked |= dict.fromkeys(chosen, at)
