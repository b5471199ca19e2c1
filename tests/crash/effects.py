"""Jobs that write rows in their transactions, while workers are killed and servers crash.

One row for each job that is done, none for one that is dead, exactly: the row and the end of the job are one commit.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from packhorse.engine.attempt import current_attempt
from packhorse.engine.context import current
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Entry, Run
from packhorse.engine.tx import FROM_STORE, Opens
from packhorse.jobs.user_transactions import SessionFactory
from packhorse.model.backoff import Backoff
from packhorse.model.job import NewJob, State
from tests.crash.family import ask
from tests.crash.kills import kill_workers_and_producers
from tests.crash.outages import kill_server
from tests.crash.scene import EFFECTS, POLICY, Scene, job
from tests.crash.tally import Tally
from tests.factories import found
from tests.servers import Server

SOON = Backoff(20_000)


def write_through_kills(scene: Scene, tally: Tally, chance: random.Random, *, kills: int, jobs: int) -> None:
    """Workers and producers are killed, at any moment between a statement and the end of a commit."""
    begin(scene)
    kill_workers_and_producers(scene, tally, chance, kills=kills, jobs=jobs, ahead=1000)
    compare(scene, tally)


def write_through_crashes(scene: Scene, tally: Tally, chance: random.Random, *, kills: int, server: Server) -> None:
    """The server crashes, also while it commits."""
    begin(scene)
    kill_server(scene, tally, chance, kills=kills, server=server, make=writing)
    compare(scene, tally)


def table(scene: Scene) -> str:
    """The table of the user's own; beside those of other runs on the same server."""
    return f"written_in_{scene.namespace}"


def begin(scene: Scene) -> None:
    """Make the table, and let workers know the tasks that write to it."""
    scene.make, scene.doomed, scene.more = writing, doomed, tasks(scene)
    ask(lambda: run(scene, f"drop table if exists {table(scene)}"))
    ask(lambda: run(scene, f"create table {table(scene)} (job text, token text)"))


def compare(scene: Scene, tally: Tally) -> None:
    """Hold the rows against the jobs."""
    answer = ask(lambda: counted(scene))
    for words, count in answer["wrong"].items():
        tally.expect(not count, f"{count} {words}")
    tally.expect(answer["dead"], "no job died: nothing shows that the dead leave no row")
    tally.notes.append(f"{answer['rows']:,} rows of {answer['done']:,} done jobs, none of {answer['dead']:,} dead ones")


async def counted(scene: Scene) -> dict[str, Any]:
    """How many rows there are for each job; for a child."""
    rows = await run(scene, f"select job, token from {table(scene)}")
    store = scene.store()
    await store.open()
    states = {job.id.hex(): job.state for job in await found(store, limit=1000)}
    effects = set()
    read = 0
    while page := await store.streams.read(EFFECTS, after=read, limit=1000):
        effects |= {tuple(event.data.decode().split()) for event in page}
        read = page[-1].offset
    await store.close()
    written = Counter(job for job, _ in rows)
    done = {job for job, state in states.items() if state is State.DONE}
    dead = {job for job, state in states.items() if state is State.DEAD}
    wrong = {
        "done jobs have no row": len(done - set(written)),
        "rows are there twice": sum(count - 1 for count in written.values()),
        "rows are of jobs that are not done": len(set(written) - done),
        "rows came from another attempt than the effect": len(set(map(tuple, rows)) ^ effects),
    }
    return {"rows": len(rows), "done": len(done), "dead": len(dead), "wrong": wrong}


async def run(scene: Scene, statement: str) -> list[tuple[str, str]]:
    """Run a statement by a connection of our own; for a child."""
    if scene.kind == "postgres":
        import asyncpg

        connection = await asyncpg.connect(scene.url)
        rows = [tuple(row) for row in await connection.fetch(statement)]
        await connection.close()
        return rows
    import sqlite3

    file = sqlite3.connect(scene.url.removeprefix("sqlite:///"), timeout=30)
    rows = file.execute(statement).fetchall()
    file.commit()
    file.close()
    return rows


def doomed(job: str) -> bool:
    """Whether a job fails at every try, after it wrote its row."""
    return random.Random(job).random() < 0.05


def writing(id: bytes) -> NewJob:
    """A job that writes a row, in one of several ways; always the same for an id."""
    chance = random.Random(id)
    pause = chance.uniform(0, 0.004) if chance.random() < 0.2 else 0.0
    if doomed(id.hex()):
        return job("doom_in_session" if chance.random() < 0.2 else "doom", id, pause=pause)
    [task] = chance.choices(("write", "write_in_thread", "write_in_session"), (6, 3, 1))
    return job(task, id, pause=pause, again=chance.random() < 0.05)


def session(scene: Scene) -> Any:
    """A connection of the user's own."""
    if scene.kind == "postgres":
        import psycopg

        return psycopg.connect(scene.url)
    import sqlite3

    file = sqlite3.connect(scene.url.removeprefix("sqlite:///"), timeout=30)
    file.execute("pragma wal_autocheckpoint = 0")  # as the page on transactions says
    return file


def tasks(scene: Scene) -> list[Entry]:
    """Tasks that write rows; what each leaves as an effect names the same attempt."""

    def statement() -> str:
        lease = current_attempt().lease
        return f"insert into {table(scene)} values ('{lease.id.hex()}', '{lease.token.hex()}')"

    def leave() -> None:
        ctx = current()
        ctx.publish(EFFECTS, f"{ctx._attempt.lease.id.hex()} {ctx._attempt.lease.token.hex()}".encode())

    async def write(pause: float, again: bool = False) -> None:
        assert await current().tx.execute(statement()) == 1
        await asyncio.sleep(pause)
        if again and current().attempt == 1:
            raise ConnectionError("once more")
        leave()

    def write_in_thread(pause: float, again: bool = False) -> None:
        assert current().tx.execute(statement()) == 1
        time.sleep(pause)
        if again and current().attempt == 1:
            raise ConnectionError("once more")
        leave()

    def write_in_session(pause: float, again: bool = False) -> None:
        current().tx.execute(statement())
        time.sleep(pause)
        if again and current().attempt == 1:
            raise ConnectionError("once more")
        leave()

    async def doom(pause: float) -> None:
        await write(pause)
        raise ValueError("never")

    def doom_in_session(pause: float) -> None:
        write_in_session(pause)
        raise ValueError("never")

    policy = msgspec.structs.replace(POLICY, backoff=SOON)
    short = msgspec.structs.replace(policy, attempts=2)
    own = SessionFactory(lambda: session(scene))
    ways: list[tuple[Callable[..., Any], Run, Policy, Opens]] = [
        (write, Run.ASYNC, policy, FROM_STORE),
        (write_in_thread, Run.THREAD, policy, FROM_STORE),
        (write_in_session, Run.THREAD, policy, own),
        (doom, Run.ASYNC, short, FROM_STORE),
        (doom_in_session, Run.THREAD, short, own),
    ]
    return [Entry(name=call.__name__, call=call, run=run, policy=how, transaction=tx) for call, run, how, tx in ways]
