"""OpenTelemetry: one trace from the sender to the job and to the jobs that it enqueues, by the real SDK."""

import asyncio

import pytest
from opentelemetry import baggage
from opentelemetry.trace import SpanKind, StatusCode

from packhorse import App, Batch, Cancel, Retry, Snooze, chain, cron, current, group
from packhorse.jobs.portal import PORTAL
from packhorse.testing import run_until_idle
from tests.features import traced_tasks
from tests.features.factories import SECOND
from tests.features.tracing import id_of, parent_of, with_baggage


async def test_s41_the_spans_of_sender_job_and_child_job_are_one_trace_with_its_baggage(make, clock, recorded):
    app = make(clock=clock, integrations=[recorded.integration()])
    seen = []

    @app.task(queue="mail")
    async def notify() -> None:
        seen.append((dict(baggage.get_all()), current().headers["baggage"]))

    @app.task
    async def pay(amount: int) -> None:
        await notify.enqueue()

    with recorded.tracer.start_as_current_span("request") as request, with_baggage(shop="north"):
        job = await pay.using(correlation_id="c-1").enqueue(5)
    await run_until_idle(app)

    names = ["send default", "process default", "send mail", "process mail"]
    spans = [recorded.span(name) for name in names]
    assert {span.context.trace_id for span in spans} == {request.get_span_context().trace_id}
    assert [parent_of(span) for span in spans] == [request.get_span_context().span_id, *map(id_of, spans[:3])]
    assert [span.kind for span in spans] == [SpanKind.PRODUCER, SpanKind.CONSUMER] * 2
    assert spans[1].attributes == {
        "messaging.system": "packhorse",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": job.id,
        "messaging.message.conversation_id": "c-1",
        "messaging.message.body.size": len(b'{"amount":5}'),
        "packhorse.task": pay.name,
        "packhorse.attempt": 1,
        "packhorse.outcome": "done",
    }
    assert seen == [({"shop": "north"}, "shop=north")]


async def test_a_job_without_a_sender_that_is_traced_begins_a_trace(traced, recorded):
    app = traced()

    @app.task
    def plain() -> None: ...

    await plain.enqueue()
    await run_until_idle(app)

    assert recorded.span("send default").parent is None
    assert parent_of(recorded.span("process default")) == id_of(recorded.span("send default"))


@pytest.mark.parametrize(
    ("mode", "wait", "is_child"),
    [
        ("auto", 60, True),
        ("auto", 61, False),
        ("parent", 3600, True),
        ("link", 0, False),
    ],
)
async def test_a_job_is_a_child_of_its_sender_or_linked_to_it(traced, recorded, clock, mode, wait, is_child):
    app = traced(trace=mode)

    @app.task
    async def work() -> str | None:
        return str(baggage.get_baggage("shop"))

    with with_baggage(shop="north"):
        job = await work.enqueue()
    clock.turn(wait * SECOND)
    await run_until_idle(app)

    send, process = recorded.span("send default"), recorded.span("process default")
    assert (parent_of(process) == id_of(send), [link.context.span_id for link in process.links]) == (
        (True, []) if is_child else (False, [id_of(send)])
    )
    assert (process.context.trace_id == send.context.trace_id) is is_child
    assert await job.result() == "north"


async def test_a_second_try_is_linked_even_if_it_starts_soon(traced, recorded):
    app = traced()

    @app.task(attempts=2)
    async def work() -> None:
        if current().attempt == 1:
            raise Retry(0)

    await work.enqueue()
    await run_until_idle(app)

    first, second = recorded.spans("process default")
    assert (parent_of(first), second.parent) == (id_of(recorded.span("send default")), None)
    assert [link.context.span_id for link in second.links] == [id_of(recorded.span("send default"))]
    assert first.attributes is not None
    assert first.attributes["packhorse.outcome"] == "again"


async def test_a_failure_is_on_the_span_without_secrets(traced, recorded):
    app = traced()

    @app.task(attempts=1)
    async def work() -> None:
        raise ValueError("refused: password=hush-hush")

    await work.enqueue()
    await run_until_idle(app)

    span = recorded.span("process default")
    [event] = span.events
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "ValueError"
    assert span.attributes["packhorse.outcome"] == "dead"
    assert event.attributes["exception.message"] == "refused: password=***"
    assert "ValueError" in event.attributes["exception.stacktrace"]
    assert "hush" not in span.to_json()


@pytest.mark.parametrize(("signal", "outcome"), [(Snooze("5m"), "again"), (Cancel("not now"), "cancelled")])
async def test_putting_off_and_cancelling_are_no_errors(traced, recorded, signal, outcome):
    app = traced()

    @app.task
    async def work() -> None:
        raise signal

    await work.enqueue()
    await run_until_idle(app)

    span = recorded.span("process default")
    assert (span.status.status_code, span.attributes["packhorse.outcome"]) == (StatusCode.UNSET, outcome)


