"""Calls become one transaction: as many as fit into its time, each so that its failure is its own."""

import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable

from packhorse.errors import StoreDamaged
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.lease import Verdict
from packhorse.model.limits import SECOND
from packhorse.stores.contract import Topic
from packhorse.stores.sqlite.call_queue import PendingCall
from packhorse.stores.sqlite.errors import busy, full, translated, unsure
from packhorse.stores.sqlite.file import BUSY_SECONDS, File
from packhorse.stores.sqlite.notices import EVENTS
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork
from packhorse.stores.sqlite.wakes import SQLiteWakes

MAX_BATCH_US = 50_000


class WriteBatch:
    """Serves calls on a connection. ``clock`` rules, but time never goes back behind the last moment that is stored."""

    def __init__(self, file: File, wakes: SQLiteWakes, *, clock: Clock, events: bool) -> None:
        self._file = file
        self._wakes = wakes
        self._clock = clock
        self._events = events
        self._ahead: tuple[int, int] | None = (
            None  # a stored moment ahead of the clock, and when it was seen (steady clock)
        )

    def now(self) -> int:
        """The moment by the clock that rules."""
        return self._clock.now()

    def look(self, connection: sqlite3.Connection, call: PendingCall) -> None:
        """Serve a call that only reads, in a snapshot of its own."""
        try:
            connection.execute("BEGIN")
            try:
                call.result = call.work(self._step(connection))
            finally:
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the caller gets it
            call.error = translated(error)

    def serve(self, connection: sqlite3.Connection, waiting: deque[PendingCall]) -> list[PendingCall]:
        """Serve calls from the head of the queue in one transaction, as many as fit into its time.

        While another program writes, none is served but those that have waited long enough for it, which fail together.
        """
        served: list[PendingCall] = []
        try:
            self._file.check()
        except StoreDamaged as error:
            served.extend(waiting)
            waiting.clear()
            for call in served:
                call.error = error
            return served
        while waiting and self._skipped(connection, waiting[0]):
            served.append(waiting.popleft())
        if not waiting:
            return served
        written: list[PendingCall] = []
        committing = False
        try:
            with self._file.lock:
                connection.execute("BEGIN IMMEDIATE")
                step = (self._alone if len(waiting) == 1 else self._merged)(connection, waiting, written)
                connection.execute(SQL.set_moment, (step.now, step.number))
                committing = True
                connection.execute("COMMIT")
                committing = False
                self._file.shorten(connection)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            undo(connection)
            if busy(error) and not written:
                return served + _given_up(waiting, translated(error))
            if full(error) and written and not written[0].again and self._file.make_room(connection):
                waiting.extendleft(call.retry() for call in reversed(written))
                return served
            for call in written or [waiting.popleft()]:
                call.error = call.error or (unsure(error) if committing else translated(error))
                served.append(call)
            return served
        self._tell(step)
        return served + written

    def _alone(
        self, connection: sqlite3.Connection, waiting: deque[PendingCall], written: list[PendingCall]
    ) -> UnitOfWork:
        """Serve the one call there is: if it fails, so does the transaction, which is its own."""
        call = waiting.popleft()
        written.append(call)
        step = self._step(connection)
        call.result = call.work(step)
        step.finish(events=self._events)
        return step

    def _merged(
        self, connection: sqlite3.Connection, waiting: deque[PendingCall], written: list[PendingCall]
    ) -> UnitOfWork:
        """Serve calls one after the other, each in a savepoint."""
        begun = SYSTEM.steady()
        step = self._step(connection)
        work = ends = published = False
        while waiting and (not written or SYSTEM.steady() - begun < MAX_BATCH_US):
            call = waiting.popleft()
            written.append(call)
            step = self._one(connection, call, step)
            work, ends, published = work or step.work, ends or step.ends, published or step.published
        step.work, step.ends, step.published = work, ends, published
        return step

    def _one(self, connection: sqlite3.Connection, call: PendingCall, before: UnitOfWork) -> UnitOfWork:
        step = UnitOfWork(connection, before.now, before.number)
        connection.execute("SAVEPOINT verb")
        try:
            call.result = call.work(step)
            step.finish(events=self._events)
        except Exception as error:
            call.error = translated(error)
            if not connection.in_transaction:  # a full disk ends the whole transaction, not just this verb
                raise
            connection.execute("ROLLBACK TO verb")
            step = UnitOfWork(connection, before.now, before.number)
        connection.execute("RELEASE verb")
        return step

    def _skipped(self, connection: sqlite3.Connection, call: PendingCall) -> bool:
        if call.skip is None:
            return False
        try:
            call.result = call.skip(self._step(connection))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            if busy(error):
                return False  # it waits as a write does
            call.error = translated(error)
            return True
        return call.result is not None

    def settle(self, connection: sqlite3.Connection, work: Callable[[UnitOfWork], Verdict]) -> Verdict:
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
            undo(connection)
        self._tell(step)
        return verdict

    def finish(self, step: UnitOfWork) -> None:
        """Write what a step gathered, and how far the numbers have come."""
        step.finish(events=self._events)
        step.run(SQL.set_moment, step.now, step.number)

    def _step(self, connection: sqlite3.Connection) -> UnitOfWork:
        at, number = connection.execute(SQL.moment).fetchone()
        return UnitOfWork(connection, self.moment(at), number)

    def moment(self, stored: int) -> int:
        """What time it is, if this is the last moment that was stored.

        While that is ahead of the clock, time goes on from there by the steady clock, a tenth slower, until the clock
        has caught up: if it stood still, no delay and no lease would end.
        """
        now = self._clock.now()
        if now >= stored and self._ahead is None:
            return now
        steady = self._clock.steady()
        since, seen = self._ahead or (stored, steady)
        moment = since + (steady - seen) * 9 // 10
        if stored > moment:  # another process is further
            since, seen, moment = stored, steady, stored
        self._ahead = (since, seen) if moment > now else None
        return max(moment, now)

    def _tell(self, step: UnitOfWork) -> None:
        if step.work:
            self._wakes.wake(Topic.WORK)
        if step.ends:
            self._wakes.wake(Topic.ENDS)
        if step.published:
            self._wakes.wake(EVENTS)
        elif self._wakes.event_listeners:  # they may read the lifecycle, of which no notice is left for other processes
            self._wakes.wake_here(EVENTS)


def _given_up(waiting: deque[PendingCall], error: BaseException) -> list[PendingCall]:
    """Remove calls from the queue that have waited long enough for another program."""
    now = SYSTEM.steady()
    for call in waiting:
        call.refused = call.refused or now
    late = [call for call in waiting if now - call.refused >= BUSY_SECONDS * SECOND]
    for call in late:
        waiting.remove(call)
        call.error = error
    return late


def undo(connection: sqlite3.Connection) -> None:
    """Roll back what is open, if something is."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
