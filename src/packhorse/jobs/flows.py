"""Calls that belong together: one after the other, side by side, and what comes when all have ended.

A later job is stored at once and waits for its children in the store, so no flow is ever half there: whatever comes
before it is delivered to it, however it ends. A group of more than a few hundred is spread: jobs that enqueue their
part when they run, then wait for it.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, overload

import msgspec

from packhorse.errors import InvalidOption
from packhorse.jobs import sending
from packhorse.jobs.call import Call, Wish
from packhorse.jobs.desk import Desk
from packhorse.jobs.envelope import OnFailure, Shape
from packhorse.jobs.gather import GATHER, Gather, Spread
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.task import Using
from packhorse.jobs.view import Status
from packhorse.model import caps, codec
from packhorse.model.ids import JobId, chosen_id, new_id
from packhorse.model.job import NewJob, Receipt

if TYPE_CHECKING:
    from packhorse.jobs.sync import SyncFlow

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

Whole = Literal["fail", OnFailure.FAIL]
Without = Literal["skip", OnFailure.SKIP]
OrNone = Literal["none", OnFailure.NONE]

SPREAD = 400
SPREAD_BYTES = 600_000


class Link(Protocol[A_contra, R_co]):
    """A task, or ``task.using(…)``, that can be called with one value: it takes the result of what runs before it."""

    def call(self, value: A_contra, /) -> Call[R_co]:
        """A call with that value."""

    def later(self) -> Call[R_co]:
        """A call whose first argument comes when it runs."""

    @property
    def first_parameter(self) -> str:
        """The name under which it takes the result before it."""


class Flow(Generic[R_co]):
    """Jobs that are enqueued together, all or none; the first of them stands for the whole."""

    def __init__(self, desk: Desk, plan: Callable[[], list[NewJob]], unpack: Callable[[bytes | None], Any]) -> None:
        self._desk, self._plan, self._unpack = desk, plan, unpack

    def jobs(self) -> list[NewJob]:
        """The jobs it is made of, the last to run first."""
        return self._plan()

    async def enqueue(self, *, within: object | None = None) -> "FlowHandle[R_co]":
        """Store all of it, and answer at once; ``within`` a connection of yours, as part of its transaction."""
        return self.handle(await sending.send(self._desk, self.jobs(), within))

    @property
    def sync(self) -> "SyncFlow[R_co]":
        """The same for code without an event loop."""
        from packhorse.jobs.sync import SyncFlow

        return SyncFlow(self)

    def handle(self, receipts: Sequence[Receipt]) -> "FlowHandle[R_co]":
        """The handle of what came of it."""
        jobs = [receipt.id for receipt in receipts]
        return FlowHandle(self._desk, jobs, created=receipts[0].created, unpack=self._unpack)


class FlowHandle(JobHandle[R_co]):
    """A flow that was enqueued: its result is that of its last job."""

    def __init__(
        self, desk: Desk, jobs: Sequence[JobId], *, created: bool, unpack: Callable[[bytes | None], Any]
    ) -> None:
        super().__init__(desk, jobs[0], created=created, unpack=unpack)
        self._jobs = tuple(jobs)

    async def cancel(self) -> Status:
        """Cancel the whole flow, the last job first, so that nothing of it begins any more."""
        jobs = (await self._desk.store()).jobs
        states = await jobs.cancel(self._jobs)
        async for children in self._spread():  # one that is not enqueued by now never will be
            await jobs.cancel(children)
        return Status.UNKNOWN if states[0] is None else Status(states[0].value)

    async def replay(self) -> bool:
        """Run again what is dead or cancelled of the whole flow; what is done stays done. False if nothing was."""
        jobs = (await self._desk.store()).jobs
        replayed = [answer async for children in self._spread() for answer in await jobs.replay(children)]
        return any([*replayed, *await jobs.replay(self._jobs)])

    async def _spread(self) -> AsyncIterator[list[JobId]]:
        """The jobs that a large group enqueues when it runs, part by part."""
        jobs = (await self._desk.store()).jobs
        for node in await jobs.get(self._jobs[1:]):
            if node is not None and node.task == GATHER:
                yield [child.id for child in self._desk.open(node, Spread).jobs]


class Group(Flow[list[R_co]]):
    """Calls that run side by side; the result is the list of theirs, in order."""

    def __init__(self, calls: Sequence[Call[R_co]], on_failure: OnFailure) -> None:
        if not calls:
            raise InvalidOption("group", [], "give at least one call")
        for call in calls:
            _part(_call(call))
        if len(calls) > SPREAD and (most := max(len(call.payload) for call in calls)) > SPREAD_BYTES:
            why = f"a call has {most:,} bytes of arguments, with more than {SPREAD} calls the cap is {SPREAD_BYTES:,}"
            raise InvalidOption("group", f"of {len(calls)}", f"{why}: pass a reference, or make smaller groups")
        self.calls, self.on_failure = tuple(calls), on_failure
        desk = calls[0].target.desk
        super().__init__(desk, self._alone, self._unpacked)

    def _alone(self) -> list[NewJob]:
        return self.before(Call(Gather(self._desk), codec.encode(Spread()), _beside(self.calls[0])), "results")

    def _unpacked(self, result: bytes | None) -> list[Any]:
        parts = msgspec.json.decode(result or b"[]", type=list[msgspec.Raw])
        if len(parts) != len(self.calls):  # some failed and were left out
            return [codec.decode(bytes(part)) for part in parts]
        return [
            None if bytes(part) == b"null" else call.target.unpack_result(bytes(part))
            for call, part in zip(self.calls, parts, strict=True)
        ]

    def before(self, last: Call[Any], name: str) -> list[NewJob]:
        """The jobs of this group and of the call that gets their results under this name."""
        head, desk = _head(last), self._desk
        if len(self.calls) <= SPREAD:
            shape = Shape(name, len(self.calls), many=True, on_failure=self.on_failure)
            ids = _ids(last, len(self.calls))
            children = [
                desk.job(call, id=one, parent=head, chain=head) for call, one in zip(self.calls, ids, strict=True)
            ]
            return [desk.job(last, id=head, children=len(children), flow=shape), *children]
        parts = list(_parts(self.calls))
        sizes = tuple(len(part) for part in parts)
        shape = Shape(name, len(parts), many=True, sizes=sizes, on_failure=self.on_failure)
        nodes = []
        for part, many in zip(parts, _ids(last, len(parts)), strict=True):
            ids = sorted(new_id() for _ in part)
            jobs = tuple(desk.job(call, id=one, parent=many, chain=head) for call, one in zip(part, ids, strict=True))
            node: Call[Any] = Call(Gather(desk), codec.encode(Spread(jobs)), _beside(last))
            inner = Shape("results", len(part), many=True, on_failure=self.on_failure)
            nodes.append(desk.job(node, id=many, parent=head, chain=head, flow=inner))
        return [desk.job(last, id=head, children=len(nodes), flow=shape), *nodes]


# Calls of several tasks give the union of what they return, as far as they are spelled out.
@overload
def group(first: Call[A], second: Call[B], /, *, on_failure: Whole | Without = ...) -> Group[A | B]: ...
@overload
def group(
    first: Call[A], second: Call[B], third: Call[C], /, *, on_failure: Whole | Without = ...
) -> Group[A | B | C]: ...
@overload
def group(
    first: Call[A], second: Call[B], third: Call[C], fourth: Call[D], /, *, on_failure: Whole | Without = ...
) -> Group[A | B | C | D]: ...
@overload
def group(first: Call[R], /, *rest: Call[R], on_failure: Whole | Without = ...) -> Group[R]: ...
@overload
def group(first: Call[R], /, *rest: Call[R], on_failure: OrNone) -> Group[R | None]: ...
def group(*calls: Call[Any], on_failure: OnFailure | str = OnFailure.FAIL) -> Group[Any]:
    """Run calls side by side. ``on_failure``: "fail" fails the whole, "skip" leaves out, "none" puts None in its place."""
    return Group(calls, _policy(on_failure))


def chord(calls: Group[A], callback: Link[list[A], R]) -> Flow[R]:
    """Run a group, then a task with the list of its results as first argument."""
    if not isinstance(calls, Group):
        raise InvalidOption("chord", calls, "give a group and a task: chord(group(a.call(1), b.call(2)), task)")
    last = _later(callback)
    return Flow(last.target.desk, lambda: calls.before(last, callback.first_parameter), last.target.unpack_result)


# A link must take what the one before it returns; where a failure becomes None, it must take None as well.
@overload
def chain(first: Call[A], second: Link[A, R], /, *, on_failure: Whole = ...) -> Flow[R]: ...
@overload
def chain(first: Call[A], second: Link[A, B], third: Link[B, R], /, *, on_failure: Whole = ...) -> Flow[R]: ...
@overload
def chain(
    first: Call[A], second: Link[A, B], third: Link[B, C], fourth: Link[C, R], /, *, on_failure: Whole = ...
) -> Flow[R]: ...
@overload
def chain(
    first: Call[A],
    second: Link[A, B],
    third: Link[B, C],
    fourth: Link[C, D],
    fifth: Link[D, R],
    /,
    *,
    on_failure: Whole = ...,
) -> Flow[R]: ...
@overload
def chain(first: Call[A], second: Link[A | None, R], /, *, on_failure: OrNone) -> Flow[R]: ...
@overload
def chain(first: Call[A], second: Link[A | None, B], third: Link[B | None, R], /, *, on_failure: OrNone) -> Flow[R]: ...
@overload
def chain(
    first: Call[A],
    second: Link[A | None, B],
    third: Link[B | None, C],
    fourth: Link[C | None, R],
    /,
    *,
    on_failure: OrNone,
) -> Flow[R]: ...
@overload
def chain(
    first: Call[A],
    second: Link[A | None, B],
    third: Link[B | None, C],
    fourth: Link[C | None, D],
    fifth: Link[D | None, R],
    /,
    *,
    on_failure: OrNone,
) -> Flow[R]: ...
@overload
def chain(
    first: Call[Any],
    second: Link[Any, Any],
    third: Link[Any, Any],
    fourth: Link[Any, Any],
    fifth: Link[Any, Any],
    sixth: Link[Any, Any],
    /,
    *rest: Link[Any, Any],
    on_failure: Whole | OrNone = ...,
) -> Flow[Any]: ...
def chain(first: Call[Any], /, *rest: Link[Any, Any], on_failure: OnFailure | str = OnFailure.FAIL) -> Flow[Any]:
    """Run one after the other; each gets the result of the one before as its first argument."""
    policy = _policy(on_failure)
    if policy is OnFailure.SKIP:
        raise InvalidOption("on_failure", policy, 'a chain cannot leave out a link: say "fail" or "none"')
    if len(rest) >= caps.ITEMS:
        raise InvalidOption("chain", len(rest), f"give at most {caps.ITEMS - 1} links")
    links = [_call(first), *(_later(task) for task in rest)]
    names = ["", *(task.first_parameter for task in rest)]
    *before, last = links
    for call in before:
        _part(call)

    def plan() -> list[NewJob]:
        head = _head(last)
        jobs: list[NewJob] = []
        parent: JobId | None = None
        for number, job in zip(range(len(links) - 1, -1, -1), [head, *_ids(last, len(before))], strict=True):
            shape = Shape(names[number], on_failure=policy) if number else None
            call, children = links[number], 1 if number else 0
            jobs.append(call.target.desk.job(call, id=job, parent=parent, children=children, chain=head, flow=shape))
            parent = job
        return jobs

    return Flow(first.target.desk, plan, last.target.unpack_result)


def _call(given: object) -> Call[Any]:
    """Refuse what is no call, and say what to write instead."""
    if isinstance(given, Call):
        return given
    if inspect.iscoroutine(given):
        name = given.__name__
        given.close()
        raise InvalidOption("call", name, f"calling a task runs it here: write {name}.call(…) instead of {name}(…)")
    if isinstance(given, Flow):
        why = "flows cannot be put into one another yet: enqueue the inner one from a task, with current().enqueue"
        raise InvalidOption("flow", given, why)
    if isinstance(given, Using):
        raise InvalidOption("call", given, "give it with its arguments: task.call(…)")
    if isinstance(given, Iterable):
        raise InvalidOption("call", given, "give calls one by one: group(*calls)")
    raise InvalidOption("call", given, "give a call: task.call(…)")


def _later(task: Link[Any, R]) -> Call[R]:
    """A call whose first argument comes when it runs."""
    if isinstance(task, Using):
        return task.later()
    given: object = task
    if isinstance(given, Flow) or inspect.iscoroutine(given):
        _call(given)
    raise InvalidOption("flow", given, "give a task, or task.using(…): its first argument is the result before it")


def _policy(given: OnFailure | str) -> OnFailure:
    try:
        return OnFailure(given)
    except ValueError:
        raise InvalidOption("on_failure", given, 'say "fail", "skip" or "none"') from None


def _beside(call: Call[Any]) -> Wish:
    """What is said about a job that does nothing but wait for others: it stands in the same queue, for the same people."""
    said = call.wish.over(call.target.wish)
    return Wish(queue=said.queue, tenant=said.tenant, user=said.user, correlation=said.correlation)


def _said(call: Call[Any]) -> Wish:
    said = call.wish.over(call.target.wish)
    if said.unique is not None:
        why = "a job of a flow is waited for, so it cannot be left out; give the last one an id= instead"
        raise InvalidOption("unique", said.unique, why)
    if said.within is not None:
        raise InvalidOption("within", said.within, "a flow is enqueued as a whole: say flow.enqueue(within=…)")
    return said


def _part(call: Call[Any]) -> None:
    """Refuse a call that could be one that is there already: what comes after it would wait for ever."""
    if (chosen := _said(call).id) is not None:
        raise InvalidOption("id", chosen, "in a flow only the last job has an id, which stands for the whole")


def _head(last: Call[Any]) -> JobId:
    """The id of the last job, and so of the flow."""
    chosen = _said(last).id
    return new_id() if chosen is None else chosen_id(last.target.desk.namespace, chosen)


def _ids(last: Call[Any], count: int) -> list[JobId]:
    """Ids for the jobs before the last, in order: what children leave is read in that order.

    If the last has a chosen id, theirs come of it: the whole flow is there once, however often it is enqueued.
    """
    chosen = _said(last).id
    if chosen is None:
        return sorted(new_id() for _ in range(count))
    return sorted(chosen_id(last.target.desk.namespace, chosen, str(number)) for number in range(count))


def _parts(calls: Sequence[Call[Any]]) -> Iterator[list[Call[Any]]]:
    part: list[Call[Any]] = []
    size = 0
    for call in calls:
        if part and (len(part) == SPREAD or size + len(call.payload) > SPREAD_BYTES):
            yield part
            part, size = [], 0
        part.append(call)
        size += len(call.payload) + 500  # what stands beside the payload
    yield part
