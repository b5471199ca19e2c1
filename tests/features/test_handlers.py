"""A wrapper may supply parameters of a handler, on the loop and in threads: it hides them by its signature."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from packhorse import App, InvalidInput
from tests.features.factories import run


def supplied(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function its parameter ``database``."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call(*args: Any, **arguments: Any) -> Any:
            return await function(*args, **arguments, database="db")

    else:

        @functools.wraps(function)
        def call(*args: Any, **arguments: Any) -> Any:
            return function(*args, **arguments, database="db")

    signature = inspect.signature(function)
    parameters = [parameter for name, parameter in signature.parameters.items() if name != "database"]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


async def test_a_wrapper_supplies_a_parameter_that_callers_do_not_see(app: App):
    @app.task(name="on the loop")
    @supplied
    async def on_loop(order: str, *, database: str) -> str:
        return f"{order} in {database}"

    @app.task(name="in a thread")
    @supplied
    def in_thread(order: str, *, database: str) -> str:
        return f"{order} in {database}"

    handles = [await on_loop.enqueue("o-1"), await in_thread.enqueue("o-2")]
    await run(app)

    assert [await handle.result(1) for handle in handles] == ["o-1 in db", "o-2 in db"]
    with pytest.raises(InvalidInput, match="database"):
        await on_loop.enqueue("o-1", database="other")
