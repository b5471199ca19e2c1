"""The decorators that make tasks of functions."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from packhorse.engine.policy import Kinds
from packhorse.engine.registry import Run
from packhorse.errors import InvalidOption
from packhorse.jobs import task as tasks
from packhorse.jobs.call import wish
from packhorse.jobs.options import Saying, Unique, check_names, options
from packhorse.jobs.task import AsyncTask, OnExhausted, PlainTask, RunName, Task
from packhorse.model.duration import Duration

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk
    from packhorse.jobs.registry import AppRegistry

P = ParamSpec("P")
R = TypeVar("R")


class TaskSaying(Saying, total=False):
    """What can be said about a task."""

    name: str | None
    queue: str | None
    aliases: Sequence[str]
    retry_on: Kinds
    dead_on: Kinds
    unique: Unique | Duration | None
    run: Run | RunName | None
    on_exhausted: OnExhausted
    transaction: bool | Callable[[], Any]


class TaskMaker:
    """Makes tasks of functions, with what is said about them."""

    def __init__(self, desk: "Desk", registry: "AppRegistry", **said: Unpack[TaskSaying]) -> None:
        self._desk, self._registry = desk, registry
        given: dict[str, Any] = dict(said)
        check_names(given, TaskSaying.__annotations__)
        self._name: str | None = given.pop("name", None)
        self._wish = wish(queue=given.pop("queue", None), unique=given.pop("unique", None))
        several = {"aliases": "names", "retry_on": "exception classes", "dead_on": "exception classes"}
        self._rest = {name: _several(name, given.pop(name, ()), what) for name, what in several.items()}
        self._rest |= {"run": given.pop("run", None), "on_exhausted": given.pop("on_exhausted", "skip")}
        self._rest["transaction"] = given.pop("transaction", False)
        self._options = options(**given)

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Register the function."""
        name = self._name or tasks.named(function)
        made: Task[..., Any] = tasks.make(
            self._desk, function, name=name, wish=self._wish, options=self._options, **self._rest
        )
        self._registry.add_task(made)
        return made


def _several(option: str, given: Any, what: str) -> tuple[Any, ...]:
    """The values of an option that takes several; one alone is refused, also a text, which is a sequence as well."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidOption(option, given, f"give a tuple of {what}")
    return tuple(given)
