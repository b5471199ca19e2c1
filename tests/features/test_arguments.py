"""Arguments and results keep their types from the caller to the handler and back; what does not fit is refused."""

import enum
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest

from packhorse import App, InvalidArguments, JobFailed
from packhorse.errors import ConfigError, PayloadTooLarge, UndecodablePayload, WrongArguments
from tests.features import shapes
from tests.features.factories import run
from tests.features.shapes import Address, Cat, Colour, Dog, Format, Level, Line, Order, Pair, Person, Point, Span, Team

NOW = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)


async def there_and_back(app: App, kind: Any, value: Any) -> tuple[Any, Any]:
    """What the handler got, and what the caller got back."""
    seen = []

    async def echo(value):
        seen.append(value)
        return value

    echo.__annotations__ = {"value": kind, "return": kind}
    job = await app.task(name="echo")(echo).enqueue(value)
    await run(app)
    return seen[0], await job.result(1)


TYPED = [
    (int, 7),
    (float, 0.1),
    (str, "grün"),
    (bool, True),
    (bytes, b"\x00\xff"),
    (list[int], [1, 2]),
    (tuple[int, ...], (1, 2)),
    (Pair, (1, "a")),
    (dict[str, float], {"a": 1.5}),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (int | None, None),
    (int | str, "a"),
    (datetime, NOW),
    (date, date(2024, 2, 29)),
    (time, time(12, 30)),
    (timedelta, timedelta(seconds=90)),
    (Span, (NOW, timedelta(1))),
    (Decimal, Decimal("0.10")),
    (UUID, UUID(int=1)),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (Format, "csv"),
    (Line, Line("a", 2)),
    (Order, shapes.ORDER),
    (list[Order], [shapes.ORDER]),
    (Address, {"street": "High", "number": 1}),
    (Point, Point(1.0, 2.0)),
    (Cat | Dog, Dog("Rex")),
    (Person, Person(name="Ann", age=3, born=date(2020, 1, 1))),
    (list[Person], [Person(name="Ann", age=3)]),
    (Person | None, Person(name="Ann", age=3)),
    (Team, Team(Person(name="Ann", age=3), [Person(name="Bob", age=4)])),
    (Annotated[int, msgspec.Meta(ge=1)], 1),
    (Sequence[int], [1, 2]),
    (Any, {"free": [1, None]}),
]


@pytest.mark.parametrize(("kind", "value"), TYPED, ids=[str(kind) for kind, _ in TYPED])
async def test_s03_a_typed_value_goes_there_and_back(memory, kind, value):
    got, back = await there_and_back(memory, kind, value)

    assert got == value
    assert type(got) is type(value)
    assert back == value
    assert type(back) is type(value)


WRONG = [
    (int, "7", "$.value"),
    (int, 1.5, "$.value"),
    (str, 7, "$.value"),
    (list[int], [1, "b"], "$.value[1]"),
    (dict[str, int], {"a": "b"}, "$.value[...]"),
    (Colour, "green", "$.value"),
    (Format, "doc", "$.value"),
    (UUID, "not one", "$.value"),
    (datetime, "yesterday", "$.value"),
    (Line, Line("a", "many"), "$.value.count"),  # type: ignore[arg-type]
    (Order, {"id": str(UUID(int=1)), "total": "1", "lines": [{"sku": 1}]}, "$.value.lines[0].sku"),
    (Address, {"street": 3}, "$.value.street"),
    (Cat | Dog, {"type": "cow"}, "$.value.type"),
    (Person, {"name": "Ann", "age": -1}, "$.value"),
    (Team, {"lead": {"name": "Ann"}}, "$.value.lead"),
    (Annotated[int, msgspec.Meta(ge=1)], 0, "$.value"),
]


@pytest.mark.parametrize(("kind", "value", "path"), WRONG, ids=[str(kind) for kind, _, _ in WRONG])
async def test_s03_a_wrong_value_is_refused_at_the_caller_and_named_by_its_path(memory, kind, value, path):
    async def echo(value): ...

    echo.__annotations__ = {"value": kind}
    task = memory.task(name="echo")(echo)

    with pytest.raises(WrongArguments) as caught:
        await task.enqueue(value)
    assert path in str(caught.value)
    assert "echo()" in str(caught.value)
    assert (await memory.find()).items == ()


