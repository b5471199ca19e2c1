"""What children left for their parent, and the job that does nothing but wait for children."""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.engine.attempt import current_attempt
from packhorse.engine.registry import Arguments, Entry
from packhorse.engine.signals import SettleAs
from packhorse.errors import ChildFailed, PayloadTooLarge
from packhorse.jobs.handle import unpack_plain
from packhorse.jobs.job_builder import set_argument
from packhorse.jobs.metadata import OnFailure, ResultBinding, metadata_of
from packhorse.jobs.options import NO_CALL_OPTIONS, CallOptions, JobOptions
from packhorse.model import codec, limits
from packhorse.model.effect import Enqueue, Put
from packhorse.model.ids import JobId, child_ids, chosen, id_text
from packhorse.model.job import NewJob
from packhorse.model.lease import Lease
from packhorse.model.outcome import Wait
from packhorse.model.reason import WaitReason
from packhorse.model.record import DELIVERED, delivery_key
from packhorse.stores.contract import Store

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

COLLECT = "packhorse.collect"
FIRST_PAGE = 32  # records; how many more are read at once depends on their size
_DONE = b"done"
_MARK = b'"results":'


class Input(msgspec.Struct, frozen=True):
    """The job whose result a collecting job waits for before it enqueues its children."""

    child: JobId
    on_failure: OnFailure


class FanOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a collecting job: the jobs it enqueues, and the results of its children once all have ended.

    ``inputs`` name the parameters of jobs, by their ids, that take the result of the job it waits for before, or the
    input that it was given itself.
    """

    jobs: tuple[NewJob, ...] = ()
    results: list[msgspec.Raw] | None = None
    before: Input | None = None
    inputs: dict[str, str] = {}
    input: msgspec.Raw = msgspec.Raw(b"null")


class CollectTask:
    """The built-in task that waits for children and answers with the list of their results."""

    name = COLLECT
    call_options: CallOptions = NO_CALL_OPTIONS
    options = JobOptions(attempts=1000)

    def __init__(self, client: "Client") -> None:
        self.client = client

    def unpack_result(self, result: bytes | None) -> Any:
        """The list of results, as plain data."""
        return unpack_plain(result)


class Collector:
    """Runs collecting jobs."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    async def collect(self, fan_out: FanOut) -> bytes | None:
        """Enqueue the children and wait until all of them have ended, then answer the list of their results."""
        attempt = current_attempt()
        if fan_out.results is None:
            binding = metadata_of(attempt.lease.headers).results
            assert binding is not None
            attempt.effects += [Enqueue(job) for job in self._with_input(fan_out)]
            raise SettleAs(Wait(WaitReason.CHILDREN, children=binding.children + (fan_out.before is not None)))
        values = [bytes(result) for result in fan_out.results]
        whole = b"[" + b",".join(values) + b"]"
        if len(whole) <= limits.RESULT:
            return whole
        if attempt.lease.parent is None:
            remedy = "give it to a task instead, with chord(group(…), task)"
            raise PayloadTooLarge("the list of results of a group", len(whole), limits.RESULT, remedy)
        key = delivery_key(attempt.lease.parent, attempt.lease.id)
        attempt.effects += [
            Put(DELIVERED, f"{key}/{number:06d}", piece) for number, piece in enumerate(_pieces(values))
        ]
        return None

    def _with_input(self, fan_out: FanOut) -> Iterator[NewJob]:
        """Give the jobs that take the input their argument."""
        for job in fan_out.jobs:
            name = fan_out.inputs.get(job.id.hex())
            if name is None:
                yield job
            else:
                yield self._client.builder.with_argument(job, name, fan_out.input)


def _pieces(values: Sequence[bytes]) -> Iterator[bytes]:
    """Values joined by commas, in pieces that fit into one record each."""
    piece: list[bytes] = []
    size = 0
    for value in values:
        if piece and size + len(value) + 1 > limits.VALUE:
            yield b",".join(piece)
            piece, size = [], 0
        piece.append(value)
        size += len(value) + 1
    yield b",".join(piece)


def entry(client: "Client") -> Entry:
    """The built-in task as a worker sees it."""

    def decode(payload: bytes) -> Arguments:
        return (codec.decode(payload, FanOut),), {}

    return Entry(
        name=COLLECT,
        call=Collector(client).collect,
        decode=decode,
        encode=_result,
        policy=CollectTask.options.policy(),
        fetch=ChildResults(client),
    )


