"""Signatures show every option with its type and default: they say the same as the options that are checked."""

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_type_hints

import pytest

from packhorse import App, Keep, Task, constant
from packhorse.jobs.decorators import TaskKeywords
from packhorse.jobs.options import NO_CALL_OPTIONS, NO_OPTIONS, CallKeywords, JobKeywords

OWN = {
    App.__init__: {"url", "namespace", "release", "middleware", "integrations", "migrate", "clock"},
    App.task: {"function"},
    App.queue: {"name", "per_key"},
    Task.using: set[str](),
}
DEFAULTS = {"aliases": (), "retry_on": (), "dead_on": (), "lane_on_dead": "continue", "transaction": False}
JOB = {
    "attempts": 3, "backoff": constant("1s"), "timeout": "5s", "priority": 1, "keep_done": 5, "keep_dead": Keep(age="1d"),
}  # fmt: skip
CALL = {
    "queue": "mail", "id": "one", "delay": "1h", "at": datetime(2099, 1, 1, tzinfo=UTC), "key": "k", "tenant": "t",
    "user": "u", "correlation_id": "c", "unique": "5m", "within": object(), "headers": {"shop": "north"}, **JOB,
}  # fmt: skip


@pytest.mark.parametrize(
    ("function", "options"),
    [(App.__init__, JobKeywords), (App.task, TaskKeywords), (App.queue, JobKeywords), (Task.using, CallKeywords)],
    ids=lambda given: given.__qualname__,
)
def test_a_signature_shows_every_option_with_its_type_and_default(function: Callable[..., Any], options: type):
    shown = {
        name: given
        for name, given in inspect.signature(function).parameters.items()
        if name not in {"self"} | OWN[function]
    }
    hints = get_type_hints(function)

    assert {name: hints[name] for name in shown} == get_type_hints(options)
    assert {given.kind for given in shown.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert {name: given.default for name, given in shown.items() if given.default is not None} == {
        name: default for name, default in DEFAULTS.items() if name in shown
    }


def test_the_options_of_these_tests_are_all_there_are():
    assert (set(JOB), set(CALL)) == (set(JobKeywords.__annotations__), set(get_type_hints(CallKeywords)))


@pytest.mark.parametrize("name", JOB)
def test_an_option_of_jobs_arrives_from_app_queue_and_task(name: str):
    app = App("sqlite:///:memory:")
    option = {name: JOB[name]}

    @app.task(**option)  # type: ignore[call-overload]
    async def work() -> None: ...

    assert App("sqlite:///:memory:", **option).client.builder.levels.merged("any") != NO_OPTIONS  # type: ignore[arg-type]
    assert app.queue("mail", **option).options != NO_OPTIONS  # type: ignore[arg-type]
    assert work.options != NO_OPTIONS


@pytest.mark.parametrize("name", CALL)
def test_an_option_of_a_call_arrives(name: str):
    @App("sqlite:///:memory:").task
    async def work() -> None: ...

    assert work.using(**{name: CALL[name]}).call().options != NO_CALL_OPTIONS  # type: ignore[arg-type]


def test_an_unknown_option_is_refused_with_the_nearest_name():
    app = App("sqlite:///:memory:")

    @app.task
    async def work() -> None: ...

    for refused in (
        lambda: App("sqlite:///:memory:", atempts=1),  # type: ignore[call-arg]
        lambda: app.task(atempts=1),  # type: ignore[call-overload]
        lambda: app.queue("mail", atempts=1),  # type: ignore[call-arg]
        lambda: work.using(atempts=1),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match=r"There is no option atempts=: did you mean attempts\?"):
            refused()
