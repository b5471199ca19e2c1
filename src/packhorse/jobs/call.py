"""A call of a task: its arguments and options, checked, to be enqueued, chained or scheduled."""

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack

import msgspec

from packhorse.errors import InvalidOption
from packhorse.jobs.options import NO_CALL_OPTIONS, CallKeywords, CallOptions, JobOptions, call_options
from packhorse.model.job import NewJob

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

R_co = TypeVar("R_co", covariant=True)


class CallTarget(Protocol):
    """A task, or the name of one, as calls see it."""

    @property
    def name(self) -> str:
        """The name that is stored and routed by."""

    @property
    def options(self) -> JobOptions:
        """Options of all its jobs."""

    @property
    def call_options(self) -> CallOptions:
        """Options of all its calls."""

    @property
    def client(self) -> "Client":
        """What builds and stores its jobs."""

    def unpack_result(self, result: bytes | None) -> Any:
        """Decode a stored result."""


class Call(msgspec.Struct, Generic[R_co], frozen=True, eq=False):
    """A task with its arguments, checked and ready to be enqueued, chained or scheduled."""

    target: CallTarget
    """The task, or the name of one."""
    payload: bytes
    """The arguments, as a JSON object."""
    options: CallOptions = NO_CALL_OPTIONS
    """The options of this call."""

    def using(self, **options: Unpack[CallKeywords]) -> "Call[R_co]":
        """Give the same call with more options."""
        return Call(self.target, self.payload, call_options(**options).over(self.options))

    def jobs(self) -> list[NewJob]:
        """Build its one job, to be enqueued when a running job ends."""
        if self.options.within is not None:
            why = "what is enqueued with the end of a job commits with that; leave within= out"
            raise InvalidOption("within", self.options.within, why)
        return [self.target.client.builder.build(self)]

    def __repr__(self) -> str:
        return f"<call of {self.target.name}>"


def no_call(given: object) -> InvalidOption:
    """Make the error for a value that is no call: it names what to write instead."""
    if inspect.iscoroutine(given):
        name = given.__name__
        given.close()
        return InvalidOption("call", name, f"calling a task runs it here: write {name}.call(…) instead of {name}(…)")
    if isinstance(given, Iterable):
        return InvalidOption("call", given, "give calls one by one: enqueue(*calls), group(*calls)")
    return InvalidOption("call", given, "give it with its arguments: task.call(…)")