def _result(value: bytes | None) -> bytes | None:
    return value


class ChildResults:
    """Puts what children left into the payload of their parent before it runs."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    def wanted(self, headers: bytes) -> bool:
        """Whether a job takes anything from children; most do not, and finding that out is cheap."""
        return _MARK in headers

    async def payload(self, lease: Lease, payload: bytes) -> bytes:
        """The payload with the results of the children."""
        binding = metadata_of(lease.headers).results
        if binding is None:
            return payload
        left = await _left(await self._client.store(), lease.id)
        if lease.task == COLLECT:
            return _for_collect(lease, msgspec.json.decode(payload, type=FanOut), binding, left)
        others = _others(lease.id, binding, left)
        if len(left) - len(others) < binding.children:  # some were replayed, or children of others ended first
            raise SettleAs(Wait(WaitReason.CHILDREN, children=binding.children + len(others)))
        for child in others:
            del left[child]
        return set_argument(payload, binding.name, msgspec.Raw(_value(binding, left)))


def _others(job: JobId, binding: ResultBinding, left: Iterable[str]) -> list[str]:
    """Children that are not its own: of a plan that was enqueued again under the same id, with more calls."""
    if not chosen(job):
        return []
    mine = {child.hex() for child in child_ids(job, binding.children)}
    return [child for child in left if child not in mine]


def _for_collect(lease: Lease, fan_out: FanOut, binding: ResultBinding, left: dict[str, list[bytes]]) -> bytes:
    """The payload of a collecting job: with its input before its children are enqueued, with their results after."""
    given = fan_out.input
    if fan_out.before is not None:
        child = fan_out.before.child.hex()
        if child not in left:  # it was replayed
            raise SettleAs(Wait(WaitReason.CHILDREN, children=1))
        taken = {child: left.pop(child)}
        if len(left) < binding.children:
            given = msgspec.Raw(_value(ResultBinding("input", on_failure=fan_out.before.on_failure), taken))
    if len(left) < binding.children:
        jobs = tuple(_not_ended(fan_out.jobs, lease.id, left))
        return msgspec.json.encode(msgspec.structs.replace(fan_out, jobs=jobs, input=given))
    return msgspec.json.encode(FanOut(results=msgspec.json.decode(_value(binding, left), type=list[msgspec.Raw])))


def _not_ended(jobs: Iterable[NewJob], parent: JobId, left: Container[str]) -> Iterator[NewJob]:
    """Leave out children that have ended, with the jobs below them: were they forgotten, they would be made anew."""
    waited_for = True
    for job in jobs:  # a child comes before the jobs below it
        if job.parent == parent:
            waited_for = job.id.hex() not in left
        if waited_for:
            yield job


async def _left(store: Store, parent: JobId) -> dict[str, list[bytes]]:
    """What each child left, in the order of their ids: its outcome, then the pieces of a large result."""
    left: dict[str, list[bytes]] = {}
    cursor: str | None = None
    limit = FIRST_PAGE
    while True:
        page = await store.records.find(DELIVERED, prefix=f"{parent.hex()}/", limit=limit, cursor=cursor)
        for record in page.items:
            left.setdefault(record.key.split("/")[1], []).append(record.value)
        cursor = page.cursor
        if cursor is None:
            return left
        size = sum(len(record.value) for record in page.items)
        limit = max(1, min(limits.ITEMS, limits.EXCHANGE_BYTES * len(page.items) // max(size, 1)))


def _value(binding: ResultBinding, left: dict[str, list[bytes]]) -> bytes:
    values: list[bytes] = []
    sizes = binding.sizes or (1,) * len(left)
    for size, (child, (word, *pieces)) in zip(sizes, left.items(), strict=True):
        state, _, result = word.partition(b" ")
        if state == _DONE and binding.sizes:
            values += pieces or [result[1:-1]]
        elif state == _DONE:
            values.append(b"[" + b",".join(pieces) + b"]" if pieces else result or b"null")
        elif binding.on_failure is OnFailure.FAIL:
            raise ChildFailed(id_text(bytes.fromhex(child)), state.decode())
        elif binding.on_failure is OnFailure.NONE:
            values += [b"null"] * size
    if not binding.many:
        return values[0] if values else b"null"
    return b"[" + b",".join(value for value in values if value) + b"]"
