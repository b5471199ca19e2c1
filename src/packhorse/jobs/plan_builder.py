"""Builds the jobs of a plan: a tree in which every job waits in the store for its children.

The last task of a plan is the root, the head of all its jobs; what it takes results from are its children. Two things do
not fit into such a tree and become jobs of the built-in task ``COLLECT``: a group that is not followed by a task (it
waits for its parts and gives the list of their results), and jobs that must not exist yet, because a group is too large to be
stored in one step or takes the result of what runs before it (it enqueues them when it runs, then waits for them).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.errors import InvalidOption
from packhorse.jobs.call import Call
from packhorse.jobs.children import CollectTask, FanOut, Input
from packhorse.jobs.metadata import OnFailure, ResultBinding
from packhorse.jobs.options import CallOptions
from packhorse.model import codec, limits
from packhorse.model.ids import JobId, child_ids, chosen_id, new_id
from packhorse.model.job import NewJob

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

FAN_OUT_JOBS = 400
FAN_OUT_BYTES = 600_000
JOB_BYTES = 500  # what a job takes beside its payload


class TaskStep(msgspec.Struct, frozen=True):
    """A task of a plan. ``input_name`` is the parameter that takes the result before it; None if it takes none."""

    call: Call[Any]
    input_name: str | None = None
    on_failure: OnFailure = OnFailure.FAIL
    """What a failure of the step before it means."""


class GroupStep(msgspec.Struct, frozen=True):
    """Parts of a plan that run side by side; the result is the list of theirs."""

    parts: tuple["Steps", ...]
    failed_parts: OnFailure
    """What a failure of a part means."""
    on_failure: OnFailure = OnFailure.FAIL
    """What a failure of the step before it means."""


Steps = tuple[TaskStep | GroupStep, ...]


def first_call(steps: Steps) -> Call[Any]:
    """The first call of steps."""
    first = steps[0]
    return first.call if isinstance(first, TaskStep) else first_call(first.parts[0])


class _Node:
    """A job to be built, with the jobs it waits for and those it enqueues when it runs."""

    def __init__(self, call: Call[Any], children: "Sequence[_Node]" = (), results: ResultBinding | None = None) -> None:
        self.call, self.children, self.results = call, tuple(children), results
        self.fan_out: tuple[_Node, ...] = ()
        self.waits_for_input = OnFailure.FAIL
        self.input_name: str | None = None  # where nothing else is bound: the result of what enqueues it

    def tree(self) -> "Iterator[_Node]":
        """This node and all below it, as they are stored."""
        yield self
        for child in self.children:
            yield from child.tree()

    @property
    def size(self) -> int:
        """How many jobs are stored for it."""
        return sum(1 for _ in self.tree())

    @property
    def payload_bytes(self) -> int:
        """How many bytes its jobs have, about."""
        return sum(len(node.call.payload) + JOB_BYTES for node in self.tree())


class PlanBuilder:
    """Builds the jobs of one plan. The id of each job comes from that of the job that waits for it."""

    def __init__(self, client: "Client", steps: Steps, options: CallOptions) -> None:
        self._client, self._steps, self._options = client, steps, options

    def jobs(self) -> list[NewJob]:
        """Build the jobs, the head first, each before the jobs it waits for."""
        head = self._id() or new_id()
        return self._stored(self._node(self._steps, None), head, None, chain=head)

    # -- nodes

    def _node(self, steps: Steps, beside: Call[Any] | None) -> _Node:
        """The node of the last of these steps; jobs that only wait have the options of the call behind them, if there is one."""
        *before, last = steps
        if isinstance(last, GroupStep):
            return self._group(last, tuple(before), beside or first_call((last,)))
        if not before:
            node = _Node(last.call)
            node.input_name = last.input_name
            return node
        assert last.input_name is not None
        [*_, previous] = before
        if len(before) == 1 and isinstance(previous, GroupStep) and last.on_failure is OnFailure.FAIL:
            children, results = self._side_by_side(previous, last.input_name, last.call)
            return _Node(last.call, children, results)
        results = ResultBinding(last.input_name, on_failure=last.on_failure)
        return _Node(last.call, [self._node(tuple(before), last.call)], results)

    def _group(self, group: GroupStep, before: Steps, beside: Call[Any]) -> _Node:
        """The node of a group that no task follows, or that takes the result of steps before it."""
        children, results = self._side_by_side(group, "results", beside)
        if not before:
            return _Node(self._collect(beside), children, results)
        after = msgspec.structs.replace(results, after=True)
        node = _Node(self._collect(beside), [self._node(before, beside)], after)
        node.fan_out, node.waits_for_input = tuple(children), group.on_failure
        return node

    def _side_by_side(self, group: GroupStep, name: str, beside: Call[Any]) -> tuple[list[_Node], ResultBinding]:
        """The nodes of the parts of a group, and how the job that waits for them takes their results."""
        nodes = [self._node(part, beside) for part in group.parts]
        binding = ResultBinding(name, len(nodes), many=True, on_failure=group.failed_parts)
        if sum(node.size for node in nodes) <= FAN_OUT_JOBS:
            return nodes, binding
        fan_outs: list[_Node] = []
        for some in _batches(nodes):
            node = _Node(
                self._collect(beside), (), msgspec.structs.replace(binding, name="results", children=len(some))
            )
            node.fan_out = tuple(some)
            node.input_name = "input" if any(_open(one) for one in some) else None
            fan_outs.append(node)
        sizes = tuple(len(node.fan_out) for node in fan_outs)
        return fan_outs, msgspec.structs.replace(binding, children=len(fan_outs), sizes=sizes)

    def _collect(self, call: Call[Any]) -> Call[Any]:
        """A call of the built-in task, in the queue and for the tenant of another call."""
        options = call.options.over(call.target.call_options)
        return Call(
            CollectTask(self._client),
            b"{}",
            CallOptions(
                queue=options.queue, tenant=options.tenant, user=options.user, correlation_id=options.correlation_id
            ),
        )

    # -- jobs

    def _id(self) -> JobId | None:
        chosen = self._options.id
        return None if chosen is None else chosen_id(self._client.builder.namespace, chosen)

    def _stored(self, node: _Node, id: JobId, parent: JobId | None, *, chain: JobId) -> list[NewJob]:
        """Build the job of a node and those below it. Results of children are read in the order of their ids."""
        children: list[NewJob] = []
        count = len(node.children)
        for child, child_id in zip(node.children, child_ids(id, count), strict=True):
            children += self._stored(child, child_id, id, chain=chain)
        call = node.call
        if node.fan_out:
            call = Call(call.target, self._fan_out(node, id, children, chain), call.options)
        job = self._client.builder.build(call, id=id, parent=parent, children=count, chain=chain, results=node.results)
        return [job, *children]

    def _fan_out(self, node: _Node, id: JobId, children: Sequence[NewJob], chain: JobId) -> bytes:
        """The payload of a job that enqueues the jobs of its nodes, once what it waits for has ended."""
        jobs: list[NewJob] = []
        inputs: dict[str, str] = {}
        count = len(node.children)
        for one, child_id in zip(node.fan_out, child_ids(id, count + len(node.fan_out))[count:], strict=True):
            built = self._stored(one, child_id, id, chain=chain)
            named = zip(built, one.tree(), strict=True)
            inputs |= {job.id.hex(): each.input_name for job, each in named if each.input_name is not None}
            jobs += built
        before = Input(children[0].id, node.waits_for_input) if children else None
        payload = codec.encode(FanOut(tuple(jobs), before=before, inputs=inputs))
        if len(payload) > limits.PAYLOAD:
            size = sum(one.payload_bytes for one in node.fan_out)
            why = f"its jobs have {size:,} bytes, but must fit into one job, which enqueues them when it runs"
            raise InvalidOption("group", f"of {len(node.fan_out)}", f"{why}: pass references, or make smaller groups")
        return payload


def _open(node: _Node) -> bool:
    return any(one.input_name is not None for one in node.tree())


def _batches(nodes: Sequence[_Node]) -> Iterator[list[_Node]]:
    """Nodes whose jobs fit into the payload of one job."""
    batch: list[_Node] = []
    count = size = 0
    for node in nodes:
        jobs, length = node.size, node.payload_bytes
        if length > FAN_OUT_BYTES + JOB_BYTES * jobs:
            why = f"a part has {length:,} bytes of arguments, with more than {FAN_OUT_JOBS} jobs the cap is {FAN_OUT_BYTES:,}"
            raise InvalidOption("group", f"of {len(nodes)}", f"{why}: pass a reference, or make smaller groups")
        if batch and (count + jobs > FAN_OUT_JOBS or size + length > FAN_OUT_BYTES):
            yield batch
            batch, count, size = [], 0, 0
        batch.append(node)
        count, size = count + jobs, size + length
    yield batch
