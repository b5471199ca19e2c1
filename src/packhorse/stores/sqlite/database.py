"""The database file: one writer thread that merges what waits into one transaction, one reader thread, wake-ups.

A database in memory has one connection and runs inline.
"""

import asyncio
import contextlib
import ctypes
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from packhorse.errors import DurabilityNotMet, StoreClosed
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.limits import SECOND
from packhorse.stores.sqlite.call_queue import CallQueue, PendingCall, answer
from packhorse.stores.sqlite.errors import busy, translated, unopened
from packhorse.stores.sqlite.file import BUSY_SECONDS, MIN_VERSION, File
from packhorse.stores.sqlite.forks import FORKS
from packhorse.stores.sqlite.held_writer import HeldWriter, ReopenableEvent
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork
from packhorse.stores.sqlite.wakes import SQLiteWakes
from packhorse.stores.sqlite.write_batch import WriteBatch, undo

T = TypeVar("T")

MERGED_CALLS = 500
RETRY_EVERY_SECONDS = 0.001  # between two tries of a writer that another program keeps waiting
FORK_WAIT_SECONDS = 0.05  # that a fork waits for the writer's turn before it looks who has it


class SQLiteDatabase:
    """Runs verbs as steps of a transaction. ``clock`` is given by tests; without it the machine's clock rules."""

    def __init__(self, file: File, *, clock: Clock | None, events: bool) -> None:
        self.file, self.path, self.memory = file, file.path, file.memory
        self._pid = 0
        # Whoever is in the file holds one of these, and a fork waits for all of them; taken in this order.
        self._life_turn = threading.RLock()  # opening and closing, on whatever loop
        self._write_turn, self._read_turn, self._script_turn = threading.RLock(), threading.RLock(), threading.RLock()
        self.wakes = SQLiteWakes(file)
        self.write_batch = WriteBatch(file, self.wakes, clock=clock or SYSTEM, events=events)
        self._writing: sqlite3.Connection | None = None
        self._reading: sqlite3.Connection | None = None
        self._held: sqlite3.Connection | None = None  # apart, for what the user's statements leave behind
        self._holder: HeldWriter | None = None  # who has the writer
        self._frozen: HeldWriter | None = None  # the holder in whose transaction the process forks
        self._pause = threading.Event()  # never set: something to wait on
        self._gate = ReopenableEvent()  # memory has one connection: while it is held, calls wait
        self._writer: CallQueue | None = None
        self._reader: CallQueue | None = None
        self._users = 0

    # -- opening and closing

    def connect(self) -> None:
        """Open the file (or memory) for writing; threads come with ``start``."""
        if sqlite3.sqlite_version_info < MIN_VERSION:
            floor = ".".join(map(str, MIN_VERSION))
            raise DurabilityNotMet(
                f"SQLite {sqlite3.sqlite_version} is too old, {floor} is needed: use a newer Python build"
            )
        FORKS.add(self)
        with self._life_turn:
            if self._writing is not None:
                return
            self._pid = os.getpid()
            try:
                self._writing = self.file.create()
            except (sqlite3.Error, OSError) as error:
                raise unopened(self.path, error) from error

    def start(self) -> None:
        """Begin to serve calls, of one more user."""
        with self._life_turn:
            self.connect()
            if not self.memory and self._writer is None:
                self._reading = self._reading or self.file.connection()
                self._writer = CallQueue("packhorse-sqlite-writer", self._serve_writes)
                self._reader = CallQueue("packhorse-sqlite-reader", self._serve_reads)
            self._users += 1

    async def stop(self) -> None:
        """One user less; after the last, serve what waits, end the threads, close the file."""
        with self._life_turn:
            self._users -= 1
            if self._users:
                return
            queues, self._writer, self._reader = (self._writer, self._reader), None, None
        forked = self._pid != os.getpid()
        for queue in queues:
            if queue is not None and not forked:
                await asyncio.to_thread(queue.stop)
        self.forget()

    def __del__(self) -> None:
        if self.memory and (memory := getattr(self, "_writing", None)) is not None:
            memory.close()

    def forget(self) -> None:
        """Close the file, if nobody uses it; memory would be lost and stays."""
        if self.memory:
            return
        with self._life_turn, self._write_turn, self._read_turn:
            if self._users:
                return
            reading, writing, self._reading, self._writing = self._reading, self._writing, None, None
            held, self._held = self._held, None
            if self._pid != os.getpid():
                return
            for connection in (reading, held):
                if connection is not None:
                    connection.close()
            if writing is not None:
                with self.file.lock:
                    writing.close()
            self.file.lock.let_go()

    # -- serving calls

    async def write(
        self,
        work: Callable[[UnitOfWork], T],
        *,
        skip: Callable[[UnitOfWork], T | None] | None = None,
        urgent: bool = False,
    ) -> T:
        """Run a verb in a transaction; if ``skip`` has an answer from a mere look, without one."""
        self._alive(self._writing)
        if self.memory:
            if self._gate.shut:
                await self._gate.passed()
            with self._write_turn:
                call = PendingCall(work, skip)
                self.write_batch.serve(self._alive(self._writing), deque([call]))
                call.deliver()
        else:
            call = PendingCall(work, skip, urgent=urgent)
            self._alive(self._writer).put(call)
        return await call.future  # type: ignore[no-any-return]

    async def read(self, work: Callable[[UnitOfWork], T]) -> T:
        """Run a look in a snapshot of its own."""
        self._alive(self._writing)
        call = PendingCall(work)
        if self.memory:
            if self._gate.shut:
                await self._gate.passed()
            with self._write_turn:
                self.write_batch.look(self._alive(self._writing), call)
                call.deliver()
        else:
            self._alive(self._reader).put(call)
        return await call.future  # type: ignore[no-any-return]

    async def hold(self, hold: HeldWriter) -> None:
        """Let an attempt have the writer when its turn has come; in memory, wait for that turn."""
        self._alive(self._writing)
        if not self.memory:
            self._alive(self._writer).put(lambda: self._serve_hold(hold))
            return
        await self._gate.close()
        threading.Thread(target=self._serve_hold, args=(hold,), name="packhorse-sqlite-hold", daemon=True).start()

    def _alive(self, part: T | None) -> T:
        if self._pid != os.getpid() and self._pid:
            raise StoreClosed("This store was opened before a fork: open another one in the child")
        if part is None:
            raise StoreClosed("The store is not open: call `await store.open()` first")
        return part

    def _serve_writes(self, queue: CallQueue) -> None:
        while True:
            waiting = deque(queue.take(MERGED_CALLS))
            any_call, served = bool(waiting), None
            while waiting and served != []:
                with self._write_turn:  # another connection after a fork
                    served = self.write_batch.serve(self._alive(self._writing), waiting)
                answer(served)
            if waiting:  # another program writes
                queue.put_back(waiting)
                self._pause.wait(RETRY_EVERY_SECONDS)
            elif not queue.serve_turn() and not any_call:
                return

    def _serve_hold(self, hold: HeldWriter) -> bool:
        """Lend the writer to an attempt: one transaction, of which nothing stays that was not committed inside.

        Answers whether that is over, or to be tried again because another program writes.
        """
        try:
            self.file.check()
            with self._write_turn, self.file.lock:
                self._lend(hold)
        except Exception as error:  # noqa: BLE001 - the attempt gets it
            hold.refused = hold.refused or SYSTEM.steady()
            if busy(error) and not hold.over and SYSTEM.steady() - hold.refused < BUSY_SECONDS * SECOND:
                self._pause.wait(RETRY_EVERY_SECONDS)
                return False
            hold.end(translated(error))
        if self.memory:
            self._gate.open()
        hold.left.open()
        return True

    def _lend(self, hold: HeldWriter) -> None:
        if not self.memory and self._held is None:
            self._held = self.file.holding()
        connection = self._alive(self._held or self._writing)
        connection.execute("BEGIN IMMEDIATE")
        self._holder = hold
        try:
            hold.serve(connection)
        finally:
            self._holder = None
            undo(connection)
            if hold.unclean or connection.execute(SQL.any_temporary).fetchone():
                self._replace(connection)

    def _replace(self, connection: sqlite3.Connection) -> None:
        """Drop the connection of an attempt that left more than it committed; memory moves to a new one."""
        if self.memory:
            self._writing = self.file.holding()
            connection.backup(self._writing)
        self._held = None
        connection.close()

    def _serve_reads(self, queue: CallQueue) -> None:
        while calls := queue.take(MERGED_CALLS):
            with self._read_turn:
                for call in calls:
                    self.write_batch.look(self._alive(self._reading), call)
            answer(calls)

    # -- forks

    def before_fork(self) -> None:
        """Let calls under way end, begin no more, and close the file; memory cannot be opened again and stays.

        An attempt that has the writer may be the one that forks: its transaction stays open, between two statements.
        """
        self._life_turn.acquire()
        while not self._write_turn.acquire(timeout=FORK_WAIT_SECONDS):
            if (holder := self._holder) is not None and holder.freeze():
                self._frozen = holder
                break
        self._read_turn.acquire()
        self._script_turn.acquire()
        self.wakes.before_fork()
        if self.memory:
            return
        if self._frozen is None:
            _close(self._held)
            self._held = None
        _close(self._writing)
        _close(self._reading)

    def after_fork(self) -> None:
        """Open the file again; if that fails, calls do until the store is opened anew."""
        with contextlib.suppress(sqlite3.Error, DurabilityNotMet):
            if self._writing is not None and not self.memory:
                self._writing = self.file.writing()
            if self._reading is not None and not self.memory:
                self._reading = self.file.connection()
        self.wakes.after_fork()
        self._go_on()

    def after_fork_in_child(self) -> None:
        """Let go of the lock file, and never touch a transaction of the parent: to close it here would damage it there."""
        self.file.lock.let_go_in_child()
        self.wakes.after_fork_in_child()
        if self._frozen is not None and self._held is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._held))  # not even when this process ends
            self.file.strand()
        self._go_on()
        self._write_turn = threading.RLock()  # a thread of the parent may have had it

    def _go_on(self) -> None:
        frozen, self._frozen = self._frozen, None
        self._script_turn.release()
        self._read_turn.release()
        if frozen is None:
            self._write_turn.release()
        else:
            frozen.thaw()
        self._life_turn.release()

    # -- schema

    @property
    def running(self) -> bool:
        """Whether somebody uses it in this process."""
        return self._users > 0 and self._pid == os.getpid()

    def script(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run schema work alone, on a connection of its own if there can be more than one."""
        self.connect()
        if self.memory:
            with self._write_turn:
                return self._alone(self._alive(self._writing), work)
        with self._script_turn, contextlib.closing(self.file.connection()) as connection:
            return self._alone(connection, work)

    def look(self, work: Callable[[sqlite3.Connection | None], T]) -> T:
        """Look at what is there, open or not, without making anything; there is no connection where there is nothing."""
        path = Path(self.path)
        if self.memory or not path.exists():
            with self._write_turn:
                return work(self._writing if self.memory else None)
        try:
            with self._script_turn, contextlib.closing(self.file.connection(f"{path.as_uri()}?mode=ro")) as connection:
                return work(connection)
        except sqlite3.Error as error:
            raise unopened(self.path, error) from error

    def _alone(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self.file.lock:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    result = work(connection)
                    connection.execute("COMMIT")
                    return result
                except BaseException:
                    undo(connection)
                    raise
        except sqlite3.Error as error:
            raise translated(error) from error


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(sqlite3.Error):
            connection.close()
