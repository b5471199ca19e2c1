"""Wrong arguments of every verb of every facet are refused by each store with the same error, word for word."""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from types import UnionType
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from packhorse.errors import (
    InvalidArguments,
    InvalidId,
    InvalidInput,
    InvalidName,
    InvalidOption,
    InvalidTime,
    PayloadTooLarge,
    TooManyBytes,
    TooManyEffects,
    TooManyItems,
)
from packhorse.model import limits
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.lease import Lease, Settlement
from packhorse.model.outcome import Done
from packhorse.model.page import Filter
from packhorse.model.reason import WaitReason
from packhorse.model.worker import WorkerInfo
from packhorse.stores import contract, open_store
from packhorse.stores.contract import Store
from tests.factories import MINUTE, WORKER, new, new_id

MANY = limits.ITEMS + 1
LEASE = Lease(
    id=bytes(16), token=bytes(16), claimed=0, until=0, task="work", queue="default", payload=b"", headers=b"{}",
    priority=0, attempt=1, lost=0, enqueued_at=0, fence=1,
)  # fmt: skip
MEBIBYTE = b"1" * limits.VALUE
EVENT, PUT = Publish("news", b"1"), Put("kind", "key", b"1")
FACETS = ("jobs", "within", "queues", "records", "streams", "fleet")
RIGHT: dict[str, Any] = {
    "jobs": [], "settlements": [], "ask": None, "moves": [], "leases": [], "duration": MINUTE, "limit": 10,
    "max_lost": 3, "reason": WaitReason.LIMIT, "tasks": None, "ids": [], "notes": [], "ttl": MINUTE, "filter": Filter(),
    "cursor": None, "queues": [], "puts": [], "kind": "kind", "keys": [], "prefix": "", "events": [], "stream": "news",
    "after": 0, "below": 1, "worker": WorkerInfo(id=WORKER, name="worker"),
}  # fmt: skip

Wrong = tuple[Callable[[], Any], type[InvalidInput]]


def each(error: type[InvalidInput], *values: object) -> list[Wrong]:
    return [(partial(lambda value: value, value), error) for value in values]


IDS: list[Wrong] = [(lambda: [new_id(), b"short"], InvalidId), (lambda: [bytes(16)] * MANY, TooManyItems)]
LIMITS = each(InvalidOption, 0, -1, limits.LOOKED_AT + 1, 2**63, 1.5, "10", True)
RESERVED = each(InvalidName, "packhorse.mine")
NAMES = each(InvalidName, "", "a\nb", "\ud800", "x" * 256, 7)
SPANS = each(InvalidTime, -1, limits.MAX_DURATION_US + 1, 1.5, "1s", True)
CURSORS = each(InvalidOption, "", "nonsense", "'; --", "[1,2,3]", "é", "AAAA", 7)
QUEUES: list[Wrong] = [
    (lambda: ["good", ""], InvalidName),
    (lambda: "queue", InvalidOption),
    (lambda: ["queue"] * MANY, TooManyItems),
]
SETTLED: list[Wrong] = [
    (lambda: [Settlement(LEASE, Done())] * MANY, TooManyItems),
    (lambda: [Settlement(LEASE, Done(), (EVENT,) * limits.EFFECTS)] * 5, TooManyEffects),
]
KEYS: list[Wrong] = [
    (lambda: ["good", ""], InvalidName),
    (lambda: ["x" * 513], InvalidName),
    (lambda: "key", InvalidOption),
    (lambda: ["key"] * MANY, TooManyItems),
]
JOBS: list[Wrong] = [
    (lambda: [new()] * MANY, TooManyItems),
    (lambda: [new(payload=MEBIBYTE)] * 65, TooManyBytes),
]
NOTES: list[Wrong] = [
    (lambda: [(LEASE, b"1")] * MANY, TooManyItems),
    (lambda: [(LEASE, b"x" * (limits.PROGRESS + 1))], PayloadTooLarge),
    (lambda: [(LEASE, b"\xff")], InvalidArguments),
]
WRONG: Mapping[str, list[Wrong]] = {
    "jobs.enqueue.jobs": JOBS,
    "jobs.exchange.settlements": SETTLED,
    "jobs.fire.moves": [
        (lambda: [[EVENT]] * MANY, TooManyItems),
        (lambda: [[EVENT] * limits.EFFECTS] * 5, TooManyEffects),
        (lambda: [[Enqueue(new(payload=MEBIBYTE))]] * 65, TooManyBytes),
    ],
    "jobs.renew.leases": [(lambda: [LEASE] * MANY, TooManyItems)],
    "jobs.renew.duration": [*SPANS, (lambda: 1, InvalidTime)],
    "jobs.reap.limit": LIMITS,
    "jobs.reap.max_lost": [(lambda: 0, InvalidOption), (lambda: 100_000, InvalidOption)],
    "jobs.release.reason": [
        (lambda: WaitReason.LANE, InvalidOption),
        (lambda: WaitReason.CHILDREN, InvalidOption),
        (lambda: "limit", InvalidOption),
    ],
    "jobs.release.tasks": QUEUES,
    "jobs.release.limit": LIMITS,
    **{f"jobs.{verb}.ids": IDS for verb in ("cancel", "replay", "promote", "watch", "drop", "get")},
    **{f"jobs.{verb}.bodies": each(InvalidOption, None, 1, "no") for verb in ("get", "find")},
    "jobs.note.notes": NOTES,
    "jobs.watch.ttl": SPANS,
    "jobs.prune.limit": LIMITS,
    "jobs.find.limit": LIMITS,
    "jobs.find.cursor": CURSORS,
    "within.enqueue.jobs": JOBS,
    "within.settle.settlements": SETTLED,
    "within.settle.notes": NOTES,
    "queues.pause.queues": QUEUES,
    "queues.resume.queues": QUEUES,
    "records.put.puts": [
        (lambda: [PUT] * MANY, TooManyItems),
        (lambda: [Put("kind", "key", MEBIBYTE)] * 65, TooManyBytes),
    ],
    **{f"records.{verb}.kind": NAMES for verb in ("get", "find", "due", "drop")},
    **{f"records.{verb}.keys": KEYS for verb in ("get", "drop")},
    "records.find.prefix": [(lambda: "a\nb", InvalidName), (lambda: "x" * 513, InvalidName)],
    "records.find.limit": LIMITS,
    "records.find.cursor": CURSORS,
    "records.due.limit": LIMITS,
    "streams.publish.events": [
        (lambda: [EVENT] * MANY, TooManyItems),
        (lambda: [Publish("news", MEBIBYTE)] * 65, TooManyBytes),
    ],
    **{f"streams.{verb}.stream": [*NAMES, *RESERVED] for verb in ("read", "bounds", "trim", "wakes")},
    "streams.trim.below": each(InvalidOption, -1, 2**53 + 1, "1"),
    "streams.trim.limit": LIMITS,
    "streams.read.after": each(InvalidOption, -1, 2**53 + 1, "1"),
    "streams.read.limit": LIMITS,
    "fleet.beat.ttl": SPANS,
}