async def test_s03_typed_arguments_and_results_on_each_store(app):
    seen = []

    @app.task
    async def price(order: Order, at: datetime, *, colour: Colour = Colour.RED) -> Order:
        seen.append((order, at, colour))
        return order

    job = await price.enqueue(shapes.ORDER, at=NOW)
    await run(app)

    assert seen == [(shapes.ORDER, NOW, Colour.RED)]
    assert await job.result(1) == shapes.ORDER


async def test_s03_a_task_is_still_a_plain_function(memory):
    @memory.task
    async def double(number: int) -> int:
        """Twice as much."""
        return 2 * number

    @memory.task
    def half(number: int) -> float:
        return number / 2

    assert await double(4) == 8
    assert half(4) == 2
    assert (double.__name__, double.__doc__) == ("double", "Twice as much.")


@pytest.mark.parametrize(
    ("args", "options"),
    [((), {}), ((1,), {}), ((1, 2, 3, 4), {}), ((1, 2), {"c": 1, "d": 2}), ((1, 2), {"a": 3}), ((), {"a": 1, "c": 2})],
)
async def test_s03_a_call_the_function_would_refuse_is_refused(memory, args, options):
    @memory.task
    async def three(a: int, b: int, c: int = 0) -> None: ...

    with pytest.raises(WrongArguments):
        three.call(*args, **options)


async def test_s03_arguments_of_every_kind_find_their_places(app):
    seen = []

    @app.task
    async def places(a: int, /, b: int, *rest: int, c: int = 3, **more: str) -> None:
        seen.append((a, b, rest, c, more))

    await places.enqueue(1, 2)
    await places.enqueue(1, 2, 3, 4, c=5, d="x", a="also")
    await places.enqueue(1, b=2, e="y")
    await run(app, concurrency=1)

    assert seen == [(1, 2, (), 3, {}), (1, 2, (3, 4), 5, {"d": "x", "a": "also"}), (1, 2, (), 3, {"e": "y"})]


async def test_s03_defaults_are_those_of_the_function_that_runs(make, clock):
    before, after, seen = make(clock=clock), make(clock=clock), []

    @before.task(name="greet")
    async def greet(name: str) -> None: ...

    @after.task(name="greet")
    async def greet_better(name: str, greeting: str = "Hello") -> None:
        seen.append((greeting, name))

    await greet.enqueue("Ann")
    await run(after)

    assert seen == [("Hello", "Ann")]


async def test_s03_values_beyond_starred_annotations_are_refused(memory):
    @memory.task
    async def total(*numbers: int, **named: str) -> None: ...

    with pytest.raises(WrongArguments, match=r"\$\.numbers\[1\]"):
        total.call(1, "2")  # type: ignore[arg-type]
    with pytest.raises(WrongArguments, match=r"\$\.named"):
        total.call(1, a=2)  # type: ignore[arg-type]


async def test_s03_a_function_without_annotations_takes_plain_data(app):
    seen = []

    @app.task
    def loose(a, b=None, *rest, **more):
        seen.append((a, b, rest, more))
        return {"a": a}

    job = await loose.enqueue({"x": [1, 2.5, None]}, "b", True, c="d")
    await run(app)

    assert seen == [({"x": [1, 2.5, None]}, "b", (True,), {"c": "d"})]
    assert await job.result(1) == {"a": {"x": [1, 2.5, None]}}


class Odd:
    """Nothing that JSON or msgspec know."""


@pytest.mark.parametrize("value", [object(), Odd(), float("nan"), [float("inf")], "\ud800", {1j: 2}])
async def test_s03_what_cannot_be_stored_is_refused_at_the_caller(memory, value):
    @memory.task
    async def loose(value): ...

    with pytest.raises(InvalidArguments):
        loose.call(value)


