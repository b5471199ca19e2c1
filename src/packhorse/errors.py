"""Every error Packhorse raises on purpose; each message ends with what to do next."""


def _shown(value: object) -> str:
    """A value in a message: short, and never an error of its own."""
    try:
        text = ascii(value)
    except ValueError:  # a number with thousands of digits
        return f"a huge {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


class PackhorseError(Exception):
    """The root of all errors of this package."""


class ConfigError(PackhorseError):
    """Wrong use, found at start."""


class UnknownScheme(ConfigError):
    """A store address whose scheme no store serves."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        super().__init__(
            f"No store serves the scheme {scheme!r}: "
            "use sqlite:///file.db, sqlite:///:memory:, redis://…, valkey://… or postgresql://…"
        )


class MissingExtra(ConfigError):
    """A part of Packhorse whose optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs an optional dependency: pip install 'packhorse[{extra}]'")


class DuplicateTask(ConfigError):
    """Two tasks under one name."""

    def __init__(self, task: str) -> None:
        self.task = task
        super().__init__(f"The task {task!r} is registered already: give one of the two another name")


class NoTransactions(ConfigError):
    """A task that wants a transaction, where there cannot be one."""

    def __init__(self, why: str) -> None:
        super().__init__(f"There is no transaction here: {why}")


class NotInAJob(ConfigError):
    """The context of a job was asked for by code that runs in none."""

    def __init__(
        self, why: str = "No job is running here: call this from a task's function, or code it calls, in a worker"
    ) -> None:
        super().__init__(why)


class InvalidInput(PackhorseError, ValueError):
    """Refused at the edge; nothing was stored."""


class InvalidName(InvalidInput):
    """A queue, task, lane, key or stream name that no store may hold."""

    def __init__(self, what: str, value: object, why: str) -> None:
        self.what, self.value = what, value
        super().__init__(f"{what} {_shown(value)} is refused: {why}")


class InvalidId(InvalidInput):
    """An id that is neither 16 bytes nor the text of a UUID."""

    def __init__(self, value: object) -> None:
        self.value = value
        super().__init__(f"{_shown(value)} is no job id: give 16 bytes or the text of a UUID")


class InvalidTime(InvalidInput):
    """A moment or duration outside what a clock can mean."""

    def __init__(self, what: str, value: object, why: str) -> None:
        self.what, self.value = what, value
        super().__init__(f"{what} {_shown(value)} is refused: {why}")


class InvalidSchedule(InvalidInput):
    """A rule that means nothing, or a policy that does not exist; found when a schedule is declared."""

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


class UnknownConnection(InvalidInput):
    """Something given as ``within=`` that is no connection or session we know, or cannot be used from here."""

    def __init__(self, value: object, why: str = "") -> None:
        self.value = value
        accepted = (
            "give a connection of sqlite3, aiosqlite, psycopg or asyncpg, a Session, AsyncSession, Connection or "
            "AsyncConnection of SQLAlchemy, or Django's connection"
        )
        super().__init__(f"within {_shown(value)} is refused: {why or accepted}")


class OtherDatabase(InvalidInput):
    """A connection given as ``within=`` to another database than the store's: one transaction cannot hold both."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}: give a connection to the database of the store, or enqueue without within= after the commit"
        )


class NoTransaction(InvalidInput):
    """A connection that commits every statement by itself: there is nothing to be part of."""

    def __init__(self, how: str) -> None:
        super().__init__(f"The connection is in no transaction: {how}")


class WrongIsolation(InvalidInput):
    """A transaction whose isolation level hides what others have just committed: nothing can be settled in it."""

    def __init__(self, level: str) -> None:
        self.level = level
        super().__init__(
            f"The transaction is {level.upper()}, in which a settlement cannot see what others have just committed: use "
            "READ COMMITTED for tasks with transaction=, and lock the rows you read where you need more (FOR UPDATE)"
        )


class PayloadTooLarge(InvalidInput):
    """A payload, result, header block or value over its cap."""

    def __init__(
        self, what: str, size: int, cap: int, remedy: str = "store the data elsewhere and pass a reference"
    ) -> None:
        self.what, self.size, self.cap = what, size, cap
        super().__init__(f"{what} has {size:,} bytes, the cap is {cap:,}: {remedy}")


class TooManyItems(InvalidInput):
    """More items in one call than a store handles in one step."""

    def __init__(self, what: str, count: int, cap: int) -> None:
        self.what, self.count, self.cap = what, count, cap
        super().__init__(f"{count:,} {what} in one call, the cap is {cap:,}: split the call")


class TooManyEffects(TooManyItems):
    """More effects in one settlement than a store writes in one step."""


class TooManyBytes(InvalidInput):
    """More bytes in one call than a store writes in one step."""

    def __init__(self, what: str, size: int, cap: int) -> None:
        self.what, self.size, self.cap = what, size, cap
        super().__init__(f"{what} of one call have {size:,} bytes together, the cap is {cap:,}: split the call")


class JobError(PackhorseError):
    """About one job."""


class UndecodablePayload(JobError):
    """Stored bytes that the codec does not understand."""


class BadSignature(JobError):
    """Stored bytes whose signature does not fit them."""


class JobNotFound(JobError):
    """No job with this id, or not any more."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"There is no job {job_id}: it was never enqueued here, was removed, or is not kept any more")