def checks_itself(annotation: Any) -> bool:
    """Whether an argument is one value of the model, which cannot be made wrong."""
    union = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    kinds = [kind for kind in union if kind is not type(None)]
    return all(isinstance(kind, type) and issubclass(kind, msgspec.Struct) for kind in kinds)


def arguments() -> set[str]:
    """Every argument of every verb of every facet of the contract that a store has to check."""
    found = set()
    for facet in FACETS:
        protocol = getattr(contract, facet.capitalize())
        for verb, function in inspect.getmembers(protocol, inspect.isfunction):
            hints = get_type_hints(function)
            named = [name for name in inspect.signature(function).parameters if name != "self"]
            if not verb.startswith("_"):
                found |= {f"{facet}.{verb}.{name}" for name in named if not checks_itself(hints[name])}
    return found


async def refusal(store: Store, argument: str, value: Any) -> tuple[type, str]:
    """The error of a call with one wrong argument."""
    facet, verb, wrong = argument.split(".")
    place = store.jobs.within() if facet == "within" else getattr(store, facet)
    call = getattr(place, verb)
    given = {
        name: RIGHT[name]
        for name, parameter in inspect.signature(call).parameters.items()
        if parameter.default is parameter.empty
    }
    try:
        answer = call(**(given | {wrong: value}))
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:
        return type(error), str(error)
    raise AssertionError(f"{argument} was accepted: {value!r:.60}")


def test_every_argument_of_every_verb_has_a_wrong_value():
    assert arguments() == set(WRONG)


@pytest.fixture
async def reference() -> AsyncIterator[Store]:
    made = open_store("sqlite:///:memory:")
    await made.migrate()
    await made.open()
    yield made
    await made.close()


@pytest.mark.parametrize("facet", FACETS)
async def test_a_wrong_argument_is_refused_with_the_same_error_by_every_store(store, reference, facet, kind):
    if facet == "within" and kind in ("redis", "valkey"):
        return  # nothing there can be part of a transaction of the caller's own

    for argument in (name for name in WRONG if name.startswith(f"{facet}.")):
        for make, error in WRONG[argument]:
            found = await refusal(store, argument, wrong := make())
            assert (found[0], found) == (error, await refusal(reference, argument, wrong)), argument
