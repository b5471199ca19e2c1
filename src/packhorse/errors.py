"""Every error Packhorse raises on purpose; each message ends with what to do next."""

from collections.abc import Mapping


def _shown(value: object) -> str:
    """A value in a message: short, and never an error of its own."""
    try:
        text = ascii(value)
    except ValueError:  # a number with thousands of digits
        return f"a huge {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


class PackhorseError(Exception):
    """Base class of all errors of this package."""


class ConfigError(PackhorseError):
    """Wrong configuration or wrong use, found at start."""


class UnknownScheme(ConfigError):
    """A store address with an unknown scheme."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        super().__init__(
            f"The scheme {scheme!r} of the address is unknown: "
            "use sqlite:///file.db, sqlite:///:memory:, redis://…, valkey://… or postgresql://…"
        )


class MissingExtra(ConfigError):
    """A part of Packhorse whose optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs an optional dependency: pip install 'packhorse[{extra}]'")


class DuplicateTask(ConfigError):
    """Two tasks with the same name."""

    def __init__(self, task: str) -> None:
        self.task = task
        super().__init__(f"The task {task!r} is registered already: give one of the two another name")


class NoTransactions(ConfigError):
    """A task needs a transaction where none is possible."""

    def __init__(self, why: str) -> None:
        super().__init__(f"There is no transaction here: {why}")


class NotInAJob(ConfigError):
    """``current()`` was called outside of a job."""

    def __init__(
        self, why: str = "No job is running here: call this from a task's function, or code it calls, in a worker"
    ) -> None:
        super().__init__(why)


class InvalidInput(PackhorseError, ValueError):
    """A value was refused; nothing was stored."""


class InvalidName(InvalidInput):
    """A name of a queue, task, lane, key or stream that cannot be stored."""

    def __init__(self, what: str, value: object, why: str) -> None:
        self.what, self.value = what, value
        super().__init__(f"{what} {_shown(value)} is refused: {why}")


class InvalidId(InvalidInput):
    """An id that is neither 16 bytes nor the text of a UUID."""

    def __init__(self, value: object) -> None:
        self.value = value
        super().__init__(f"{_shown(value)} is not a job id: give 16 bytes or the text of a UUID")


class InvalidTime(InvalidInput):
    """An invalid moment or duration."""

    def __init__(self, what: str, value: object, why: str) -> None:
        self.what, self.value = what, value
        super().__init__(f"{what} {_shown(value)} is refused: {why}")


class InvalidSchedule(InvalidInput):
    """An invalid rule or policy of a schedule; found when the schedule is declared."""

    def __init__(self, rule: str, why: str) -> None:
        self.rule = rule
        super().__init__(f"The schedule {_shown(rule)} is refused: {why}")


class InvalidArguments(InvalidInput):
    """A value that cannot be stored as JSON text."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"This value cannot be stored: {why}")


class WrongArguments(InvalidArguments):
    """Arguments that a task's function does not take."""

    def __init__(self, task: str, why: object) -> None:
        self.task = task
        InvalidInput.__init__(self, f"{task}() does not take these arguments: {why}")


class InvalidResult(InvalidArguments):
    """What a task returned cannot be stored as JSON text."""

    def __init__(self, task: str, why: str) -> None:
        self.task = task
        InvalidInput.__init__(self, f"The result of {task}() cannot be stored: {why}")


class InvalidOption(InvalidInput):
    """An option outside its range, or options that contradict each other."""

    def __init__(self, what: str, value: object, why: str) -> None:
        self.what, self.value = what, value
        super().__init__(f"{what} {_shown(value)} is refused: {why}")


class EmptyFilter(InvalidInput):
    """An action on many jobs that would mean all of them, without saying so."""

    def __init__(self, action: str) -> None:
        self.action = action
        super().__init__(
            f"Nothing says which jobs to {action}: give at least one filter, such as queue= or task=, or ids=, or all=True "
            "if you mean all of them"
        )


class UnknownConnection(InvalidInput):
    """``within=`` got something that is not a supported connection or session, or cannot be used from here."""

    def __init__(self, value: object, why: str = "") -> None:
        self.value = value
        accepted = (
            "give a connection of sqlite3, aiosqlite, psycopg or asyncpg, a Session, AsyncSession, Connection or "
            "AsyncConnection of SQLAlchemy, or Django's connection"
        )
        super().__init__(f"within {_shown(value)} is refused: {why or accepted}")


