"""The page for other languages, done as it is written: its commands in a shell, its trigger in PostgreSQL."""

import asyncio
import subprocess
from collections.abc import AsyncIterator

import psycopg
import pytest

from examples.producers.tasks import greeting
from packhorse import App
from tests.conftest import kinds
from tests.docs.pages import FENCE, ROOT
from tests.examples.test_producers import environment
from tests.features.factories import everything, run

PAGE = ROOT / "docs" / "how-to" / "other-languages.md"
FENCES = [(fence["kind"], fence["text"]) for fence in FENCE.finditer(PAGE.read_text())]
PSQL, REDIS_CLI = (text for kind, text in FENCES if kind == "shell")
[TRIGGER] = (text for _, text in FENCES if "CREATE TRIGGER" in text)

only_postgres = pytest.mark.parametrize("kind", [kind for kind in kinds() if kind == "postgres"], indirect=True)
only_redis = pytest.mark.parametrize("kind", [kind for kind in kinds() if kind in ("redis", "valkey")], indirect=True)


@pytest.fixture
async def app(place: str) -> AsyncIterator[App]:
    async with App(place) as made:
        greeting(made)
        await made.open()
        yield made


async def typed(commands: str, kind: str, url: str) -> str:
    """What the commands of a page print, typed where the store is."""
    shell = ["bash", "-euo", "pipefail", "-c", commands]
    done = await asyncio.to_thread(
        subprocess.run, shell, env=environment(kind, url), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def check(app: App, printed: str) -> None:
    [job] = await everything(app)
    assert (job.task, job.data, job.state.value) == ("greet", {"name": "Ada"}, "scheduled")
    assert job.id in printed


@only_postgres
async def test_the_line_for_psql_enqueues(app: App, kind: str, place: str):
    await check(app, await typed(PSQL, kind, place))


@only_redis
async def test_the_lines_for_redis_cli_enqueue(app: App, kind: str, place: str):
    address = place.replace("valkey://", "redis://")
    here = f'redis-cli() {{ command redis-cli -u {address} "$@"; }}\n'  # the page means the server of this machine

    await check(app, await typed(here + REDIS_CLI, kind, place))


@only_postgres
async def test_the_trigger_enqueues_with_what_it_was_called_for(app: App, place: str):
    async with await psycopg.AsyncConnection.connect(place) as connection:
        await connection.execute("create table customers (name text)")
        await connection.execute(TRIGGER.encode())
        await connection.commit()
        await connection.execute("insert into customers values ('Bob')")
        await connection.rollback()
        await connection.execute("insert into customers values ('Ada')")
        await connection.commit()

    [job] = await everything(app)
    await run(app)
    assert await app.job(job.id).result(timeout=5) == "Good day Ada"
