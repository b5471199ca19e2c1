"""What children left for their parent, and the job that does nothing but wait for children."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.engine.context import current
from packhorse.engine.registry import Arguments, Entry
from packhorse.engine.signals import Aside
from packhorse.errors import ChildFailed, PayloadTooLarge
from packhorse.jobs import envelope
from packhorse.jobs.call import NO_WISH, Wish
from packhorse.jobs.envelope import OnFailure, Shape
from packhorse.jobs.options import Options, options
from packhorse.model import caps
from packhorse.model.effect import Enqueue, Put
from packhorse.model.ids import JobId, chosen_id, id_text
from packhorse.model.job import NewJob
from packhorse.model.lease import Lease
from packhorse.model.outcome import Wait
from packhorse.model.reason import WaitReason
from packhorse.model.record import DELIVERED, delivery_key
from packhorse.stores.contract import Store

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk

GATHER = "packhorse.gather"
FIRST_PAGE = 32  # records; how many more are read at once depends on their size
_DONE = b"done"
_MARK = b'"flow":'


class Spread(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a gathering job: the children it enqueues, and their results once all of them have ended."""

    jobs: tuple[NewJob, ...] = ()
    results: list[msgspec.Raw] | None = None


class Gather:
    """The built-in task that waits for children and answers with the list of their results."""

    name = GATHER
    wish: Wish = NO_WISH
    options: Options = options(attempts=1000)

    def __init__(self, desk: "Desk") -> None:
        self.desk = desk

    def unpack_result(self, result: bytes | None) -> Any:
        """The list of results, as plain data."""
        return self.desk.plain_result(result)


async def gather(spread: Spread) -> bytes | None:
    """Enqueue the children and wait until all of them have ended, then answer the list of their results."""
    ctx = current()
    if spread.results is None:
        shape = envelope.own(ctx.lease.headers).flow
        assert shape is not None
        ctx.effects += [Enqueue(job) for job in spread.jobs]
        raise Aside(Wait(WaitReason.CHILDREN, children=shape.children))
    values = [bytes(result) for result in spread.results]
    whole = b"[" + b",".join(values) + b"]"
    if len(whole) <= caps.RESULT:
        return whole
    if ctx.lease.parent is None:
        remedy = "give it to a task instead, with chord(group(…), task)"
        raise PayloadTooLarge("the list of results of a group", len(whole), caps.RESULT, remedy)
    key = delivery_key(ctx.lease.parent, ctx.lease.id)
    ctx.effects += [Put(DELIVERED, f"{key}/{number:06d}", piece) for number, piece in enumerate(_pieces(values))]
    return None


def _pieces(values: Sequence[bytes]) -> Iterator[bytes]:
    """Values joined by commas, in pieces that fit into one record each."""
    piece: list[bytes] = []
    size = 0
    for value in values:
        if piece and size + len(value) + 1 > caps.VALUE:
            yield b",".join(piece)
            piece, size = [], 0
        piece.append(value)
        size += len(value) + 1
    yield b",".join(piece)


def entry(desk: "Desk") -> Entry:
    """The built-in task as a worker sees it."""
    decoder = msgspec.json.Decoder(Spread)

    def decode(payload: bytes) -> Arguments:
        return (decoder.decode(payload),), {}

    return Entry(
        name=GATHER, call=gather, decode=decode, encode=_result, policy=Gather.options.policy(), fetch=Deliveries(desk)
    )


def _result(value: bytes | None) -> bytes | None:
    return value


class Deliveries:
    """Puts what children left into the payload of their parent before it runs."""

    def __init__(self, desk: "Desk") -> None:
        self._desk = desk

    def wanted(self, headers: bytes) -> bool:
        """Whether a job takes anything from children; most do not, and finding that out is cheap."""
        return _MARK in headers

    async def payload(self, lease: Lease, payload: bytes) -> bytes:
        """The payload with the results of the children."""
        own = envelope.own(lease.headers)
        shape = own.flow
        if shape is None:
            return payload
        left = await _left(await self._desk.store(), lease.id)
        strangers = self._strangers(own, left)
        if len(left) - len(strangers) < shape.children:  # not spread yet, some were replayed, or strangers ended first
            if lease.task == GATHER:
                return payload
            raise Aside(Wait(WaitReason.CHILDREN, children=shape.children + len(strangers)))
        for stranger in strangers:
            del left[stranger]
        fields = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        fields[shape.name] = msgspec.Raw(_value(shape, left))
        return msgspec.json.encode(fields)

    def _strangers(self, own: envelope.Own, left: Iterable[str]) -> list[str]:
        """Children that are not its own: of a chord that was enqueued again under the same id, with more calls."""
        if own.id is None or own.flow is None or not own.flow.many:
            return []
        namespace, count = self._desk.namespace, own.flow.children
        mine = {chosen_id(namespace, own.id, str(number)).hex() for number in range(count)}
        return [child for child in left if child not in mine]


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
        limit = max(1, min(caps.ITEMS, caps.EXCHANGE_BYTES * len(page.items) // max(size, 1)))


def _value(shape: Shape, left: dict[str, list[bytes]]) -> bytes:
    values: list[bytes] = []
    sizes = shape.sizes or (1,) * len(left)
    for size, (child, (word, *pieces)) in zip(sizes, left.items(), strict=True):
        state, _, result = word.partition(b" ")
        if state == _DONE and shape.sizes:
            values += pieces or [result[1:-1]]
        elif state == _DONE:
            values.append(result or b"null")
        elif shape.on_failure is OnFailure.FAIL:
            raise ChildFailed(id_text(bytes.fromhex(child)), state.decode())
        elif shape.on_failure is OnFailure.NONE:
            values += [b"null"] * size
    if not shape.many:
        return values[0] if values else b"null"
    return b"[" + b",".join(value for value in values if value) + b"]"
