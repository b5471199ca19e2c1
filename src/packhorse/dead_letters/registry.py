"""``app.dead_letters``: registers handlers of dead letters, and other consumers of deaths."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from packhorse.dead_letters.consumer import DeathConsumer
from packhorse.dead_letters.groups import GroupCounter
from packhorse.dead_letters.handler import LetterConsumer, LetterHandler, call_of_letter
from packhorse.dead_letters.reader import DeathReader
from packhorse.dead_letters.seen import SeenMarks
from packhorse.engine.caretaker import Duty
from packhorse.errors import ConfigError
from packhorse.jobs.task import name_of
from packhorse.model import limits
from packhorse.model.backoff import Backoff, constant
from packhorse.model.duration import Duration
from packhorse.stores.contract import Store

if TYPE_CHECKING:
    from packhorse.jobs.client import Client
    from packhorse.system_queue import SystemQueue

F = TypeVar("F", bound=LetterHandler)

LOOK_PERIOD_US = limits.SECOND
ATTEMPTS = 3
BACKOFF = constant("1m")


class DeadLetterHandlers:
    """Consumers of deaths. Without any, no process looks for deaths."""

    def __init__(self, client: "Client", system: "SystemQueue", seen: SeenMarks) -> None:
        self._client, self._system, self._seen = client, system, seen
        self._consumers: dict[str, DeathConsumer] = {}

    def __call__(
        self,
        queue: str | None = None,
        *,
        name: str | None = None,
        attempts: int = ATTEMPTS,
        backoff: Backoff = BACKOFF,
        timeout: Duration | None = None,
    ) -> Callable[[F], F]:
        """Have a function called with the ``DeadLetter`` of each job that dies, of one queue or of all.

        Each death is one job for each handler. The handler's own failure is retried, and makes no letter. Without
        ``name``, the handler is known by the place of its function; the first process that declares a name gets the dead
        jobs that are kept.
        """
        if callable(queue):
            raise ConfigError("Write the decorator with parentheses: @app.dead_letters()")
        if queue is not None:
            limits.not_reserved("queue", queue)

        def register(function: F) -> F:
            self._add_handler(function, queue, name or name_of(function), attempts, backoff, timeout)
            return function

        return register

    def _add_handler(
        self,
        function: LetterHandler,
        queue: str | None,
        name: str,
        attempts: int,
        backoff: Backoff,
        timeout: Duration | None,
    ) -> None:
        call = call_of_letter(self._client, function, self._seen)
        task = self._system.task(name=f"letter:{name}", attempts=attempts, backoff=backoff, timeout=timeout)(call)
        self.add_consumer(LetterConsumer(self._client, name, task, queue))

    def add_consumer(self, consumer: DeathConsumer) -> None:
        """Let something else consume deaths too; workers that start from now on do it."""
        if consumer.name in self._consumers:
            raise ConfigError(f"Deaths have a consumer {consumer.name!r} already: choose another name")
        if not self._consumers:
            counter = GroupCounter()
            self._consumers[counter.name] = counter
            self._system.require()
            self._system.add_duty(self._duty)
        self._consumers[consumer.name] = consumer

    def _duty(self, store: Store) -> Duty:
        return Duty("read deaths", LOOK_PERIOD_US, DeathReader(store, tuple(self._consumers.values())).look)
