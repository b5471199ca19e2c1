"""What people must not write. Never run: mypy and pyright read it, and find exactly the marked lines wrong.

A mark says what mypy calls the mistake, then what pyright calls it, without its ``report``.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from packhorse import (
    App,
    Batch,
    Call,
    Group,
    Job,
    JobHandle,
    Keep,
    Message,
    Plan,
    Task,
    Unique,
    chain,
    chord,
    constant,
    current,
    exponential,
    group,
    retrying,
)

app = App("sqlite:///:memory:")


@dataclass
class Receipt:
    number: int


def use(*things: object) -> None:
    """Let nothing here be unused."""


@app.task
async def confirm(order_id: str, email: str, copies: int = 1) -> Receipt:
    return Receipt(len(order_id) + len(email) + copies)


@app.task(queue="pictures", attempts=4)
def resize(width: int, height: int) -> float:
    return width / height


@app.task()
def log(line: str) -> None:
    current().log.info(line)


@app.task
async def text(value: int, *, base: int = 10) -> str:
    return f"{value}{base}"


@app.task
async def length(word: str) -> int:
    return len(word)


@app.task
def total(values: list[float]) -> float:
    return sum(values)


@app.task
def nothing() -> None: ...


async def wrong_arguments() -> None:
    await confirm("o-1")  # wrong: call-arg CallIssue
    await confirm("o-1", 5)  # wrong: arg-type ArgumentType
    resize("1", 2)  # wrong: arg-type ArgumentType
    resize(1, 2, 3)  # wrong: call-arg CallIssue
    await confirm.enqueue()  # wrong: call-arg CallIssue
    await confirm.enqueue("o-1")  # wrong: call-arg CallIssue
    await confirm.enqueue(1, "a@b.c")  # wrong: arg-type ArgumentType
    await confirm.enqueue("o-1", email=5)  # wrong: arg-type ArgumentType
    await confirm.enqueue("o-1", "a@b.c", 1, 2)  # wrong: call-arg CallIssue
    await confirm.enqueue("o-1", mail="a@b.c")  # wrong: call-arg CallIssue
    await confirm.enqueue("o-1", "a@b.c", copies="2")  # wrong: arg-type ArgumentType
    await resize.enqueue(width=1.5, height=2)  # wrong: arg-type ArgumentType
    await nothing.enqueue(1)  # wrong: call-arg CallIssue
    await text.enqueue(1, 10)  # wrong: call-arg CallIssue
    await confirm.using(delay=5).enqueue("o-1")  # wrong: call-arg CallIssue
    await confirm.using(delay=5).enqueue("o-1", None)  # wrong: arg-type ArgumentType
    confirm.call("o-1")  # wrong: call-arg CallIssue
    resize.call(1, height="2")  # wrong: arg-type ArgumentType
    log.using(priority=1).call(b"line")  # wrong: arg-type ArgumentType


async def wrong_use_of_results(job: JobHandle[Receipt]) -> None:
    use((await job.result()).total)  # wrong: attr-defined AttributeAccessIssue
    number: int = await job.result()  # wrong: assignment AssignmentType
    late: Receipt = job.result()  # wrong: assignment AssignmentType
    size: int = await (await resize.enqueue(1, 2)).result()  # wrong: assignment AssignmentType
    await (await log.enqueue("line")).result(timeout=[5])  # wrong: arg-type ArgumentType
    handle: JobHandle[str] = await confirm.enqueue("o-1", "a@b.c")  # wrong: assignment AssignmentType
    call: Call[str] = confirm.call("o-1", "a@b.c")  # wrong: assignment AssignmentType
    receipt: Receipt = confirm("o-1", "a@b.c")  # wrong: assignment AssignmentType
    plain: Coroutine[Any, Any, float] = resize(1, 2)  # wrong: assignment AssignmentType
    await resize(1, 2)  # wrong: misc GeneralTypeIssues
    await confirm.enqueue("o-1", "a@b.c").result()  # wrong: attr-defined AttributeAccessIssue
    await job.finish()  # wrong: attr-defined AttributeAccessIssue
    async for _ in await job.stream():  # wrong: misc GeneralTypeIssues
        pass
    done: bool = await job.state()  # wrong: assignment AssignmentType
    use(number, late, size, handle, call, receipt, plain, done)


@app.task(retries=3)  # wrong: call-overload CallIssue
async def with_an_unknown_option() -> None: ...


@app.task(attempts="3")  # wrong: call-overload ArgumentType
async def with_text_for_a_number() -> None: ...


@app.task(backoff=2)  # wrong: call-overload ArgumentType
async def with_a_number_for_a_backoff() -> None: ...


@app.task(retry_on=ConnectionError)  # wrong: call-overload ArgumentType
async def with_one_class_for_several() -> None: ...


@app.task(dead_on=("ValueError",))  # wrong: arg-type ArgumentType
async def with_names_for_classes() -> None: ...


@app.task(run="fiber")  # wrong: call-overload ArgumentType
def with_an_unknown_way_to_run() -> None: ...


@app.task(lane_on_dead="stop")  # wrong: call-overload ArgumentType
def with_an_unknown_end() -> None: ...


@app.task("name")  # wrong: call-overload CallIssue
async def with_a_name_in_the_wrong_place() -> None: ...


@app.task(keep_done="100")  # wrong: call-overload ArgumentType
async def with_text_for_what_is_kept() -> None: ...


async def wrong_options() -> None:
    App(attempts="3")  # wrong: arg-type ArgumentType
    App(retries=3)  # wrong: call-arg CallIssue
    confirm.using(dealy="1h")  # wrong: call-arg CallIssue
    confirm.using(delay=[1])  # wrong: arg-type ArgumentType
    confirm.using(at="tomorrow")  # wrong: arg-type ArgumentType
    confirm.using(id=42)  # wrong: arg-type ArgumentType
    confirm.using(headers=["a"])  # wrong: arg-type ArgumentType
    confirm.using(priority="high")  # wrong: arg-type ArgumentType
    confirm.using("1h")  # wrong: call-arg CallIssue
    await confirm.enqueue("o-1", "a@b.c", within=object())  # wrong: call-arg CallIssue
    confirm.call("o-1", "a@b.c").using(dealy="1h")  # wrong: call-arg CallIssue
    confirm.call("o-1", "a@b.c").using(delay=[1])  # wrong: arg-type ArgumentType
    await confirm.enqueue("o-1", "a@b.c", delay="1h")  # wrong: call-arg CallIssue
    confirm.using(unique=Unique(until="ended"))  # wrong: arg-type ArgumentType
    Unique(withing="5s")  # wrong: call-arg CallIssue
    Unique(key=5)  # wrong: arg-type ArgumentType
    Keep(count="10")  # wrong: arg-type ArgumentType
    Keep(days=7)  # wrong: call-arg CallIssue
    exponential([1])  # wrong: arg-type ArgumentType
    exponential(1, factor=3)  # wrong: call-arg CallIssue
    constant()  # wrong: call-arg CallIssue
    use(Keep(10).age + timedelta(1))  # wrong: operator OperatorIssue


async def wrong_calls() -> None:
    await app.enqueue(confirm)  # wrong: call-overload ArgumentType
    await app.enqueue(confirm.enqueue("o-1", "a@b.c"))  # wrong: call-overload ArgumentType
    await app.enqueue([confirm.call("o-1", "a@b.c")])  # wrong: call-overload ArgumentType
    await app.enqueue(log.call("line"), delay="1h")  # wrong: call-overload CallIssue
    app.job(42)  # wrong: arg-type ArgumentType
    await app.find(quueue="email")  # wrong: call-arg CallIssue
    await app.find(enqueued_after="yesterday")  # wrong: arg-type ArgumentType


async def wrong_links() -> None:
    chain(resize.call(1, 2), text)  # wrong: misc ArgumentType
    chain(length.call("a"), text, text)  # wrong: misc ArgumentType
    chain(length.call("a"), text, length, length)  # wrong: misc ArgumentType
    chain(length.call("a"), text, length, text, text)  # wrong: misc ArgumentType
    chain(length.call("a"), length, text, length, text)  # wrong: misc ArgumentType
    chain(length.call("a"), text.using(delay=5), text.using(delay=5))  # wrong: misc ArgumentType
    chain(length.call("a"), nothing)  # wrong: arg-type ArgumentType
    chain(length.call("a"), resize)  # wrong: arg-type ArgumentType
    chain(length.call("a"), text.call(1))  # wrong: call-overload ArgumentType
    chain(length.call("a"), group(length, length))  # wrong: misc ArgumentType
    chain(group(length.call("a"), length.call("b")), text)  # wrong: misc ArgumentType
    chord(group(length, length), text)  # wrong: arg-type ArgumentType
    chain(log.call("a"), text)  # wrong: misc ArgumentType
    chain(length.call("a"), text, on_failure="skip")  # wrong: call-overload CallIssue
    chain(length.call("a"), text, on_failure="none")  # wrong: call-overload CallIssue
    chain(length.call("a"), text, delay="1h")  # wrong: call-overload CallIssue
    plan: Plan[int] = chain(length.call("a"), text)  # wrong: arg-type AssignmentType
    number: int = await (await chain(length.call("a"), text).enqueue()).result()  # wrong: assignment AssignmentType
    use(plan, number)


async def wrong_groups() -> None:
    group()  # wrong: call-overload CallIssue
    group([length.call("a")])  # wrong: call-overload ArgumentType
    group(length.call("a"), length.call(1))  # wrong: arg-type ArgumentType
    group(length.call("a"), on_failure="ignore")  # wrong: call-overload CallIssue
    words: Group[str] = group(length.call("a"), length.call("b"))  # wrong: arg-type AssignmentType
    texts: list[str] = await (await group(length.call("a")).enqueue()).result()  # wrong: assignment AssignmentType
    sure: Group[int] = group(length.call("a"), on_failure="none")  # wrong: assignment AssignmentType
    chord(group(text.call(1), text.call(2)), total)  # wrong: misc ArgumentType
    chord(group(resize.call(1, 2)), resize)  # wrong: arg-type ArgumentType
    chord(group(resize.call(1, 2), on_failure="none"), total)  # wrong: misc ArgumentType
    chord(resize.call(1, 2), total)  # wrong: call-overload ArgumentType
    chord([resize.call(1, 2)], total)  # wrong: call-overload ArgumentType
    plan: Plan[str] = chord(group(resize.call(1, 2)), total)  # wrong: arg-type AssignmentType
    use(words, texts, sure, plan)


@app.task
async def wrong_use_of_the_context(rows: list[str]) -> None:
    ctx = current()
    ctx.progress("half")  # wrong: arg-type ArgumentType
    ctx.enqueue(log)  # wrong: arg-type ArgumentType
    ctx.enqueue("line")  # wrong: arg-type ArgumentType
    ctx.attempt = 3  # wrong: misc AttributeAccessIssue
    ctx.finish()  # wrong: attr-defined AttributeAccessIssue
    number: int = ctx.tenant  # wrong: assignment AssignmentType
    for row in ctx.track(rows):
        use(row + 1, number)  # wrong: operator OperatorIssue


emails = app.queue("email", keep_done=Keep(10, "24h"))


@emails.handler  # wrong: type-var ArgumentType
async def takes_no_job() -> None: ...


@emails.handler  # wrong: type-var ArgumentType
async def takes_text(job: str) -> None: ...


@emails.handler  # wrong: type-var ArgumentType
def takes_more(job: Job, attempt: int) -> None: ...


@emails.batch(size="10")  # wrong: arg-type ArgumentType
async def of_a_size_in_words(batch: Batch) -> None: ...


@emails.batch(count=10)  # wrong: call-arg CallIssue
async def with_an_unknown_bound(batch: Batch) -> None: ...


@emails.batch()  # wrong: type-var ArgumentType
async def takes_one_job(job: Job) -> None: ...


@emails.batch()  # wrong: type-var ArgumentType
def is_not_async(batch: Batch) -> None: ...


@emails.batch  # wrong: arg-type CallIssue
async def without_brackets(batch: Batch) -> None: ...


async def wrong_use_of_queues(message: Message) -> None:
    app.queue("email", limt=5)  # wrong: call-arg CallIssue
    app.queue(5)  # wrong: arg-type ArgumentType
    await emails.enqueue("send-welcome", {"user_id": "abc"}, dealy="1h")  # wrong: call-arg CallIssue
    await emails.enqueue("send-welcome", ["abc"])  # wrong: arg-type ArgumentType
    await emails.enqueue(confirm)  # wrong: arg-type ArgumentType
    emails.call("send-welcome", priority="high")  # wrong: arg-type ArgumentType
    message.retry(["20s"])  # wrong: arg-type ArgumentType
    message.dead(5)  # wrong: arg-type ArgumentType
    message.fail()  # wrong: attr-defined AttributeAccessIssue


async def wrong_workers() -> None:
    with app.worker("email"):  # wrong: attr-defined GeneralTypeIssues
        pass
    async with app.worker({"critical": "6"}):  # wrong: dict-item ArgumentType
        pass
    async with app.worker("email", threads=5):  # wrong: call-arg CallIssue
        pass
    async with app.worker("email", concurrency="5") as worker:  # wrong: arg-type ArgumentType
        worker.stop()
    await app.worker().run(5)  # wrong: call-arg CallIssue
    app.worker(5)  # wrong: arg-type ArgumentType


async def download(url: str) -> bytes:
    return url.encode()


def measure(word: str) -> int:
    return len(word)


async def wrong_retrying() -> None:
    content: str = await retrying(download, "http://a", attempts=3)  # wrong: arg-type AssignmentType
    number: str = await retrying(measure, "word")  # wrong: arg-type AssignmentType
    await retrying(download, "http://a", attempts="3")  # wrong: call-overload CallIssue
    await retrying(download, "http://a", retry_on=OSError)  # wrong: call-overload CallIssue
    await retrying(download("http://a"))  # wrong: call-overload CallIssue
    await retrying(lambda: download(5), attempts=3)  # wrong: arg-type ArgumentType
    await retrying(measure("word"))  # wrong: call-overload CallIssue
    use(content, number)


def wrong_use_without_an_event_loop() -> None:
    confirm.sync.enqueue("o-1")  # wrong: call-arg CallIssue
    confirm.sync.enqueue("o-1", 5)  # wrong: arg-type ArgumentType
    confirm.sync.enqueue("o-1", mail="a@b.c")  # wrong: call-arg CallIssue
    confirm.using(dealy=5).sync.enqueue("o-1", "a@b.c")  # wrong: call-arg CallIssue
    confirm.using(delay=5).sync.enqueue("o-1", None)  # wrong: arg-type ArgumentType
    number: int = confirm.sync.enqueue("o-1", "a@b.c").result()  # wrong: assignment AssignmentType
    size: int = resize.sync.enqueue(1, 2).result(timeout=5)  # wrong: assignment AssignmentType
    resize.sync.enqueue(1, 2).result(timeout=[5])  # wrong: arg-type ArgumentType
    job: JobHandle[Receipt] = confirm.sync.enqueue("o-1", "a@b.c")  # wrong: assignment AssignmentType
    resize.sync.enqueue(1, 2).cancel(5)  # wrong: call-arg CallIssue
    done: bool = resize.sync.enqueue(1, 2).state()  # wrong: assignment AssignmentType
    resize.sync.enqueue(1, 2).finish()  # wrong: attr-defined AttributeAccessIssue
    word: str = chord(group(resize.call(1, 2)), total).sync.enqueue().result()  # wrong: assignment AssignmentType
    app.sync.enqueue(confirm)  # wrong: call-overload ArgumentType
    app.sync.find(quueue="email")  # wrong: call-arg CallIssue
    app.sync.find(enqueued_after="yesterday")  # wrong: arg-type ArgumentType
    app.sync.queue("email").enqueue("send-welcome", dealy="1h")  # wrong: call-arg CallIssue
    app.sync.queue("email").pause(5)  # wrong: call-arg CallIssue
    app.sync.job(42)  # wrong: arg-type ArgumentType
    use(number, size, job, done, word)


async def twice(task: Task[[str], object], argument: str) -> None:
    await task.enqueue(argument)


async def wrong_tasks_for_functions_over_tasks() -> None:
    await twice(text, "1")  # wrong: arg-type ArgumentType
    await twice(resize, "1")  # wrong: arg-type ArgumentType
    await twice(download, "1")  # wrong: arg-type ArgumentType
