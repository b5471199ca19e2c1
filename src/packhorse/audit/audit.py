"""Write and read the audit: a stream of what people did to jobs, queues and schedules."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from packhorse.audit.actor import Actor, acting, actor_now
from packhorse.audit.entry import AdminAction, AuditEntry, AuditOutcome, entry_of, pack
from packhorse.errors import InvalidInput, StoreError, UndecodablePayload
from packhorse.model import limits
from packhorse.model.effect import Publish
from packhorse.model.event import Event
from packhorse.model.ids import id_text, new_id
from packhorse.stores.contract import Store
from packhorse.telemetry.redact import redacted

STREAM = "packhorse.audit"
ERROR_MAX_CHARACTERS = 1000


@dataclass(slots=True, kw_only=True)
class Operation:
    """An action under way; ``count`` is how many jobs it has changed."""

    action: str
    target: str | None = None
    filter: Mapping[str, Any] | None = None
    count: int | None = None
    id: str = field(default_factory=lambda: id_text(new_id()))


class Audit:
    """The audit of an app: who did what to jobs, queues and schedules, kept for 90 days."""

    acting = staticmethod(acting)

    def __init__(self, store: Callable[[], Awaitable[Store]], user: str | None) -> None:
        self._store, self._user = store, user

    # -- writing

    @property
    def actor(self) -> Actor:
        """Who acts at this moment."""
        return actor_now(self._user)

    async def record(
        self,
        action: str,
        *,
        target: str | None = None,
        filter: Mapping[str, Any] | None = None,
        count: int | None = None,
        outcome: AuditOutcome = AuditOutcome.DONE,
        error: str = "",
        operation_id: str | None = None,
    ) -> None:
        """Write one entry about an action."""
        about = Operation(action=action, target=target, filter=filter, count=count)
        about.id = operation_id or about.id
        await self._write(about, outcome, error)

    @asynccontextmanager
    async def recorded(
        self,
        action: str,
        *,
        target: str | None = None,
        filter: Mapping[str, Any] | None = None,
        operation_id: str | None = None,
    ) -> AsyncIterator[Operation]:
        """Write one entry when the action inside has ended, or has failed or was refused with an error."""
        operation = Operation(action=action, target=target, filter=filter)
        operation.id = operation_id or operation.id
        try:
            yield operation
        except Exception as error:
            await self._write_error(operation, error)
            raise
        await self._write(operation, AuditOutcome.DONE)

    @asynccontextmanager
    async def announced(
        self, action: str, *, target: str | None = None, filter: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Operation]:
        """Write the intent before the action inside, and what came of it afterwards."""
        async with self.recorded(action, target=target, filter=filter) as operation:
            await self._write(operation, AuditOutcome.STARTED)
            yield operation

    @asynccontextmanager
    async def refusals(self, action: str, *, filter: Mapping[str, Any] | None = None) -> AsyncIterator[None]:
        """Write an entry only if what is asked for inside is refused."""
        try:
            yield
        except InvalidInput as error:
            await self._write_error(Operation(action=action, filter=filter), error)
            raise

    async def _write_error(self, operation: Operation, error: Exception) -> None:
        outcome = AuditOutcome.REFUSED if isinstance(error, InvalidInput) else AuditOutcome.FAILED
        with suppress(StoreError):  # the first error is the one to raise
            await self._write(operation, outcome, f"{type(error).__name__}: {error}")

    async def _write(self, operation: Operation, outcome: AuditOutcome, error: str = "") -> None:
        actor = self.actor
        entry = AdminAction(
            action=operation.action,
            who=actor.who,
            via=actor.via,
            target=None if operation.target is None else redacted(operation.target),
            filter=None if operation.filter is None else redacted(operation.filter),
            count=operation.count,
            outcome=outcome,
            error=redacted(error)[:ERROR_MAX_CHARACTERS],
            operation=operation.id,
            address=actor.address,
            request_id=actor.request_id,
        )
        await (await self._store()).streams.publish([Publish(STREAM, pack(entry))])

    # -- reading

    async def entries(self, after: int = 0, limit: int = 100) -> list[AuditEntry]:
        """Read the entries after a number, oldest first. One that cannot be read is left out: its number is missing."""
        limits.within("limit", limit, 1, limits.LOOKED_AT)
        return _readable(await (await self._store()).streams.read(STREAM, after=after, limit=limit))

    async def latest(self, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
        """Read the newest entries, or those before a number, newest first."""
        limits.within("limit", limit, 1, limits.LOOKED_AT)
        streams = (await self._store()).streams
        last = (await streams.bounds(STREAM)).last if before is None else before - 1
        after = max(0, last - limit)
        events = await streams.read(STREAM, after=after, limit=max(1, last - after))
        return [entry for entry in _readable(events)[::-1] if entry.number <= last]

    async def __aiter__(self) -> AsyncIterator[AuditEntry]:
        """Read all entries that are kept, oldest first."""
        after = 0
        while events := await (await self._store()).streams.read(STREAM, after=after, limit=limits.ITEMS):
            for entry in _readable(events):
                yield entry
            after = events[-1].offset


def _readable(events: list[Event]) -> list[AuditEntry]:
    found = []
    for event in events:
        with suppress(UndecodablePayload):
            found.append(entry_of(event))
    return found
