"""packhorse doctor: what is in force, what is wrong, and how to fix it."""

import os
import sqlite3
from collections.abc import Iterator
from shlex import quote
from typing import Any

import pytest

from tests import servers
from tests.cli.scene import Scene
from tests.cli.shell import Ended, Shell

KEYS = {"name", "value", "grade", "advice"}


@pytest.fixture
def anywhere(tmp_path) -> Iterator[Scene]:
    """A shell that gets an address with each command."""
    made = Scene(tmp_path)
    yield made
    made.end()


def found(ended: Ended) -> dict[str, tuple[str, str, str]]:
    """The findings by name: grade, value, advice. All that is not as it should be has a fix."""
    assert all(set(finding) == KEYS for finding in ended.json)
    assert [finding for finding in ended.json if finding["grade"] != "ok" and not finding["advice"]] == []
    return {finding["name"]: (finding["grade"], finding["value"], finding["advice"]) for finding in ended.json}


def grades(ended: Ended, *names: str) -> list[str]:
    return [found(ended)[name][0] for name in names]


async def test_the_work_is_looked_at_with_a_fix_for_each_trouble(scenes: Scene):
    [ended] = await scenes.each("doctor --json")

    seen = found(ended)
    assert seen["layout"][0] == "ok"
    assert seen["workers"] == ("ok", "1 alive, 10 slots", "")
    assert seen["queues without a worker"] == (
        "warn",
        "held, nobody's",
        "packhorse worker -q " + quote("held,nobody's"),
    )
    assert seen["paused queues"] == ("note", "held", "packhorse queues resume held")
    assert seen["unroutable jobs"][:2] == ("warn", "1 of mial")
    assert seen["dead letters"] == ("note", "3", "packhorse dead groups")


async def test_a_file_is_sound_and_printed_to_be_where_it_is(scene: Scene):
    as_json, ended = await scene.each("doctor --json", "doctor")

    seen = found(as_json)
    assert ended.code == as_json.code == 0
    assert seen["file"][1] == str(scene.folder / "packhorse.db")
    assert seen["durability"][1].startswith("os: ")
    assert seen["journal mode"][1] == "wal"
    assert seen["SQLite"][0] == ("ok" if sqlite3.sqlite_version_info >= (3, 51, 3) else "warn")
    assert "ok    durability" in ended.out
    assert "fix: packhorse dead groups" in ended.out


async def test_without_a_layout_or_a_store_the_exit_code_is_one(anywhere: Scene):
    memory, missing, redis, postgres = await anywhere.each(
        "doctor --json --url sqlite:///:memory:",
        f"doctor --json --url sqlite:///{anywhere.folder}/none.db",
        "doctor --json --url redis://:secret@127.0.0.1:1",
        "doctor --json --url postgresql://127.0.0.1:1/x",
    )

    assert [memory.code, missing.code, redis.code, postgres.code] == [1, 1, 1, 1]
    assert found(memory)["durability"][:2] == ("note", "memory: all jobs are lost when this process ends")
    assert found(missing)["layout"] == ("bad", "1 step to be taken", "packhorse migrate up")
    assert grades(redis, "using the store") == grades(postgres, "using the store") == ["bad"]
    assert "secret" not in redis.out


async def test_tasks_without_a_timeout_are_named_where_an_app_is_known(folder: Shell):
    tasks = "".join(f"@app.task(name='{name}')\nasync def {name}(): ...\n" for name in "abcdefg")
    for name, options in {"endless": "", "timed": "timeout=5"}.items():
        folder.write(f"{name}.py", f"from packhorse import App\napp = App({options})\n{tasks}")

    endless, timed = [await folder.run("doctor", "--json", "-A", name) for name in ("endless", "timed")]

    grade, value, advice = found(endless)["tasks without a timeout"]
    assert (grade, value) == ("note", "7 of 7: a, b, c, d, e and 2 more")
    assert "timeout=" in advice
    assert found(timed)["tasks"][1] == "7, all with a timeout"


@pytest.fixture
def redis() -> Iterator[servers.Server]:
    """A Redis server of our own, which keeps nothing."""
    with servers.running("redis") as server:
        yield server


