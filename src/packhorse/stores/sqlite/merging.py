"""Calls become one transaction: as many as fit into its time, each so that its failure is its own."""

import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable

from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.lease import Verdict
from packhorse.stores.contract import Topic
from packhorse.stores.sqlite.file import File
from packhorse.stores.sqlite.line import Call
from packhorse.stores.sqlite.step import SQL, Step
from packhorse.stores.sqlite.translate import full, translated, unsure
from packhorse.stores.sqlite.wakes import Wakes

MERGED_TIME = 50_000


class Merging:
    """Serves calls on a connection. ``clock`` rules, but never goes back behind the last moment that is stored."""

    def __init__(self, file: File, wakes: Wakes, *, clock: Clock, events: bool) -> None:
        self._file = file
        self._wakes = wakes
        self._clock = clock
        self._events = events

    def now(self) -> int:
        """The moment by the clock that rules."""
        return self._clock.now()

    def look(self, connection: sqlite3.Connection, call: Call) -> None:
        """Serve a call that only reads, in a snapshot of its own."""
        try:
            connection.execute("BEGIN")
            try:
                call.result = call.work(self._step(connection))
            finally:
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the caller gets it
            call.error = translated(error)

    def serve(self, connection: sqlite3.Connection, waiting: deque[Call]) -> list[Call]:
        """Serve calls from the head of the line in one transaction, as many as fit into its time."""
        served: list[Call] = []
        while waiting and self._skipped(connection, waiting[0]):
            served.append(waiting.popleft())
        if not waiting:
            return served
        written: list[Call] = []
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
            if full(error) and written and not written[0].again and self._file.make_room(connection):
                waiting.extendleft(call.once_more() for call in reversed(written))
                return served
            for call in written or [waiting.popleft()]:
                call.error = call.error or (unsure(error) if committing else translated(error))
                served.append(call)
            return served
        self._tell(step)
        return served + written

    def _alone(self, connection: sqlite3.Connection, waiting: deque[Call], written: list[Call]) -> Step:
        """Serve the one call there is: if it fails, so does the transaction, which is its own."""
        call = waiting.popleft()
        written.append(call)
        step = self._step(connection)
        call.result = call.work(step)
        step.finish(events=self._events)
        return step

    def _merged(self, connection: sqlite3.Connection, waiting: deque[Call], written: list[Call]) -> Step:
        """Serve calls one after the other, each in a savepoint."""
        begun = SYSTEM.steady()
        step = self._step(connection)
        work = ends = False
        while waiting and (not written or SYSTEM.steady() - begun < MERGED_TIME):
            call = waiting.popleft()
            written.append(call)
            step = self._one(connection, call, step)
            work, ends = work or step.work, ends or step.ends
        step.work, step.ends = work, ends
        return step

    def _one(self, connection: sqlite3.Connection, call: Call, before: Step) -> Step:
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
            undo(connection)
        self._tell(step)
        return verdict

    def finish(self, step: Step) -> None:
        """Write what a step gathered, and how far the numbers have come."""
        step.finish(events=self._events)
        step.run(SQL.set_moment, step.now, step.number)

    def _step(self, connection: sqlite3.Connection) -> Step:
        at, number = connection.execute(SQL.moment).fetchone()
        return Step(connection, max(at, self._clock.now()), number)

    def _tell(self, step: Step) -> None:
        if step.work:
            self._wakes.wake(Topic.WORK)
        if step.ends:
            self._wakes.wake(Topic.ENDS)


def undo(connection: sqlite3.Connection) -> None:
    """Roll back what is open, if something is."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