class ScheduleNotFound(InvalidInput):
    """No schedule of this name is stored."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is no schedule {_shown(name)}: `packhorse schedules ls` shows those there are")


class JobFailed(JobError):
    """The job whose result was asked for is dead."""

    def __init__(self, job_id: str, task: str, reason: str | None, error: str, traceback: str) -> None:
        self.job_id, self.task, self.reason, self.error, self.traceback = job_id, task, reason, error, traceback
        super().__init__(f"The job {job_id} ({task}) is dead as {reason}: {error or 'no error was noted'}")


class JobCancelled(JobError):
    """The job whose result was asked for was cancelled; ``why`` is what it said if it cancelled itself."""

    def __init__(self, job_id: str, task: str, why: str = "") -> None:
        self.job_id, self.task, self.why = job_id, task, why
        words = f" ({why})" if why else ""
        super().__init__(f"The job {job_id} ({task}) was cancelled{words}: enqueue it again if it is still wanted")


class ChildFailed(JobError):
    """A job cannot run because one it waited for did not end well."""

    def __init__(self, job_id: str, how: str) -> None:
        self.job_id, self.how = job_id, how
        super().__init__(f"The job {job_id} before this one ended as {how}: look there, or choose on_failure=")


class RecordConflict(JobError):
    """A record that an attempt expected to be unchanged was changed meanwhile; nothing of the attempt was written."""

    def __init__(self) -> None:
        super().__init__("A record was changed by somebody else while this attempt ran: run it again")


class TransactionOver(JobError):
    """The transaction of an attempt was used after it had been committed or rolled back."""

    def __init__(self) -> None:
        super().__init__(
            "The transaction of this attempt is over, nothing more can be written in it: end the attempt, it is tried again"
        )


class TransactionTooLong(JobError):
    """The transaction of an attempt held up all other writers for too long and was rolled back."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"transaction-too-long: it was open for more than {seconds:g} s and was rolled back; do what takes time before "
            "the first statement, or use PostgreSQL"
        )


class WorkerStuck(PackhorseError):
    """Every slot of a worker is held by an attempt that was told to stop and does not."""

    def __init__(self, slots: int) -> None:
        super().__init__(
            f"All {slots} slots are held by attempts that do not stop: restart the worker, and give such tasks "
            'run="process" so that they can be killed'
        )


class StoreError(PackhorseError):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError):
    """The store was not reached or refused the call; nothing was written."""


class StoreFull(StoreUnavailable):
    """The store has no room for more jobs; nothing was written, and what is stored is safe."""


class OutcomeUnknown(StoreError):
    """The connection broke before the answer: the write may or may not have happened. Repeat it with the same ids."""


class DurabilityNotMet(StoreError):
    """The store's settings would lose acknowledged work."""


class SchemaMismatch(StoreError):
    """The stored layout is older or newer than this release understands."""


class StoreDamaged(StoreError):
    """The file of the store holds bytes that cannot be its own: the disk, or another program, has damaged it."""


class StoreClosed(StoreError):
    """A call on a store that is not open, or in a process forked after it was opened."""