@pytest.fixture
def appending() -> Iterator[servers.Server]:
    """A Redis server that writes everything to disk before it answers."""
    with servers.running("redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


async def settings(server: servers.Server, *commands: str) -> None:
    from redis.asyncio import from_url

    client = from_url(server.url)
    for command in commands:
        await client.execute_command(*command.split())
    await client.aclose()


async def test_a_redis_that_evicts_is_bad_and_the_fix_is_printed(anywhere: Scene, redis: servers.Server):
    await settings(redis, "CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory 100mb")
    evicting, printed, refused = await anywhere.each(
        f"doctor --json --url {redis.url}", f"doctor --url {redis.url}", f"jobs ls --url {redis.url}"
    )
    await settings(redis, "CONFIG SET maxmemory-policy noeviction", "CONFIG SET appendonly yes")
    up, repaired = await anywhere.each(f"migrate up --url {redis.url}", f"doctor --json --url {redis.url}")

    assert evicting.code == printed.code == 1
    grade, value, advice = found(evicting)["maxmemory-policy"]
    assert (grade, value) == ("bad", "allkeys-lru")
    assert "CONFIG SET maxmemory-policy noeviction" in advice
    assert "bad   maxmemory-policy" in printed.out
    assert (refused.code, "set maxmemory-policy to noeviction" in refused.err) == (4, True)
    assert found(evicting)["durability"][:2] == ("warn", "memory: a server that ends, however it ends, loses all jobs")
    assert (up.code, repaired.code) == (0, 0)
    assert found(repaired)["durability"][1].startswith("process: a killed server loses nothing")
    assert grades(repaired, "Redis", "durability", "maxmemory-policy", "memory", "clock skew") == ["ok"] * 5


async def test_a_redis_that_hides_its_settings_is_no_error(anywhere: Scene, appending: servers.Server):
    rights = "on >pw ~* &* +@all -config"
    await settings(appending, f"ACL SETUSER clerk {rights}", f"ACL SETUSER mute {rights} -info")
    clerk, mute = (appending.url.replace("127.", f"{user}:pw@127.") for user in ("clerk", "mute"))
    urls = (appending.url, clerk, mute)

    _, whole, hidden, silent = await anywhere.each(
        f"migrate up --url {appending.url}", *(f"doctor --json --url {url}" for url in urls)
    )

    assert [whole.code, hidden.code, silent.code] == [0, 0, 0]
    assert found(whole)["durability"][1].startswith("os: ")
    assert grades(hidden, "settings", "maxmemory-policy", "durability") == ["note", "ok", "note"]
    assert grades(silent, "server", "settings", "maxmemory-policy", "durability") == ["note"] * 4


@pytest.fixture(scope="module")
def careful() -> Iterator[servers.Server]:
    """A PostgreSQL server as it comes."""
    with servers.running("postgres", "fsync=on", "full_page_writes=on", "synchronous_commit=on") as server:
        yield server


async def sql(server: servers.Server, script: str) -> Any:
    import asyncpg

    connection = await asyncpg.connect(server.url)
    await connection.execute(script)
    await connection.close()


async def test_a_postgres_as_it_comes_is_sound(anywhere: Scene, careful: servers.Server):
    fresh, _, sound = await anywhere.each(
        f"doctor --json --url {careful.url}", f"migrate up --url {careful.url}", f"doctor --json --url {careful.url}"
    )

    assert found(fresh)["schema packhorse"] == ("note", "does not exist yet", "`packhorse migrate up` creates it")
    assert fresh.code == 1
    assert sound.code == 0
    assert found(sound)["durability"][1].startswith("os: ")
    assert found(sound)["schema packhorse"][1] == "postgres may use and change it"
    assert (
        grades(sound, "PostgreSQL", "fsync", "isolation", "autovacuum", "connections", "pooler", "clock skew")
        == ["ok"] * 7
    )


async def test_roles_with_odd_settings_or_few_rights_are_reported_what_to_ask_for(
    anywhere: Scene, careful: servers.Server
):
    await sql(
        careful,
        "CREATE ROLE clerk LOGIN; CREATE ROLE odd SUPERUSER LOGIN;"
        "ALTER ROLE odd SET default_transaction_isolation = 'serializable'; ALTER ROLE odd SET synchronous_commit = off",
    )
    clerk, odd = (careful.url.replace("postgres@", f"{role}@") for role in ("clerk", "odd"))

    poor, loose = await anywhere.each(
        f"doctor --json --url {clerk} --namespace elsewhere", f"doctor --json --url {odd} --namespace elsewhere"
    )

    grade, value, advice = found(poor)["schema elsewhere"]
    assert (grade, value) == ("warn", "does not exist yet, and clerk may not create it")
    assert "GRANT CREATE ON DATABASE" in advice
    assert found(loose)["isolation"] == ("bad", "serializable", "ALTER ROLE odd RESET default_transaction_isolation")
    assert found(loose)["durability"][:2] == (
        "warn", "memory: killed workers lose nothing, a killed server or a power cut may lose the last 0.6 s",
    )  # fmt: skip


async def test_a_postgres_that_a_power_cut_destroys_is_bad(anywhere: Scene):
    """The server that all tests share is quick and careless."""
    [ended] = await anywhere.each(f"doctor --json --url {os.environ[servers.variable('postgres')]}")

    assert ended.code == 1
    assert grades(ended, "fsync", "full_page_writes") == ["bad", "bad"]
    assert "set fsync = on in postgresql.conf" in found(ended)["fsync"][2]
