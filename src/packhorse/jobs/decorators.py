"""The decorator that makes tasks of functions."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast, overload

from packhorse.engine.failures import Fingerprint
from packhorse.engine.policy import Kinds
from packhorse.engine.registry import Run
from packhorse.errors import InvalidOption
from packhorse.jobs.options import JobKeywords, Unique, call_options, check_names, job_options
from packhorse.jobs.task import AsyncTask, LaneOnDead, PlainTask, RunName, Task, make_task, name_of
from packhorse.model.duration import Duration

if TYPE_CHECKING:
    from packhorse.jobs.client import Client
    from packhorse.jobs.registry import AppRegistry

P = ParamSpec("P")
R = TypeVar("R")


class TaskKeywords(JobKeywords, total=False):
    """Options of a task as users write them."""

    name: str | None
    queue: str | None
    aliases: Sequence[str]
    retry_on: Kinds
    dead_on: Kinds
    unique: Unique | Duration | None
    run: Run | RunName | None
    lane_on_dead: LaneOnDead
    transaction: bool | Callable[[], Any]
    fingerprint: Fingerprint | None


class TaskMaker:
    """Makes tasks of functions, with options for all of them."""

    def __init__(self, client: "Client", registry: "AppRegistry", **options: Unpack[TaskKeywords]) -> None:
        check_names(options, TaskKeywords.__annotations__)
        self._client, self._registry = client, registry
        self._name = options.get("name")
        self._call_options = call_options(queue=options.get("queue"), unique=options.get("unique"))
        self._options = job_options(cast(JobKeywords, options))
        self._aliases = _tuple("aliases", options.get("aliases", ()), "names")
        self._retry_on = _tuple("retry_on", options.get("retry_on", ()), "exception classes")
        self._dead_on = _tuple("dead_on", options.get("dead_on", ()), "exception classes")
        self._run, self._lane_on_dead = options.get("run"), options.get("lane_on_dead", "continue")
        self._transaction = options.get("transaction", False)
        self._fingerprint = options.get("fingerprint")

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Register the function."""
        made: Task[..., Any] = make_task(
            self._client,
            function,
            name=self._name or name_of(function),
            call_options=self._call_options,
            options=self._options,
            aliases=self._aliases,
            retry_on=self._retry_on,
            dead_on=self._dead_on,
            run=self._run,
            lane_on_dead=self._lane_on_dead,
            transaction=self._transaction,
            fingerprint=self._fingerprint,
        )
        self._registry.add_task(made)
        return made


def _tuple(option: str, given: Any, what: str) -> tuple[Any, ...]:
    """Give the values of an option that takes several; one alone is refused, also a text, which is a sequence as well."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidOption(option, given, f"give a tuple of {what}")
    return tuple(given)
