"""A Django program whose jobs lose their database connections; ``main`` prints what became of them."""

import json
import os
from contextlib import suppress

import django
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


TASKS = {
    (call, run): app.task(name=f"{call.__name__}.{run}", run=run, attempts=1)(call)
    for call in (lose, count)
    for run in ("thread", "process")
}


async def main(run: str) -> None:
    """Run a job that loses its connection, and two after it on the same thread or child."""
    ends = []
    async with app, app.worker(concurrency=1):
        for call in (lose, count, count):
            job = await TASKS[call, run].enqueue()
            with suppress(Exception):
                await job.result(timeout=20)
            ends.append((await job.info()).status.value)
    print(json.dumps(ends))  # noqa: T201