class OtherDatabase(InvalidInput):
    """A connection given as ``within=`` to another database than the store's: one transaction cannot cover both."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}: give a connection to the database of the store, or enqueue without within= after the commit"
        )


class NoTransaction(InvalidInput):
    """A connection that commits every statement, so there is no transaction to be part of."""

    def __init__(self, how: str) -> None:
        super().__init__(f"The connection has no open transaction: {how}")


class WrongIsolation(InvalidInput):
    """A transaction whose isolation level hides what others have just committed: nothing can be settled in it."""

    def __init__(self, level: str) -> None:
        self.level = level
        super().__init__(
            f"The transaction is {level.upper()}, in which a settlement cannot see what others have just committed: use "
            "READ COMMITTED for tasks with transaction=, and lock the rows you read (FOR UPDATE) if you need more"
        )


class PayloadTooLarge(InvalidInput):
    """A payload, result, header block or value over its size limit."""

    def __init__(
        self, what: str, size: int, cap: int, remedy: str = "store the data elsewhere and pass a reference"
    ) -> None:
        self.what, self.size, self.cap = what, size, cap
        super().__init__(f"{what} has {size:,} bytes, the limit is {cap:,}: {remedy}")


class TooManyItems(InvalidInput):
    """More items in one call than a store handles in one step."""

    def __init__(self, what: str, count: int, cap: int) -> None:
        self.what, self.count, self.cap = what, count, cap
        super().__init__(f"{count:,} {what} in one call, the limit is {cap:,}: split the call")


class TooManyEffects(TooManyItems):
    """More effects in one settlement than a store writes in one step."""


class TooManyBytes(InvalidInput):
    """More bytes in one call than a store writes in one step."""

    def __init__(self, what: str, size: int, cap: int) -> None:
        self.what, self.size, self.cap = what, size, cap
        super().__init__(f"{what} of one call have {size:,} bytes together, the limit is {cap:,}: split the call")


class TooMuchEmitted(InvalidInput):
    """More pieces of one attempt than may wait for the commit of its transaction."""

    def __init__(self, count: int, max_count: int, size: int, max_size: int) -> None:
        self.count, self.max_count, self.size, self.max_size = count, max_count, size, max_size
        super().__init__(
            f"{count:,} effects of emit() with {size:,} bytes wait to be written with a transaction, the caps are "
            f"{max_count:,} and {max_size:,}: emit fewer pieces, or put the transaction into a job of its own"
        )


class JobError(PackhorseError):
    """Base class of errors about one job."""


class UndecodablePayload(JobError):
    """Stored bytes that cannot be decoded."""


class BadSignature(JobError):
    """Stored bytes with a wrong signature."""


class JobNotFound(JobError):
    """There is no job with this id, or it is no longer kept."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"There is no job {job_id}: it was never enqueued here, was removed, or is no longer kept")


class ScheduleNotFound(InvalidInput):
    """No schedule with this name is stored."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is no schedule {_shown(name)}: `packhorse schedules ls` lists the stored ones")


class JobFailed(JobError):
    """The job whose result you requested is dead."""

    def __init__(self, job_id: str, task: str, reason: str | None, error: str, traceback: str) -> None:
        self.job_id, self.task, self.reason, self.error, self.traceback = job_id, task, reason, error, traceback
        super().__init__(f"The job {job_id} ({task}) is dead as {reason}: {error or 'no error was recorded'}")


class JobCancelled(JobError):
    """The job whose result you requested was cancelled; ``why`` is its text if it raised ``Cancel``."""

    def __init__(self, job_id: str, task: str, why: str = "") -> None:
        self.job_id, self.task, self.why = job_id, task, why
        words = f" ({why})" if why else ""
        super().__init__(f"The job {job_id} ({task}) was cancelled{words}: enqueue it again if you still need it")


class ChildFailed(JobError):
    """A job cannot run because a job that it waited for was not done."""

    def __init__(self, job_id: str, how: str) -> None:
        self.job_id, self.how = job_id, how
        super().__init__(
            f"The job {job_id}, on which this one depends, ended as {how}: look at that job, or set on_failure="
        )


class RecordConflict(JobError):
    """A record that an attempt expected to be unchanged was changed meanwhile; nothing of the attempt was written."""

    def __init__(self) -> None:
        super().__init__("A record was changed by somebody else while this attempt ran: run it again")


class TransactionOver(JobError):
    """The transaction of an attempt was used after it had been committed or rolled back."""

    def __init__(self) -> None:
        super().__init__(
            "The transaction of this attempt has ended, nothing more can be written in it: end the attempt; it is tried again"
        )


class TransactionTooLong(JobError):
    """The transaction of an attempt blocked all other writers for too long and was rolled back."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"transaction-too-long: it was open for more than {seconds:g} s and was rolled back; do slow things before "
            "the first statement, or use PostgreSQL"
        )


class WorkerStuck(PackhorseError):
    """Every slot of a worker is held by an attempt that was cancelled and does not stop."""

    def __init__(self, slots: int) -> None:
        super().__init__(
            f"All {slots} slots are held by attempts that do not stop: restart the worker, and give such tasks "
            'run="process" so that they can be killed'
        )


class StoreError(PackhorseError):
    """Base class of errors of the store."""


class StoreUnavailable(StoreError):
    """The store was not reached or refused the call; nothing was written."""


class StoreFull(StoreUnavailable):
    """The store has no space for more jobs; nothing was written, and stored jobs are safe."""


class OutcomeUnknown(StoreError):
    """The connection broke before the answer: the write may or may not have happened. Repeat it with the same ids."""


class DurabilityNotMet(StoreError):
    """The settings of the store, or too few replicas, could lose acknowledged jobs."""


class SchemaMismatch(StoreError):
    """The layout of the store is older or newer than this release can use."""


class StoreDamaged(StoreError):
    """The file of the store was damaged, by the disk or by another program."""


class StoreClosed(StoreError):
    """A call on a store that is not open, or in a process forked after it was opened."""


class AddressRefused(InvalidInput):
    """An address of the web to which nothing is sent: it is not public, or not written as it must be."""

    def __init__(self, host: str, why: str) -> None:
        self.host = host
        super().__init__(f"Nothing is sent to {_shown(host)}: {why}")


class InvalidSignature(InvalidInput):
    """A request that was not signed with a known secret, or was signed too long ago."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The signature of this webhook is not accepted: {why}")


class DeliveryFailed(PackhorseError):
    """A target did not take an alert. ``status`` and ``headers`` are those of an HTTP response, if there was one."""

    def __init__(self, why: str, *, status: int | None = None, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.headers = status, dict(headers or {})
        super().__init__(f"The alert was not delivered: {why}")