async def test_s03_more_than_a_mebibyte_of_arguments_is_refused(memory):
    @memory.task
    async def loose(text: str) -> None: ...

    with pytest.raises(PayloadTooLarge, match="1,048,576"):
        await loose.enqueue("x" * (1 << 20))


async def test_s03_an_annotation_that_cannot_be_resolved_says_which_task(memory):
    @memory.task(name="lost")
    async def lost(value: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match=r"lost.*Nowhere"):
        await lost.enqueue(1)


async def test_s03_an_annotation_that_cannot_be_served_says_which_task(memory):
    @memory.task(name="odd")
    async def odd(value: Cat | Line) -> None: ...

    with pytest.raises(ConfigError, match="odd"):
        await odd.enqueue(1)  # type: ignore[arg-type]


async def test_s03_an_argument_of_a_class_that_nobody_can_build_is_refused(memory):
    @memory.task(name="odd")
    async def odd(value: Odd) -> None: ...

    with pytest.raises((ConfigError, InvalidArguments), match="Odd"):
        await odd.enqueue(Odd())


async def test_s03_arguments_that_do_not_fit_the_function_any_more_are_dead_at_once(make, clock):
    before, after = make(clock=clock), make(clock=clock)

    @before.task(name="count")
    async def count(number: str) -> None: ...

    @after.task(name="count")
    async def count_better(number: int) -> None: ...

    job = await count.enqueue("three")
    await run(after)

    info = await job.info()
    assert (info.state, info.reason, info.attempt) == ("dead", "final", 1)
    assert "$.number" in info.failures[-1].message


@pytest.mark.parametrize(
    "payload",
    [b"{", b"[1", b"[1]", b'"text', b'"text"', b"7", b"null", b'{"number": "x", "more": '],
    ids=repr,
)
async def test_s03_text_that_is_no_arguments_at_all_is_dead_as_undecodable(app, payload):
    from packhorse.model.job import NewJob

    @app.task(name="count")
    async def count(number: int) -> None: ...

    [receipt] = await app.client.send([NewJob(task="count", payload=payload)])
    await run(app)

    [stored] = await app.client.get([receipt.id])
    assert (stored.state, stored.reason) == ("dead", "undecodable")


async def test_s33_a_result_that_cannot_be_stored_fails_the_attempt(app):
    @app.task
    async def odd():
        return object()

    job = await odd.enqueue()
    await run(app)

    with pytest.raises(JobFailed, match="object"):
        await job.result(1)


async def test_s33_a_result_that_is_not_what_the_annotation_says_is_asked_to_the_caller(app):
    @app.task
    async def wrong() -> int:
        return "three"  # type: ignore[return-value]

    job = await wrong.enqueue()
    await run(app)

    with pytest.raises(UndecodablePayload, match="wrong"):
        await job.result(1)


async def test_s33_a_typed_result_is_read_back_after_the_worker_is_gone(make):
    worker, reader = make(), make()

    @worker.task(name="price")
    async def price(cents: int) -> Order:
        return Order(UUID(int=cents), Decimal(cents) / 100, [Line("a")])

    job = await price.enqueue(1990)
    async with worker.worker():
        assert await job.result(20) == Order(UUID(int=1990), Decimal("19.9"), [Line("a")])
    await worker.close()

    assert await reader.job(job.id).result(1) == {
        "id": str(UUID(int=1990)), "total": "19.9", "lines": [{"sku": "a", "count": 1}], "note": None, "tags": []
    }  # fmt: skip


async def test_s33_no_result_reads_back_as_none(app):
    @app.task
    async def nothing() -> None: ...

    job = await nothing.enqueue()
    await run(app)

    assert await job.result(1) is None


class Size(enum.StrEnum):
    SMALL = "s"


async def test_s33_types_of_the_module_that_registers_are_known(memory):
    @memory.task
    async def resize(size: Size) -> Size:
        return size

    job = await resize.enqueue(Size.SMALL)
    await run(memory)

    assert await job.result(1) is Size.SMALL
