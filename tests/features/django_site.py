"""A Django program whose jobs lose their database connections; ``main`` prints what became of them."""

import json
import os
from contextlib import suppress

import django
from asgiref.sync import sync_to_async
from django.conf import settings

from tests.features.callers import django_database

DATABASE = django_database(os.environ["TEST_KIND"], os.environ["PACKHORSE_URL"])
LASTING = {"CONN_MAX_AGE": 600} if os.environ["TEST_KIND"] == "postgres" else {}
if not settings.configured:
    settings.configure(DATABASES={"default": {**DATABASE, **LASTING}})
    django.setup()

from django.db import Error, connection  # noqa: E402

from packhorse import App  # noqa: E402

app = App()


def lose() -> None:
    """Use the connection of this thread, and have it end as if the server had been restarted."""
    with suppress(Error), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("select pg_terminate_backend(pg_backend_pid())")
        else:
            connection.connection.close()
            cursor.execute("select 1")


def count() -> int:
    """Ask the database for something."""
    with connection.cursor() as cursor:
        cursor.execute("select 1 + 1")
        return int(cursor.fetchone()[0])


async def lose_async() -> None:
    """The same for the connection that all coroutines share."""
    await sync_to_async(lose)()


async def count_async() -> int:
    """The same as a coroutine, as the ORM does it."""
    return await sync_to_async(count)()


CALLS = {"thread": (lose, count), "process": (lose, count), "async": (lose_async, count_async)}
CALLS["async process"] = CALLS["async"]
TASKS = {
    where: [app.task(name=f"{call.__name__}.{where}", run=where.split()[-1], attempts=1)(call) for call in calls]  # type: ignore[call-overload]
    for where, calls in CALLS.items()
}


async def main(where: str) -> None:
    """Run a job that loses its connection, and two after it on the same thread or child."""
    ends = []
    losing, counting = TASKS[where]
    async with app, app.worker(concurrency=1):
        for task in (losing, counting, counting):
            job = await task.enqueue()
            with suppress(Exception):
                await job.result(timeout=20)
            ends.append((await job.info()).state.value)
    print(json.dumps(ends))  # noqa: T201
