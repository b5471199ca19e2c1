"""Transactions of the user's own making: a session or connection whose last statement is the settlement of the job.

A factory answers a context manager, a connection, or something to await for one. To roll back is to leave it with an error.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from importlib import import_module
from typing import Any

from packhorse.engine.tx import Notes, Steps
from packhorse.errors import TransactionOver, UnknownConnection
from packhorse.jobs import user_connections
from packhorse.model.lease import Settlement, Verdict, bounded_parts
from packhorse.stores.contract import Store, Work


class SessionFactory:
    """Opens a transaction for every attempt by calling a function."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def check(self, store: Store) -> None:
        """Refuse a store that cannot be part of somebody else's transaction."""
        store.jobs.within()

    def on_loop(self, store: Store, limit: int) -> "AsyncSession":  # noqa: ARG002 - its time is the user's own
        """The transaction of an attempt on the loop."""
        return AsyncSession(self._make, store)

    def in_thread(self, store: Store, limit: int, loop: asyncio.AbstractEventLoop) -> "SyncSession":  # noqa: ARG002
        """The transaction of an attempt in a thread."""
        return SyncSession(self._make, store)


class _Session:
    """What a factory made. It may be in use at any moment, so only the code that made it ends it."""

    def __init__(self, make: Callable[[], Any], store: Store) -> None:
        self._make, self._store = make, store
        self.given: Any = None
        self.begun = False  # from when it is entered on

    def abandon(self) -> None:
        """Nothing can be done to it from outside."""

    def _got(self, made: Any, entered: Any) -> None:
        """Remember what the handler is given; Django's ``atomic`` gives nothing and means a connection of this thread."""
        if entered is None and hasattr(made, "using"):
            database = import_module("django.db")
            entered = database.connections[made.using or database.DEFAULT_DB_ALIAS]
        self.given, self.begun = entered, True


class AsyncSession(_Session):
    """A session or connection of an attempt on the loop."""

    async def enter(self) -> None:
        """Open it."""
        self._stack = AsyncExitStack()
        made = self._make()
        if inspect.isawaitable(made) and not hasattr(made, "__aenter__"):
            made = await made
        if hasattr(made, "__aenter__"):
            entered = await self._stack.enter_async_context(made)
        elif hasattr(made, "__enter__"):
            entered = _entered(self._stack, made)
        else:
            entered = made
            self._stack.push_async_callback(made.close)
        self._got(made, entered)
        if hasattr(entered, "is_in_transaction"):  # asyncpg: it commits by itself otherwise
            await self._stack.enter_async_context(entered.transaction())
        # Before the handler writes what could not be undone, or not be settled.
        await user_connections.run(self.given, self._store.jobs.within().check())

    async def settle(self, settlement: Settlement, notes: Notes, held: Steps) -> Verdict:
        """Write the held steps and the settlement as its last statements, and commit."""
        if (flush := _flush(self.given)) is not None:
            flushed = flush()
            if inspect.isawaitable(flushed):
                await flushed
        verdict = Verdict.LOST
        for work in _settling(self._store, settlement, notes, held):
            *_, verdict = await user_connections.run(self.given, work)
        if verdict is not Verdict.WRITTEN:
            await self.roll_back()
            return verdict
        if (commit := _commit(self.given)) is not None:
            committed = commit()
            if inspect.isawaitable(committed):
                await committed
        await self._stack.aclose()
        return verdict

    async def roll_back(self) -> None:
        """Undo all of it."""
        with suppress(Exception):  # what cannot even be left is undone by the database
            await self._stack.__aexit__(TransactionOver, TransactionOver(), None)


class SyncSession(_Session):
    """A session or connection of an attempt in a thread."""

    def enter(self) -> None:
        """Open it."""
        self._stack = ExitStack()
        made = self._make()
        if not hasattr(made, "__enter__"):
            raise UnknownConnection(made, "a plain function needs a blocking one, and its factory a context manager")
        self._got(made, _entered(self._stack, made))
        user_connections.blocking(self.given).run(self._store.jobs.within().check())  # as above

    def settle(self, settlement: Settlement, notes: Notes, held: Steps) -> Verdict:
        """Write the held steps and the settlement as its last statements, and commit."""
        if (flush := _flush(self.given)) is not None:
            flush()
        verdict = Verdict.LOST
        for work in _settling(self._store, settlement, notes, held):
            *_, verdict = user_connections.blocking(self.given).run(work)
        if verdict is not Verdict.WRITTEN:
            self.roll_back()
            return verdict
        if (commit := _commit(self.given)) is not None:
            commit()
        self._stack.close()
        return verdict

    def roll_back(self) -> None:
        """Undo all of it."""
        with suppress(Exception):
            self._stack.__exit__(TransactionOver, TransactionOver(), None)


def _settling(store: Store, settlement: Settlement, notes: Notes, held: Steps) -> Iterator[Work[tuple[Verdict, ...]]]:
    """The statements that settle an attempt: as many as its held steps need, the last with its settlement."""
    *before, last = bounded_parts([*held, settlement])
    for part in before:
        yield store.jobs.within().settle(part)
    yield store.jobs.within().settle(last, notes)


def _entered(stack: AsyncExitStack | ExitStack, made: Any) -> Any:
    if type(made).__module__.startswith("django."):
        close = import_module("django.db").close_old_connections  # as around a request: threads live long
        close()
        stack.callback(close)
    if type(made).__module__ == "sqlite3":
        stack.callback(made.close)  # which leaving it does not do
    return stack.enter_context(made)


def _flush(given: Any) -> Callable[[], Any] | None:
    """How to write what a session of SQLAlchemy still holds back; it would be written after the settlement, under its locks."""
    return getattr(given, "flush", None)


def _commit(given: Any) -> Callable[[], Any] | None:
    """How to commit it; None where leaving it does that: Django refuses otherwise, asyncpg has nothing else."""
    return None if hasattr(given, "in_atomic_block") else getattr(given, "commit", None)
