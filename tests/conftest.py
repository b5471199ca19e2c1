"""Servers for the whole run, and a store of each kind for each test that asks for one."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from packhorse.errors import SchemaMismatch
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.testing import TurnedClock
from tests import servers

KINDS = ("sqlite", "memory", "redis", "valkey", "postgres")
SERVERS = ("redis", "valkey", "postgres")
MEMORY, MEMORY_BYTES = Path("/dev/shm"), 4 << 30
STARTED = pytest.StashKey[list[servers.Server]]()
EMPTYING: dict[str, psycopg.Connection] = {}

# TRUNCATE makes new files for each table and index and takes twenty times as long as deleting the few rows of a test.
# It is left to tables of more than four pages, so that dead rows do not pile up. The locks wait for calls still under way.
EMPTY_SCHEMA = """
DO $$
DECLARE
    tables regclass[] := ARRAY(
        SELECT oid FROM pg_class
        WHERE relnamespace = to_regnamespace(quote_ident('$schema')) AND relkind = 'r' AND relname NOT IN ('migrations', 'identity')
    );
    large regclass[];
    one regclass;
BEGIN
    IF cardinality(tables) = 0 THEN
        RETURN;
    END IF;
    EXECUTE 'LOCK TABLE ' || array_to_string(tables, ', ');
    large := ARRAY(SELECT t FROM unnest(tables) t WHERE pg_relation_size(t) > 4 * 8192);
    IF cardinality(large) > 0 THEN
        EXECUTE 'TRUNCATE ' || array_to_string(large, ', ');
    END IF;
    FOREACH one IN ARRAY tables LOOP
        IF pg_relation_size(one) > 0 THEN
            EXECUTE 'DELETE FROM ' || one;
        END IF;
    END LOOP;
    PERFORM setval(oid::regclass, 1, false) FROM pg_class
    WHERE relnamespace = to_regnamespace(quote_ident('$schema')) AND relkind = 'S';
END
$$
"""

# Examples have no time limit: the first one may import a driver, and other tests may have the processor meanwhile.
settings.register_profile("packhorse", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("packhorse")


def all_kinds() -> tuple[str, ...]:
    """The stores to test: all, unless PACKHORSE_TEST_STORES names some (``sqlite`` stands for the embedded ones)."""
    named = os.environ.get("PACKHORSE_TEST_STORES")
    if not named:
        return KINDS
    asked = set(named.split(","))
    return tuple(kind for kind in KINDS if kind in asked or (kind == "memory" and "sqlite" in asked))


def kinds() -> tuple[str, ...]:
    """The same without Valkey where Redis is tested: the conformance tests show that both run the same scripts alike.

    Large runs (``PACKHORSE_TEST_LONG``) leave out neither.
    """
    both = all_kinds()
    if "redis" not in both or os.environ.get("PACKHORSE_TEST_LONG"):
        return both
    return tuple(kind for kind in both if kind != "valkey")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or config.option.collectonly or config.option.help:
        return
    # A shell ignores SIGINT in its background commands, and the processes of the tests would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    stay_in_memory()
    keep_bytecode(config)
    started: list[servers.Server] = []
    config.stash[STARTED] = started
    try:
        for kind in SERVERS:
            if kind in all_kinds():
                started.append(servers.find(kind))
                os.environ[servers.variable(kind)] = started[-1].url
    except (servers.NoServer, RuntimeError) as error:
        stop(config)
        pytest.exit(str(error), returncode=3)


def stay_in_memory() -> None:
    """Keep files of tests and servers in memory where there is room: a kill of a process loses nothing of it.

    Large runs stay on the disk, and so does who names a folder in TMPDIR.
    """
    if not MEMORY.is_dir() or "TMPDIR" in os.environ or os.environ.get("PACKHORSE_TEST_LONG"):
        return
    if shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        os.environ["TMPDIR"], tempfile.tempdir = str(MEMORY), None


def keep_bytecode(config: pytest.Config) -> None:
    """Keep bytecode for this run where none is written beside the source: many processes import the same modules."""
    if not os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        return
    folder = tempfile.mkdtemp(prefix=f"{servers.PREFIX}{os.getpid()}-bytecode-")  # removed later if this run is killed
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = folder
    sys.dont_write_bytecode = False


def pytest_unconfigure(config: pytest.Config) -> None:
    for connection in EMPTYING.values():
        connection.close()
    stop(config)


def stop(config: pytest.Config) -> None:
    for server in config.stash.get(STARTED, []):
        if server.process is not None:
            os.environ.pop(servers.variable(server.kind), None)
        server.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    import sqlite3

    tested = [f"SQLite {sqlite3.sqlite_version}"]
    tested += [f"{server.kind} {server.version} ({server.source})" for server in config.stash.get(STARTED, [])]
    terminalreporter.write_line("stores tested: " + ", ".join(tested))


def room() -> int:
    """A number of our own among the processes of this run."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def address(kind: str, folder: Path) -> str:
    """Where a store of this kind may live without meeting another test's."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'packhorse.db'}"
    if kind == "memory":
        return "sqlite:///:memory:"
    url = os.environ[servers.variable(kind)]
    if kind == "postgres":
        return url
    return urlsplit(url)._replace(path=f"/{room() + 1}").geturl()


def namespace(kind: str) -> str:
    """The name under which this process of the run keeps its things on a shared server."""
    return f"test_{room()}" if kind == "postgres" else "packhorse"


async def wipe(kind: str, url: str, name: str) -> None:
    """Leave nothing of an earlier test on a server."""
    if kind in ("redis", "valkey"):
        import redis.asyncio

        client = redis.asyncio.from_url(url.replace("valkey://", "redis://"))
        await client.flushdb()
        await client.aclose()
    elif kind == "postgres":
        await asyncio.to_thread(empty_schema, url, name)


def empty_schema(url: str, name: str) -> None:
    """Empty a schema by one connection for all tests: a new session forks a process and reads the catalogue again."""
    if url not in EMPTYING or EMPTYING[url].closed:
        EMPTYING[url] = psycopg.connect(url, autocommit=True)
    while True:
        with contextlib.suppress(
            psycopg.errors.DeadlockDetected
        ):  # with a call of a process that an earlier test killed
            EMPTYING[url].execute(EMPTY_SCHEMA.replace("$schema", name).encode())
            return


async def open_up(kind: str, store: Store) -> None:
    """Open a store, its layout up to date: on PostgreSQL that of an earlier test is, as a rule."""
    if kind == "postgres":
        with contextlib.suppress(SchemaMismatch):
            await store.open()
            return
    await store.migrate()
    await store.open()


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture(params=kinds())
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def url(kind: str, tmp_path: Path) -> str:
    """The address of an empty place for a store of each kind."""
    found = address(kind, tmp_path)
    await wipe(kind, found, namespace(kind))
    return found


@pytest.fixture
async def store(kind: str, url: str, clock: TurnedClock) -> AsyncIterator[Store]:
    """An open, empty store whose time the test turns."""
    made = open_store(url, namespace=namespace(kind), clock=clock)
    await open_up(kind, made)
    yield made
    await made.close()


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Threads a test started end with it."""
    import threading

    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.name.startswith("packhorse")]
    for thread in left:
        thread.join(2)
    assert not [t.name for t in left if t.is_alive()]
