"""What the engine calls: functions of tasks, handlers of queues and of batches. What is supplied to them is supplied here."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from packhorse.engine.attempt import Attempt, current_attempt
from packhorse.engine.registry import Arguments
from packhorse.errors import UndecodablePayload
from packhorse.jobs.batch import Batch, Handler, Message
from packhorse.jobs.job import readable


def call_of_task(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give what runs a task: the function itself, with the decoded arguments."""
    return function


def call_of_handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give what runs the handler of a queue, with the job."""
    if inspect.iscoroutinefunction(function):

        async def call() -> Any:
            return await function(readable(current_attempt().lease))

        return call
    return lambda: function(readable(current_attempt().lease))


def no_arguments(_payload: bytes) -> Arguments:
    """Decode nothing: the handler of a queue reads the job itself."""
    return (), {}


def call_of_batch(handler: Handler) -> Callable[[Sequence[Attempt]], Awaitable[None]]:
    """Give what runs a batch handler. Jobs whose payload cannot be read are dead, and no message of the batch."""

    async def call(attempts: Sequence[Attempt]) -> None:
        messages = []
        for attempt in attempts:
            try:
                messages.append(Message(attempt))
            except UndecodablePayload as error:
                attempt.conclude(error)
        if messages:
            await handler(Batch(messages))

    return call
