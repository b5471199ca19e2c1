"""The database of a site that people are invited to: what is cleaned up, summed up and checked."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

ARCHIVED_AFTER = timedelta(days=90)

SCHEMA = """
create table if not exists users (name text primary key);
create table if not exists invitations (email text primary key, expires_at text not null);
create table if not exists sessions (token text primary key, expires_at text not null);
create table if not exists projects (name text primary key, updated_at text not null, archived_at text);
create table if not exists events (id integer primary key, created_at text not null);
create table if not exists daily_metrics (date text primary key, event_count integer not null, recorded_at text not null);
"""


class Site:
    """Statements on the tables. Moments are text in UTC, so they can be compared."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._connect()) as database:
            database.executescript(SCHEMA)

    def clean_up(self, now: datetime) -> dict[str, int]:
        """Delete expired invitations and sessions, and archive projects that were not touched for 90 days."""
        with closing(self._connect()) as database, database:
            invitations = database.execute("delete from invitations where expires_at < ?", (text(now),))
            sessions = database.execute("delete from sessions where expires_at < ?", (text(now),))
            projects = database.execute(
                "update projects set archived_at = ? where updated_at < ? and archived_at is null",
                (text(now), text(now - ARCHIVED_AFTER)),
            )
        return {"invitations": invitations.rowcount, "sessions": sessions.rowcount, "archived": projects.rowcount}

    def sum_up(self, since: datetime, now: datetime) -> int:
        """Count the events of each day since a moment, and write each count over the one before it."""
        with closing(self._connect()) as database, database:
            days = database.execute(
                """
                insert into daily_metrics
                select date(created_at), count(*), ? from events where created_at >= date(?) group by date(created_at)
                on conflict (date) do update set event_count = excluded.event_count, recorded_at = excluded.recorded_at
                """,
                (text(now), text(since)),
            )
            return days.rowcount

    def active_sessions(self, now: datetime) -> int:
        """How many sessions are not over."""
        with closing(self._connect()) as database:
            return int(
                database.execute("select count(*) from sessions where expires_at >= ?", (text(now),)).fetchone()[0]
            )

    def check(self) -> None:
        """Read something; raises what the database raises."""
        with closing(self._connect()) as database:
            database.execute("select name from users limit 1").fetchall()

    def execute(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Run a statement and give its rows."""
        with closing(self._connect()) as database, database:
            return database.execute(statement, values).fetchall()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path)


def text(moment: datetime) -> str:
    """A moment as it is stored."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