async def test_a_batch_is_one_span_with_a_link_to_each_sender(traced, recorded):
    app = traced()

    @app.queue("mail").batch(size=10, wait=0)
    async def together(batch: Batch) -> None: ...

    await app.queue("mail").enqueue("one")
    await app.queue("mail").enqueue("two")
    await run_until_idle(app)

    span = recorded.span("process mail")
    assert span.parent is None
    assert [link.context.span_id for link in span.links] == [id_of(each) for each in recorded.spans("send mail")]
    assert span.attributes["messaging.batch.message_count"] == 2


async def test_jobs_that_are_stored_together_have_one_span(traced, recorded):
    app = traced()

    @app.task(queue="mail")
    async def mail() -> None: ...

    @app.task(queue="pay")
    async def pay() -> None: ...

    await app.enqueue(mail.call(), pay.call())
    await run_until_idle(app)

    send = recorded.span("send")
    assert send.attributes["messaging.batch.message_count"] == 2
    assert [parent_of(recorded.span(name)) for name in ("process mail", "process pay")] == [id_of(send)] * 2


async def test_all_jobs_of_a_plan_are_in_the_trace_of_its_sender(traced, recorded):
    app = traced()

    @app.task
    async def part(number: int) -> int:
        return number

    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    with recorded.tracer.start_as_current_span("request") as request, with_baggage(shop="north"):
        plan = await chain(part.call(1), group(part.call(2), part.call(3)), total).enqueue()
    await run_until_idle(app)

    spans = recorded.spans("process default")
    assert len(spans) >= 4
    assert {span.context.trace_id for span in spans} == {request.get_span_context().trace_id}
    assert await plan.result() == 5


async def test_a_follow_up_job_belongs_to_the_attempt_that_enqueues_it(traced, recorded):
    app = traced()

    @app.task(queue="mail")
    async def mail() -> None: ...

    @app.task
    async def work() -> None:
        current().enqueue(mail.call())

    await work.enqueue()
    await run_until_idle(app)

    assert parent_of(recorded.span("process mail")) == id_of(recorded.span("process default"))


async def test_threads_and_code_without_a_loop_are_traced_too(tmp_path, recorded):
    app = App(f"sqlite:///{tmp_path}/jobs.db", integrations=[recorded.integration()])

    @app.task(queue="mail")
    def mail() -> str:
        with recorded.tracer.start_as_current_span("inside"):
            return str(baggage.get_baggage("shop"))

    def view() -> str:
        with recorded.tracer.start_as_current_span("request"), with_baggage(shop="north"):
            return str(mail.sync.enqueue().id)

    job = app.job(await asyncio.to_thread(view))
    await asyncio.to_thread(PORTAL.run, app.close())
    async with app, app.worker("mail"):
        assert await job.result(timeout=30) == "north"

    chain_of = [recorded.span(name) for name in ("request", "send mail", "process mail", "inside")]
    assert [parent_of(span) for span in chain_of[1:]] == [id_of(span) for span in chain_of[:3]]
    await asyncio.to_thread(PORTAL.stop)


async def test_runs_of_a_schedule_are_linked_to_the_trace_that_put_it_and_have_its_baggage(traced, recorded, clock):
    app = traced()
    seen = []

    @app.task
    async def report() -> None:
        seen.append(baggage.get_baggage("shop"))

    with recorded.tracer.start_as_current_span("request") as request, with_baggage(shop="north"):
        await app.schedules.put("reports", cron("* * * * *"), report.call())
    for _ in range(2):
        clock.turn(60 * SECOND)
        await app.schedules.fire()
        await run_until_idle(app)

    spans = recorded.spans("process default")
    assert [span.parent for span in spans] == [None, None]
    assert [link.context.span_id for span in spans for link in span.links] == [request.get_span_context().span_id] * 2
    assert len({span.context.trace_id for span in spans}) == 2
    assert seen == ["north", "north"]


async def test_a_child_process_has_the_span_of_the_worker_and_its_baggage():
    app, exporter = traced_tasks.app, traced_tasks.exporter
    exporter.clear()
    async with app, app.worker("apart", concurrency=1):
        with with_baggage(shop="north"):
            found = await (await traced_tasks.apart.enqueue(fails=False)).result(timeout=60)
        with pytest.raises(Exception, match="hush"):
            await (await traced_tasks.apart.enqueue(fails=True)).result(timeout=60)

    good, bad = [span for span in exporter.get_finished_spans() if span.name == "process apart"]
    assert (found["trace"], found["span"]) == (good.context.trace_id, good.context.span_id)
    assert found["baggage"] == {"shop": "north"}
    assert bad.attributes["error.type"] == "ValueError"
    assert "hush" not in bad.to_json()
