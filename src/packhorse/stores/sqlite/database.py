"""The database file: one writer thread that merges what waits into one transaction, one reader thread, wake-ups.

A database in memory has one connection and runs inline.
"""

import asyncio
import contextlib
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from packhorse.errors import DurabilityNotMet, StoreClosed
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.lease import Verdict
from packhorse.stores.contract import Topic
from packhorse.stores.sqlite.file import FLOOR, File
from packhorse.stores.sqlite.forks import FORKS
from packhorse.stores.sqlite.hold import Gate, Hold
from packhorse.stores.sqlite.line import Call, Line, answer
from packhorse.stores.sqlite.step import SQL, Step
from packhorse.stores.sqlite.translate import full, translated, unopened, unsure
from packhorse.stores.sqlite.wakes import Wakes

T = TypeVar("T")

MERGED_CALLS = 500
MERGED_TIME = 50_000


class Database:
    """Runs verbs as steps of a transaction. ``clock`` is given by tests; without it the machine's clock rules."""

    def __init__(self, file: File, *, clock: Clock | None, events: bool) -> None:
        self._file, self.path, self.memory = file, file.path, file.memory
        self._clock = clock or SYSTEM
        self._events = events
        self._pid = 0
        # Whoever is in the file holds one of these, and a fork waits for all three.
        self._write_turn, self._read_turn, self._script_turn = threading.RLock(), threading.RLock(), threading.RLock()
        self.wakes = Wakes(file.path)
        self._writing: sqlite3.Connection | None = None
        self._reading: sqlite3.Connection | None = None
        self._held: sqlite3.Connection | None = None  # apart, for what the user's statements leave behind
        self._gate = Gate()  # memory has one connection: while it is held, calls wait
        self._writer: Line | None = None
        self._reader: Line | None = None
        self._users = 0

    # -- opening and closing

    def connect(self) -> None:
        """Open the file (or memory) for writing; threads come with ``start``."""
        if sqlite3.sqlite_version_info < FLOOR:
            floor = ".".join(map(str, FLOOR))
            raise DurabilityNotMet(
                f"SQLite {sqlite3.sqlite_version} is too old, {floor} is needed: use a newer Python build"
            )
        if self._writing is not None:  # who has the turn may keep it for long
            return
        FORKS.add(self)
        with self._write_turn:
            if self._writing is not None:
                return  # type: ignore[unreachable]  # another thread was faster
            self._pid = os.getpid()
            try:
                self._writing = self._file.create()
            except (sqlite3.Error, OSError) as error:
                raise unopened(self.path, error) from error

    def start(self) -> None:
        """Begin to serve calls, of one more user."""
        self.connect()
        self._users += 1
        if not self.memory and self._writer is None:
            with self._read_turn:
                self._reading = self._file.connection()
            self._writer = Line("packhorse-sqlite-writer", self._serve_writes)
            self._reader = Line("packhorse-sqlite-reader", self._serve_reads)

    async def stop(self) -> None:
        """One user less; after the last, serve what waits, end the threads, close the file."""
        self._users -= 1
        if self._users:
            return
        forked = self._pid != os.getpid()
        lines, self._writer, self._reader = (self._writer, self._reader), None, None
        for line in lines:
            if line is not None and not forked:
                await asyncio.to_thread(line.stop)
        self.forget()

    def forget(self) -> None:
        """Close the file, if nobody uses it."""
        if self._users:
            return
        with self._write_turn, self._read_turn:
            reading, writing, self._reading, self._writing = self._reading, self._writing, None, None
            held, self._held = self._held, None
            if self._pid != os.getpid():
                return
            for connection in (reading, held):
                if connection is not None:
                    connection.close()
            if writing is not None:
                with self._file.locked():
                    writing.close()
            self._file.let_go()

    # -- serving calls

    async def write(
        self,
        work: Callable[[Step], T],
        *,
        skip: Callable[[Step], T | None] | None = None,
        urgent: bool = False,
    ) -> T:
        """Run a verb in a transaction; if ``skip`` has an answer from a mere look, without one."""
        writing = self._alive(self._writing)
        if self.memory:
            if self._gate.shut:
                await self._gate.passed()
            with self._write_turn:
                call = Call(work, skip)
                self._transact(writing, deque([call]))
                call.deliver()
        else:
            call = Call(work, skip)
            self._alive(self._writer).put(call, urgent=urgent)
        return await call.future  # type: ignore[no-any-return]

    async def read(self, work: Callable[[Step], T]) -> T:
        """Run a look in a snapshot of its own."""
        self._alive(self._writing)
        call = Call(work, None)
        if self.memory:
            if self._gate.shut:
                await self._gate.passed()
            with self._write_turn:
                self._look(self._alive(self._writing), call)
                call.deliver()
        else:
            self._alive(self._reader).put(call)
        return await call.future  # type: ignore[no-any-return]

    async def hold(self, hold: Hold) -> None:
        """Let an attempt have the writer when its turn has come; in memory, wait for that turn."""
        self._alive(self._writing)
        if not self.memory:
            self._alive(self._writer).put_turn(lambda: self._serve_hold(hold))
            return
        await self._gate.close()
        threading.Thread(target=self._serve_hold, args=(hold,), name="packhorse-sqlite-hold", daemon=True).start()

    def _alive(self, part: T | None) -> T:
        if self._pid != os.getpid() and self._pid:
            raise StoreClosed("This store was opened before a fork: open a store of its own in the child")
        if part is None:
            raise StoreClosed("The store is not open: call `await store.open()` first")
        return part

    def _serve_writes(self, line: Line) -> None:
        assert self._writing is not None
        while True:
            waiting = deque(line.take(MERGED_CALLS))
            turn = line.take_turn()
            if not (waiting or turn):
                return
            while waiting:
                with self._write_turn:  # another connection after a fork
                    served = self._transact(self._writing, waiting)
                answer(served)
            if turn:
                turn()

    def _serve_hold(self, hold: Hold) -> None:
        """Lend the writer to an attempt: one transaction, of which nothing stays that was not committed inside."""
        try:
            with self._write_turn, self._file.locked():
                self._lend(hold)
        except Exception as error:  # noqa: BLE001 - the attempt gets it
            hold.end(translated(error))
        finally:
            if self.memory:
                self._gate.open()
            hold.left.open()

    def _lend(self, hold: Hold) -> None:
        if not self.memory and self._held is None:
            self._held = self._file.writing()
        connection = self._alive(self._held or self._writing)
        connection.execute("BEGIN IMMEDIATE")
        try:
            hold.serve(connection)
        finally:
            _undo(connection)

    def settle(self, connection: sqlite3.Connection, work: Callable[[Step], Verdict]) -> Verdict:
        """End a transaction that was lent: commit if the settlement is written, else roll back."""
        try:
            step = self._step(connection)
            verdict = work(step)
            if verdict is not Verdict.WRITTEN:
                return verdict
            self.finish(step)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:  # refused, perhaps by a constraint that was put off: nothing is written
                raise
            raise unsure(error) from error
        finally:
            _undo(connection)
        self._tell(work=step.work, ends=step.ends)
        return verdict

    def _serve_reads(self, line: Line) -> None:
        assert self._reading is not None
        while calls := line.take(MERGED_CALLS):
            with self._read_turn:
                for call in calls:
                    self._look(self._reading, call)
            answer(calls)

    def _look(self, connection: sqlite3.Connection, call: Call) -> None:
        try:
            connection.execute("BEGIN")
            try:
                call.result = call.work(self._step(connection))
            finally:
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the caller gets it
            call.error = translated(error)

    def now(self) -> int:
        """The moment by the clock that rules; never before the last one that is stored."""
        return self._clock.now()

    def finish(self, step: Step) -> None:
        """Write what a step gathered, and how far the numbers have come."""
        step.finish(events=self._events)
        step.run(SQL.set_moment, step.now, step.number)

    def _step(self, connection: sqlite3.Connection) -> Step:
        at, number = connection.execute(SQL.moment).fetchone()
        return Step(connection, max(at, self._clock.now()), number)

    def _transact(self, connection: sqlite3.Connection, waiting: deque[Call]) -> list[Call]:
        """Serve calls from the head of the line in one transaction, as many as fit into its time."""
        served: list[Call] = []
        while waiting and self._skipped(connection, waiting[0]):
            served.append(waiting.popleft())
        if not waiting:
            return served
        written: list[Call] = []
        committing = False
        try:
            with self._file.locked():
                connection.execute("BEGIN IMMEDIATE")
                begun = SYSTEM.steady()
                step = self._step(connection)
                work = ends = False
                while waiting and (not written or SYSTEM.steady() - begun < MERGED_TIME):
                    call = waiting.popleft()
                    written.append(call)
                    step = self._one(connection, call, step)
                    work, ends = work or step.work, ends or step.ends
                connection.execute(SQL.set_moment, (step.now, step.number))
                committing = True
                connection.execute("COMMIT")
                committing = False
                self._file.shorten(connection)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            _undo(connection)
            if full(error) and written and not written[0].again and self._file.make_room(connection):
                waiting.extendleft(call.once_more() for call in reversed(written))
                return served
            for call in written or [waiting.popleft()]:
                call.error = call.error or (unsure(error) if committing else translated(error))
                served.append(call)
            return served
        self._tell(work=work, ends=ends)
        return served + written

    def _tell(self, *, work: bool, ends: bool) -> None:
        if work:
            self.wakes.wake(Topic.WORK)
        if ends:
            self.wakes.wake(Topic.ENDS)

    def _one(self, connection: sqlite3.Connection, call: Call, before: Step) -> Step:
        """Serve one call in a savepoint, so that its failure is its own."""
        step = Step(connection, before.now, before.number)
        connection.execute("SAVEPOINT verb")
        try:
            call.result = call.work(step)
            step.finish(events=self._events)
        except Exception as error:
            call.error = translated(error)
            if not connection.in_transaction:  # a full disk ends the whole transaction, not just this verb
                raise
            connection.execute("ROLLBACK TO verb")
            step = Step(connection, before.now, before.number)
        connection.execute("RELEASE verb")
        return step

    def _skipped(self, connection: sqlite3.Connection, call: Call) -> bool:
        if call.skip is None:
            return False
        try:
            call.result = call.skip(self._step(connection))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            call.error = translated(error)
            return True
        return call.result is not None

    # -- forks

    def before_fork(self) -> None:
        """Let calls under way end, begin no more, and close the file; memory cannot be opened again and stays."""
        for turn in (self._write_turn, self._read_turn, self._script_turn):
            turn.acquire()
        self.wakes.before_fork()
        for connection in () if self.memory else (self._writing, self._reading, self._held):
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
        self._held = None

    def after_fork(self) -> None:
        """Open the file again; if that fails, calls do until the store is opened anew."""
        with contextlib.suppress(sqlite3.Error, DurabilityNotMet):
            if self._writing is not None and not self.memory:
                self._writing = self._file.writing()
            if self._reading is not None and not self.memory:
                self._reading = self._file.connection()
        self._go_on()

    def after_fork_in_child(self) -> None:
        """Let go of the lock file: the parent's lock would outlive the parent."""
        self._file.let_go()
        self._go_on()

    def _go_on(self) -> None:
        self.wakes.after_fork()
        for turn in (self._write_turn, self._read_turn, self._script_turn):
            turn.release()

    # -- schema

    @property
    def running(self) -> bool:
        """Whether somebody uses it in this process."""
        return self._users > 0 and self._pid == os.getpid()

    def script(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run schema work alone: on the one connection before calls are served, on its own one while they are."""
        self.connect()
        if self.memory or not self.running:
            with self._write_turn:
                return self._alone(self._alive(self._writing), work)
        with self._script_turn, contextlib.closing(self._file.connection()) as connection:
            return self._alone(connection, work)

    def look(self, work: Callable[[sqlite3.Connection | None], T]) -> T:
        """Look at what is there, open or not, without making anything; there is no connection where there is nothing."""
        path = Path(self.path).absolute()
        if self.memory or not path.exists():
            with self._write_turn:
                return work(self._writing if self.memory else None)
        try:
            with self._script_turn, contextlib.closing(self._file.connection(f"{path.as_uri()}?mode=ro")) as connection:
                return work(connection)
        except sqlite3.Error as error:
            raise unopened(self.path, error) from error

    def _alone(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._file.locked():
                connection.execute("BEGIN IMMEDIATE")
                try:
                    result = work(connection)
                    connection.execute("COMMIT")
                    return result
                except BaseException:
                    _undo(connection)
                    raise
        except sqlite3.Error as error:
            raise translated(error) from error


def _undo(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
