"""What children left for their parent, and the job that does nothing but wait for children."""

from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.engine.context import current
from packhorse.engine.registry import Arguments, Entry
from packhorse.engine.signals import Aside
from packhorse.errors import ChildFailed
from packhorse.jobs import envelope
from packhorse.jobs.call import NO_WISH, Wish
from packhorse.jobs.envelope import OnFailure, Shape
from packhorse.jobs.options import Options, options
from packhorse.model import caps
from packhorse.model.effect import Enqueue
from packhorse.model.ids import JobId, id_text
from packhorse.model.job import NewJob
from packhorse.model.lease import Lease
from packhorse.model.outcome import Wait
from packhorse.model.reason import WaitReason
from packhorse.model.record import DELIVERED
from packhorse.stores.contract import Store

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk

GATHER = "packhorse.gather"
_DONE = b"done"
_MARK = b'"flow":'


class Spread(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a gathering job: children it has yet to enqueue, or what they left."""

    jobs: tuple[NewJob, ...] = ()
    results: msgspec.Raw = msgspec.Raw(b"[]")


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


async def gather(spread: Spread) -> msgspec.Raw:
    """Enqueue the children if that was not done, and wait for them; then answer what they left."""
    if spread.jobs and bytes(spread.results) == b"[]":
        ctx = current()
        ctx.effects += [Enqueue(job) for job in spread.jobs]
        raise Aside(Wait(WaitReason.CHILDREN, children=len(spread.jobs)))
    return spread.results


def entry(desk: "Desk") -> Entry:
    """The built-in task as a worker sees it."""
    decoder = msgspec.json.Decoder(Spread)

    def decode(payload: bytes) -> Arguments:
        return (decoder.decode(payload),), {}

    return Entry(
        name=GATHER, call=gather, decode=decode, encode=bytes, policy=Gather.options.policy(), fetch=Deliveries(desk)
    )


class Deliveries:
    """Puts what children left into the payload of their parent before it runs."""

    def __init__(self, desk: "Desk") -> None:
        self._desk = desk

    def wanted(self, headers: bytes) -> bool:
        """Whether a job takes anything from children; most do not, and finding that out is cheap."""
        return _MARK in headers

    async def payload(self, lease: Lease, payload: bytes) -> bytes:
        """The payload with the results of the children."""
        shape = envelope.own(lease.headers).flow
        if shape is None:
            return payload
        left = await _left(await self._desk.store(), lease.id)
        if not left:
            return payload
        fields = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        fields[shape.name] = msgspec.Raw(_value(shape, left))
        return msgspec.json.encode(fields)


async def _left(store: Store, parent: JobId) -> list[tuple[str, bytes]]:
    """What each child left, in the order of their ids."""
    left: list[tuple[str, bytes]] = []
    cursor: str | None = None
    while True:
        page = await store.records.find(DELIVERED, prefix=f"{parent.hex()}/", limit=caps.ITEMS, cursor=cursor)
        left += [(record.key.partition("/")[2], record.value) for record in page.items]
        cursor = page.cursor
        if cursor is None:
            return left


def _value(shape: Shape, left: list[tuple[str, bytes]]) -> bytes:
    values: list[bytes] = []
    for child, word in left:
        state, _, result = word.partition(b" ")
        if state == _DONE:
            value = result or b"null"
            values.append(value[1:-1] if shape.nested else value)
        elif shape.on_failure is OnFailure.FAIL:
            raise ChildFailed(id_text(bytes.fromhex(child)), state.decode())
        elif shape.on_failure is OnFailure.NONE:
            values.append(b"null")
    if not shape.many:
        return values[0] if values else b"null"
    return b"[" + b",".join(value for value in values if value) + b"]"
