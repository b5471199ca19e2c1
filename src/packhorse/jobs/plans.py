"""Plans: calls that run one after the other, side by side, or both, and are stored together, all or none.

A job that comes later is stored at once and waits in the store for those before it, so no plan is ever half there.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Protocol, TypeVar, cast, overload

import msgspec

from packhorse.errors import InvalidOption
from packhorse.jobs.call import Call, no_call
from packhorse.jobs.children import COLLECT, FanOut
from packhorse.jobs.client import Client
from packhorse.jobs.enqueue_request import EnqueueRequest
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.job import JobState
from packhorse.jobs.metadata import OnFailure
from packhorse.jobs.options import CallOptions
from packhorse.jobs.plan_builder import GroupStep, PlanBuilder, Steps, TaskStep, first_call
from packhorse.jobs.task import BoundTask
from packhorse.model import codec, limits
from packhorse.model.ids import JobId
from packhorse.model.job import NewJob, Receipt

if TYPE_CHECKING:
    from packhorse.jobs.sync import SyncPlan

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

Fails = Literal["fail", OnFailure.FAIL]
Skips = Literal["skip", OnFailure.SKIP]
GivesNone = Literal["none", OnFailure.NONE]

Unpack = Callable[[bytes | None], Any]


class Link(Protocol[A_contra, R_co]):
    """A task, or ``task.using(…)``, that can be called with one value: it takes the result of what runs before it."""

    def call(self, value: A_contra, /) -> Call[R_co]:
        """Make a call with that value."""

    def partial(self) -> Call[R_co]:
        """Make a call whose first argument comes when it runs."""

    @property
    def input_name(self) -> str:
        """The name of the parameter that takes the result before it."""


class OpenPlan(Generic[A_contra, R_co]):
    """A plan that begins with tasks instead of calls: it takes the result of what runs before it, inside a chain."""

    def __init__(self, steps: Steps, unpack: Unpack) -> None:
        self._steps, self._unpack = steps, unpack

    def __repr__(self) -> str:
        return f"<plan that takes the result before {first_call(self._steps).target.name}>"

    def jobs(self) -> NoReturn:
        """Refuse to be enqueued alone."""
        why = "it takes the result of what runs before it: put it behind a call in a chain, or give its tasks arguments"
        raise InvalidOption("plan", self, why)

    def enqueue(self) -> NoReturn:
        """Refuse to be enqueued alone."""
        self.jobs()


class Plan(Generic[R_co]):
    """Jobs that are enqueued together, all or none; the last to run gives the result of the whole."""

    def __init__(self, steps: Steps, unpack: Unpack) -> None:
        self._steps, self._unpack = steps, unpack
        self._client: Client = first_call(steps).target.client
        last = steps[-1]
        self._options = _options(last.call) if isinstance(last, TaskStep) else CallOptions()

    def __repr__(self) -> str:
        return f"<plan that begins with {first_call(self._steps).target.name}>"

    def jobs(self) -> list[NewJob]:
        """Build its jobs, the last to run first."""
        return PlanBuilder(self._client, self._steps, self._options).jobs()

    async def enqueue(self, *, within: object | None = None) -> "PlanHandle[R_co]":
        """Store all of it, and answer at once; ``within`` a connection of yours, as part of its transaction."""
        [handle] = await EnqueueRequest(self._client, [self], within).send()
        return cast(PlanHandle[R_co], handle)

    def enqueue_blocking(self, within: object | None) -> "PlanHandle[R_co]":
        """Store all of it from code without an event loop."""
        [handle] = EnqueueRequest(self._client, [self], within).send_blocking()
        return cast(PlanHandle[R_co], handle)

    @property
    def sync(self) -> "SyncPlan[R_co]":
        """The same for code without an event loop."""
        from packhorse.jobs.sync import SyncPlan

        return SyncPlan(self)

    def handle(self, receipts: Sequence[Receipt]) -> "PlanHandle[R_co]":
        """Make the handle of its stored jobs."""
        jobs = [receipt.id for receipt in receipts]
        return PlanHandle(self._client, jobs, created=receipts[0].created, unpack=self._unpack)


class PlanHandle(JobHandle[R_co]):
    """A plan that was enqueued: its result is that of its last job."""

    def __init__(self, client: Client, jobs: Sequence[JobId], *, created: bool, unpack: Unpack) -> None:
        super().__init__(client, jobs[0], created=created, unpack=unpack)
        self._jobs = tuple(jobs)

    async def cancel(self) -> JobState:
        """Cancel the whole plan, the last job first. Jobs that a worker has leased are asked to stop; no other begins."""
        jobs = (await self._client.store()).jobs
        states: list[Any] = []
        for some in _portions(self._jobs):
            states += await jobs.cancel(some)
        async for children in self._fanned_out(self._jobs):  # one that is not enqueued by now never will be
            await jobs.cancel(children)
        return JobState.UNKNOWN if states[0] is None else JobState(states[0].value)

    async def replay(self) -> bool:
        """Run again what is dead or cancelled of the whole plan; what is done stays done. False if nothing was."""
        jobs = (await self._client.store()).jobs
        known = [*self._jobs]
        async for children in self._fanned_out(self._jobs):
            known += children
        replayed: list[bool] = []
        for some in _portions(known[::-1]):  # a job waits again for those before it that were replayed
            replayed += await jobs.replay(some)
        return any(replayed)

    async def _fanned_out(self, jobs: Sequence[JobId]) -> AsyncIterator[list[JobId]]:
        """The jobs that collecting jobs enqueue when they run."""
        store = (await self._client.store()).jobs
        for some in _portions(jobs):
            for node in await store.get(some):
                if node is None or node.task != COLLECT:
                    continue
                children = [child.id for child in self._client.builder.open_payload(node, FanOut).jobs]
                if children:
                    yield children
                    async for others in self._fanned_out(children):
                        yield others


def _portions(jobs: Sequence[JobId]) -> list[Sequence[JobId]]:
    return [jobs[begin : begin + limits.ITEMS] for begin in range(0, len(jobs), limits.ITEMS)]


class Group(Plan[list[R_co]]):
    """Calls and plans that run side by side; the result is the list of theirs, in order."""

    def __init__(self, group: GroupStep, unpacks: Sequence[Unpack]) -> None:
        super().__init__((group,), _unpack_list(unpacks))

    def __repr__(self) -> str:
        return f"<group of {_count(self._steps)}>"


class OpenGroup(OpenPlan[A_contra, list[R_co]]):
    """Tasks that run side by side, each with the result of what runs before them."""

    def __init__(self, group: GroupStep, unpacks: Sequence[Unpack]) -> None:
        super().__init__((group,), _unpack_list(unpacks))

    def __repr__(self) -> str:
        return f"<group of {_count(self._steps)} that takes the result before them>"


Part = Call[A] | Plan[A]
Next = Link[A, B] | OpenPlan[A, B]


# Calls of several tasks give the union of what they return, as far as they are spelled out.
@overload
def group(first: Part[A], second: Part[B], /, *, on_failure: Fails | Skips = ...) -> Group[A | B]: ...
@overload
def group(
    first: Part[A], second: Part[B], third: Part[C], /, *, on_failure: Fails | Skips = ...
) -> Group[A | B | C]: ...
@overload
def group(
    first: Part[A], second: Part[B], third: Part[C], fourth: Part[D], /, *, on_failure: Fails | Skips = ...
) -> Group[A | B | C | D]: ...
@overload
def group(first: Part[R], /, *rest: Part[R], on_failure: Fails | Skips = ...) -> Group[R]: ...
@overload
def group(first: Part[R], /, *rest: Part[R], on_failure: GivesNone) -> Group[R | None]: ...
@overload
def group(first: Next[A, B], second: Next[A, C], /, *, on_failure: Fails | Skips = ...) -> OpenGroup[A, B | C]: ...
@overload
def group(first: Next[A, R], /, *rest: Next[A, R], on_failure: Fails | Skips = ...) -> OpenGroup[A, R]: ...
@overload
def group(first: Next[A, R], /, *rest: Next[A, R], on_failure: GivesNone) -> OpenGroup[A, R | None]: ...
def group(*parts: Any, on_failure: OnFailure | str = OnFailure.FAIL) -> Any:
    """Run calls and plans side by side; inside a chain, tasks too, each with the result of what runs before the group.

    ``on_failure`` is what a failed part means: "fail" fails the whole, "skip" leaves it out, "none" puts None in its place.
    """
    if not parts:
        raise InvalidOption("group", [], "give at least one call")
    found = [_part(part) for part in parts]
    for steps, _ in found:
        _check_inner(steps)
    is_open = [_takes_input(steps) for steps, _ in found]
    step = GroupStep(tuple(steps for steps, _ in found), _policy(on_failure))
    unpacks = [unpack for _, unpack in found]
    return OpenGroup(step, unpacks) if any(is_open) else Group(step, unpacks)


@overload
def chord(calls: Group[A], callback: Link[list[A], R]) -> Plan[R]: ...
@overload
def chord(calls: OpenGroup[A, B], callback: Link[list[B], R]) -> OpenPlan[A, R]: ...
def chord(calls: Any, callback: Any) -> Any:
    """Run a group, then a task with the list of its results as first argument."""
    if not isinstance(calls, (Group, OpenGroup)):
        raise InvalidOption("chord", calls, "give a group and a task: chord(group(a.call(1), b.call(2)), task)")
    return chain(calls, callback)


# A link must take what the one before it returns; where a failure becomes None, it must take None as well.
@overload
def chain(first: Part[A], second: Next[A, R], /, *, on_failure: Fails = ...) -> Plan[R]: ...
@overload
def chain(first: Part[A], second: Next[A, B], third: Next[B, R], /, *, on_failure: Fails = ...) -> Plan[R]: ...
@overload
def chain(
    first: Part[A], second: Next[A, B], third: Next[B, C], fourth: Next[C, R], /, *, on_failure: Fails = ...
) -> Plan[R]: ...
@overload
def chain(
    first: Part[A],
    second: Next[A, B],
    third: Next[B, C],
    fourth: Next[C, D],
    fifth: Next[D, R],
    /,
    *,
    on_failure: Fails = ...,
) -> Plan[R]: ...
@overload
def chain(first: Part[A], second: Next[A | None, R], /, *, on_failure: GivesNone) -> Plan[R]: ...
@overload
def chain(
    first: Part[A], second: Next[A | None, B], third: Next[B | None, R], /, *, on_failure: GivesNone
) -> Plan[R]: ...
@overload
def chain(
    first: Part[A],
    second: Next[A | None, B],
    third: Next[B | None, C],
    fourth: Next[C | None, R],
    /,
    *,
    on_failure: GivesNone,
) -> Plan[R]: ...
@overload
def chain(
    first: Part[A],
    second: Next[A | None, B],
    third: Next[B | None, C],
    fourth: Next[C | None, D],
    fifth: Next[D | None, R],
    /,
    *,
    on_failure: GivesNone,
) -> Plan[R]: ...
@overload
def chain(
    first: Part[Any],
    second: Next[Any, Any],
    third: Next[Any, Any],
    fourth: Next[Any, Any],
    fifth: Next[Any, Any],
    sixth: Next[Any, Any],
    /,
    *rest: Next[Any, Any],
    on_failure: Fails | GivesNone = ...,
) -> Plan[Any]: ...
@overload
def chain(first: Next[A, B], second: Next[B, R], /, *, on_failure: Fails = ...) -> OpenPlan[A, R]: ...
def chain(first: Any, /, *rest: Any, on_failure: OnFailure | str = OnFailure.FAIL) -> Any:
    """Run one after the other; each gets the result of the one before as its first argument.

    Groups, chords and chains may stand in the place of a task; behind the first, they are made of tasks, or of calls that
    do without the result before them.
    """
    policy = _policy(on_failure)
    if policy is OnFailure.SKIP:
        raise InvalidOption("on_failure", policy, 'a chain cannot leave out a link: give "fail" or "none"')
    if len(rest) >= limits.ITEMS:
        raise InvalidOption("chain", len(rest), f"give at most {limits.ITEMS - 1} links")
    steps, unpack = _part(first)
    for given in rest:
        following, unpack = _next(given)
        steps = (*steps, msgspec.structs.replace(following[0], on_failure=policy), *following[1:])
    _check_inner(steps[:-1])
    return OpenPlan(steps, unpack) if _takes_input(steps) else Plan(steps, unpack)


def _part(given: object) -> tuple[Steps, Unpack]:
    """The steps of what can run in a group, or first in a chain."""
    if isinstance(given, Call):
        return (TaskStep(given),), given.target.unpack_result
    if isinstance(given, (Plan, OpenPlan)):
        return given._steps, given._unpack
    if isinstance(given, BoundTask):
        call = given.partial()
        return (TaskStep(call, given.input_name),), call.target.unpack_result
    raise no_call(given)


def _next(given: object) -> tuple[Steps, Unpack]:
    """The steps of what can run in a chain, behind the first."""
    if isinstance(given, (BoundTask, OpenPlan)) or (isinstance(given, Plan) and isinstance(given._steps[0], GroupStep)):
        return _part(given)
    if inspect.iscoroutine(given):
        raise no_call(given)
    raise InvalidOption("plan", given, "give a task, or task.using(…): its first argument is the result before it")


def _check_inner(steps: Steps) -> None:
    """Refuse a call that could be one that is there already: what comes after it would wait for ever."""
    for step in steps:
        if isinstance(step, TaskStep) and (chosen := _options(step.call).id) is not None:
            raise InvalidOption(
                "id", chosen, "in a plan only the last job has an id, which is the id of the whole plan"
            )


def _options(call: Call[Any]) -> CallOptions:
    options = call.options.over(call.target.call_options)
    if options.unique is not None:
        why = "a job of a plan is waited for, so it cannot be left out; give the last one an id= instead"
        raise InvalidOption("unique", options.unique, why)
    if options.within is not None:
        raise InvalidOption("within", options.within, "a plan is enqueued as a whole: give plan.enqueue(within=…)")
    return options


def _policy(given: OnFailure | str) -> OnFailure:
    try:
        return OnFailure(given)
    except ValueError:
        raise InvalidOption("on_failure", given, 'give "fail", "skip" or "none"') from None


def _takes_input(steps: Steps) -> bool:
    first = steps[0]
    if isinstance(first, TaskStep):
        return first.input_name is not None
    return any(_takes_input(part) for part in first.parts)


def _count(steps: Steps) -> str:
    [step] = steps
    assert isinstance(step, GroupStep)
    return f"{len(step.parts)} calls"


def _unpack_list(unpacks: Sequence[Unpack]) -> Unpack:
    """Decode the list of results of a group, each by the type of its part."""

    def unpack(result: bytes | None) -> list[Any]:
        parts = msgspec.json.decode(result or b"[]", type=list[msgspec.Raw])
        if len(parts) != len(unpacks):  # some failed and were left out
            return [codec.decode(bytes(part)) for part in parts]
        return [
            None if bytes(part) == b"null" else unpack(bytes(part)) for part, unpack in zip(parts, unpacks, strict=True)
        ]

    return unpack
