"""How SQLite goes about our statements: what it reads for each is kept here, so that a change is noticed."""

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from packhorse.model.outcome import Done
from packhorse.stores import open_store
from packhorse.stores.sqlite.unit_of_work import SQL
from tests.factories import MINUTE, Settlement, new, put_in, take

STATEMENTS = sorted(SQL.names - {"create_migrations"})
SMALL = frozenset(
    (
        "running", "l", "retention_groups", "s", "queues", "counts", "workers", "claim_requests", "migrations",
        "moment", "sqlite_master",
        "sqlite_temp_master", "CONSTANT",
        "p",  # priorities, one by one
        "e",  # the oldest of a retention group, a few
        "d", "given",  # what is given
    )
)  # fmt: skip
HOT = {
    "last_claim_request": ["packhorse_claim_requests PRIMARY KEY (worker=?)"],
    "due_now": ["packhorse_scheduled packhorse_scheduled_order (queue=? AND since<?)"],
    "first_due": ["packhorse_scheduled packhorse_scheduled_order (queue=?)"],
    "next_due": ["packhorse_scheduled packhorse_scheduled_order (queue=? AND since>?)"],
    "any_ready": ["packhorse_ready packhorse_ready_order (queue=?)"],
    "pick": ["r packhorse_ready_order (queue=?)", "j PRIMARY KEY (rowid=?)"],
    "lease": ["packhorse_ready packhorse_ready_order (queue=?)"],
    "leave_head": ["packhorse_ready packhorse_ready_order (queue=? AND (priority,since,number)<(?,?,?))"],
    "renew": ["packhorse_running PRIMARY KEY (rowid=?)"],
    "taken": ["packhorse_jobs packhorse_jobs_id (id=?)", "packhorse_tombstones PRIMARY KEY (id=?)"],
    "has_tombstone": ["packhorse_tombstones PRIMARY KEY (id=?)"],
    "any_tombstone": ["t PRIMARY KEY (id=?)"],
    "ready_new": ["packhorse_jobs PRIMARY KEY (rowid>? AND rowid<?)"],
    "unique_holder": ["packhorse_unique_keys PRIMARY KEY (key=?)"],
    "seqs": ["j packhorse_jobs_id (id=?)"],
    "facts": ["j PRIMARY KEY (rowid=?)"],
    "leases_of": ["l PRIMARY KEY (rowid=?)"],
    "leave_running": ["packhorse_running PRIMARY KEY (rowid=?)"],
    "end_plain": ["l PRIMARY KEY (rowid=?)"],
    "ended_since": ["e PRIMARY KEY (rowid=?)"],
    "settled_before": [
        "packhorse_ended PRIMARY KEY (rowid=?)",
        "packhorse_tries PRIMARY KEY (seq=?)",
        "packhorse_tombstones PRIMARY KEY (id=?)",
    ],
    "next_in_lanes": ["w PRIMARY KEY (rowid=?)", "x packhorse_waiting_lane (queue=? AND lane=?)"],
    "first_beyond_count": ["packhorse_ended packhorse_ended_retention_group (retention_group=?)"],
    "prunable": [
        "e packhorse_ended_retention_group (retention_group=?)",
        "w PRIMARY KEY (rowid=?)",
        "j PRIMARY KEY (rowid=?)",
    ],
    "find_records": ["packhorse_records packhorse_records_key (kind=? AND key>? AND key<?)"],
    "page_ended": ["packhorse_ended packhorse_ended_retention_group (retention_group=? AND number<?)"],
    "page_ready": ["packhorse_ready packhorse_ready_order ((queue,priority,since,number)>(?,?,?,?) AND queue<?)"],
    "page_scheduled": ["packhorse_scheduled packhorse_scheduled_order ((queue,since,number)>(?,?,?) AND queue<?)"],
}
SEARCH = re.compile(r"SEARCH (\w+) USING (?:COVERING )?(?:INTEGER )?(?:INDEX )?(.*)")


@pytest.fixture(params=["empty", "known"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A layout without statistics, as it always is, and one where somebody ran ANALYZE."""
    path = tmp_path / "store.db"
    asyncio.run(made(path, jobs=0 if request.param == "empty" else 200))
    with closing(sqlite3.connect(path)) as connection:
        if request.param == "known":
            connection.execute("ANALYZE")
        yield connection


async def made(path: Path, jobs: int) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.migrate()
    await store.open()
    await put_in(store, *(new() for _ in range(jobs)), *(new(delay=MINUTE) for _ in range(jobs)))
    for _ in range(jobs // 100):
        await store.jobs.exchange([Settlement(lease, Done()) for lease in await take(store, 50)])
    await store.close()


def plan(database: sqlite3.Connection, name: str) -> list[str]:
    """The steps of a statement."""
    text = getattr(SQL, name)
    numbered = [int(n) for n in re.findall(r"\?(\d+)", text)]
    values = ["[]"] * (max(numbered, default=0) + len(re.findall(r"\?(?!\d)", text)))
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {text}", values)]


def test_no_statement_reads_a_big_table_from_end_to_end(database: sqlite3.Connection):
    scanned = {
        name: step
        for name in STATEMENTS
        for step in plan(database, name)
        if step.startswith("SCAN ")
        and "VIRTUAL TABLE" not in step
        and step.split()[1].removeprefix("packhorse_") not in SMALL
    }
    assert scanned == {}


def test_hot_statements_go_by_the_index_they_are_written_for(database: sqlite3.Connection):
    found = {
        name: [f"{match[1]} {match[2]}" for step in plan(database, name) if (match := SEARCH.match(step))]
        for name in HOT
    }
    assert found == HOT


def test_nothing_hot_is_sorted(database: sqlite3.Connection):
    """But for a few rows at a time, which the statement has picked before."""
    sorting = {name for name in HOT for step in plan(database, name) if "TEMP B-TREE" in step}
    assert sorting <= {"prunable"}
