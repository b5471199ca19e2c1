"""The decorator that runs a function by rules."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from packhorse.jobs.task import AsyncTask, PlainTask, Task
from packhorse.model.rule import Rule
from packhorse.schedules.schedule import Policies

if TYPE_CHECKING:
    from packhorse.jobs.decorators import TaskMaker
    from packhorse.schedules.registry import Schedules

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Task[..., Any])


class Scheduling:
    """Declares schedules for a task, or for a function that it makes one."""

    def __init__(
        self, schedules: "Schedules", maker: "TaskMaker", rules: tuple[Rule, ...], name: str | None, options: Policies
    ) -> None:
        self._schedules, self._maker, self._rules, self._name, self._options = schedules, maker, rules, name, options

    @overload
    def __call__(self, function: T, /) -> T: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    def __call__(self, function: Callable[..., Any] | Task[..., Any], /) -> Any:
        """Declare the schedules; they are stored when a worker starts."""
        task: Task[..., Any] = function if isinstance(function, Task) else self._maker(function)
        self._schedules.add(task, self._rules, self._name, self._options)
        return task
