"""Tasks for worker processes. Their app lives where the environment says; they record in the ledger what they do."""

import asyncio
import os
import time

from packhorse import App, Batch, current

app = App()
_LEDGER = os.open(os.environ.get("PACKHORSE_TEST_LEDGER", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(*words: object) -> None:
    """Add a line to the ledger, with one write."""
    os.write(_LEDGER, (" ".join(map(str, words)) + "\n").encode())


@app.task(name="slow", queue="slow")
async def slow(seconds: float) -> None:
    note("begin", os.getpid())
    await asyncio.sleep(seconds)
    note("end", os.getpid())


@app.task(name="quick")
async def quick(number: int) -> int:
    return number


@app.task(name="sits", queue="sits")
async def sits() -> str:
    """Sits there the first time."""
    note("begin", os.getpid(), current().attempt)
    if current().attempt == 1:
        await asyncio.Event().wait()
    return "saved"


@app.queue("mail").batch(size=10, wait=1)
async def stops_half_way(batch: Batch) -> None:
    """Has a verdict for the first four, then sits there."""
    for message in batch[:4]:
        message.done()
    note("half", len(batch), *(message.data["number"] for message in batch))
    await asyncio.Event().wait()


@app.task(name="blocks", queue="blocks", timeout=1.5, attempts=1)
def blocks() -> None:
    """Holds up its process for a minute."""
    note("begin", os.getpid())
    time.sleep(60)
    note("end", os.getpid())


@app.task(name="moment")
async def moment() -> float:
    """The moment of its end, on the clock that all processes of a machine share."""
    await asyncio.sleep(0.02)
    return time.monotonic()


@app.task(name="drips", queue="drips")
async def drips() -> None:
    """Two pieces, then it sits there; the next time three."""
    for number in range(2):
        current().emit(number)
    if current().attempt == 1:
        await asyncio.Event().wait()
    current().emit(2)


async def drips_in_a_transaction() -> None:
    """Two pieces beside a transaction, then it sits there; the next time three."""
    await current().tx.execute("select 1")
    for number in range(2):
        current().emit(number)
    note("dripped", current().attempt)
    if current().attempt == 1:
        await asyncio.Event().wait()
    current().emit(2)


if os.environ.get("PACKHORSE_URL", "").startswith(("sqlite", "postgres")):
    app.task(name="drips_in_a_transaction", queue="drips", transaction=True)(drips_in_a_transaction)


@app.task(name="step", queue="lanes")
async def step(key: str, number: int) -> None:
    """One job of a lane: says when it begins and ends."""
    note("begin", key, number, os.getpid())
    await asyncio.sleep(0)
    note("end", key, number, os.getpid())


@app.task(name="tick", queue="ticks")
async def tick() -> None:
    """What the schedules of a test run."""


@app.task(name="part", queue="plans")
async def part(number: int) -> int:
    """One of many calls side by side: says that it ran."""
    note("part", number)
    await asyncio.sleep(0)
    return number


@app.task(name="together", queue="plans")
async def together(numbers: list[int]) -> int:
    """What comes after them: says how many there were."""
    note("together", len(numbers))
    return sum(numbers)


@app.task(name="sum", queue="plans")
async def sum_of(numbers: list[int]) -> int:
    """What comes after parts of nested plans."""
    return sum(numbers)
