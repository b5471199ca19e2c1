"""Ways in: users with few rights, passwords, databases, sockets, certificates; and what is refused at the door."""

import asyncio
import contextlib
import logging
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection

from packhorse.errors import ConfigError, DurabilityNotMet, StoreError, StoreFull, StoreUnavailable
from packhorse.model.finding import Grade
from packhorse.model.job import Retention
from packhorse.model.outcome import Done
from packhorse.stores import open_store
from packhorse.stores.contract import Topic
from packhorse.stores.redis.address import parse
from packhorse.stores.redis.scripts import shipped
from packhorse.stores.redis.store import RedisStore
from packhorse.testing import TurnedClock
from tests import servers
from tests.conformance.invariants import check
from tests.factories import end, new, put_in, take
from tests.integration.flowing import Plan
from tests.integration.keyspaces import KINDS, NONE, SERVERS, client_of, opened
from tests.integration.test_redis import VERBS, Scene
from tests.integration.torn import LONG

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "redis.md"
TIMES = 50 if LONG else 8


@pytest.fixture(scope="module", params=SERVERS)
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """A server of our own, with a socket beside its port."""
    folder = tmp_path_factory.mktemp("door")
    with servers.running(str(request.param), "--unixsocket", str(folder / "s"), "--unixsocketperm", "700") as server:
        server.folder.joinpath("socket").symlink_to(folder / "s")
        yield server


@pytest.fixture(autouse=True)
def emptied(own: servers.Server) -> None:
    async def flush() -> None:
        async with client_of(own.url) as client:
            await client.flushall()

    asyncio.run(flush())


def with_login(url: str, login: str) -> str:
    return url.replace("://", f"://{login}@")


# -- addresses


@pytest.mark.parametrize(
    ("url", "made", "options"),
    [
        (
            "redis://ox:h%40y@farm:1/2",
            Connection,
            {"host": "farm", "port": 1, "db": 2, "username": "ox", "password": "h@y"},
        ),
        ("redis://:hay@farm", Connection, {"host": "farm", "password": "hay"}),
        ("valkey://farm", Connection, {"host": "farm"}),
        ("rediss://farm:1", SSLConnection, {"host": "farm", "port": 1}),
        ("valkeys://farm:1/3", SSLConnection, {"host": "farm", "port": 1, "db": 3}),
        ("unix:///run/farm.sock?db=4", UnixDomainSocketConnection, {"path": "/run/farm.sock", "db": 4}),
        ("redis+sentinel://ox:hay@a:1,b/barn/5", Connection, {"username": "ox", "password": "hay", "db": 5}),
        ("valkeys+cluster://a,b:2", SSLConnection, {}),
    ],
)
def test_an_address_says_how_to_connect(url, made, options):
    address = parse(url)

    assert address.make is made
    assert options.items() <= address.options.items()
    open_store(url)


def test_an_address_names_sentinels_members_and_demands():
    address = parse("redis+sentinel://a:1,[::1]:2,b/my%20barn?sentinel_password=p&wait_replicas=2&wait_timeout=500ms")
    assert address.nodes == (("a", 1), ("::1", 2), ("b", 26379))
    assert (address.service, address.login) == ("my barn", {"password": "p"})
    assert (address.replicas, address.patience, address.evicting) == (2, 500_000, False)
    assert parse("redis+cluster://a,b:2?unsafe_eviction=yes").nodes == (("a", 6379), ("b", 2))


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://:hunter2@a:1", "redis+sentinel://:hunter2@a:x/barn", "redis+cluster://:hunter2@a:1/3",
        "redis+cluster://:hunter2@,", "redis://:hunter2@a:b", "redis://:hunter2@a:99999",
        "redis+cluster://:hunter2@a:1,b:99999", "redis://:hunter2@[::1", "redis+cluster://:hunter2@a,[::1",
        "redis://:hunter2@a?wait_replicas=some",
        "redis://:hunter2@a?unsafe_eviction=perhaps", "redis://:hunter2@a?colour=red",
    ],
)  # fmt: skip
def test_an_address_that_is_not_understood_is_refused_without_its_password(url):
    with pytest.raises(ConfigError) as refusal:
        RedisStore(url)
    assert "hunter2" not in str(refusal.value)


async def test_a_socket_a_database_and_a_login_lead_to_the_same_jobs(own):
    socket = own.folder / "socket"
    async with client_of(own.url) as client:
        await client.acl_setuser("ox", enabled=True, passwords=["+hay"], keys=["*"], channels=["*"], commands=["+@all"])
    plain = urlsplit(with_login(own.url, "ox:hay"))._replace(path="/3").geturl()
    async with opened(f"unix://ox:hay@{socket}?db=3") as store, opened(plain) as other:
        [job] = await put_in(store, new())
        assert [lease.id for lease in await take(other)] == [job]
    async with client_of(own.url) as client:
        assert await client.dbsize() == 0


# -- rights


def rule(namespace: str) -> list[str]:
    """What the page tells people to give a user."""
    [found] = re.findall(r"^ACL SETUSER packhorse (.+)$", PAGE.read_text(), re.MULTILINE)
    return str(found).replace("NAMESPACE", namespace).split()


async def test_a_user_with_no_more_rights_than_the_page_says_can_do_everything(own, clock):
    async with client_of(own.url) as client:
        await client.execute_command("ACL", "SETUSER", "packhorse", "reset", *rule("farm"))
        url = with_login(own.url, "packhorse:secret")
        for verb in VERBS:
            await client.flushall()
            scene = Scene()
            async with opened(url, namespace="farm", clock=clock) as store:
                await scene.build(store, clock)
                await VERBS[verb](store, scene)
                await store.queues.stats()
                await check(store)
        async with opened(url, namespace="farm", clock=clock) as store:
            for topic in Topic:
                waiting = asyncio.create_task(anext(store.wakes(topic)))
                await store.jobs.watch([job := new().id], 10**6)
                await put_in(store, new(), new(id=job))
                await store.jobs.cancel([job])
                await asyncio.wait_for(waiting, 20)
        assert {entry["reason"] for entry in await denials(client)} <= {"command"}
        with pytest.raises((ConfigError, StoreError)):
            await RedisStore(url, namespace="other").open()


async def denials(client) -> list[dict[str, str]]:
    """What the user was denied, but for what the driver says of itself."""
    return [entry for entry in await client.acl_log() if entry["object"] not in ("client", "client|setinfo")]


@pytest.mark.parametrize("command", ["xadd", "lpop", "publish", "zrangebylex", "xrange", "hkeys", "blpop", "subscribe"])
async def test_a_right_that_is_missing_is_named_at_the_start(own, command):
    async with client_of(own.url) as client:
        await client.execute_command("ACL", "SETUSER", "packhorse", "reset", *rule("farm"), f"-{command}")
        store = RedisStore(with_login(own.url, "packhorse:secret"), namespace="farm")
        await RedisStore(own.url, namespace="farm").migrate()
        with pytest.raises(ConfigError, match=command.upper()):
            await store.open()


async def test_who_waits_for_replicas_needs_the_right_to(own):
    async with client_of(own.url) as client:
        await client.execute_command("ACL", "SETUSER", "packhorse", "reset", *rule("farm"))
        url = with_login(own.url, "packhorse:secret")
        await RedisStore(url, namespace="farm").migrate()
        with pytest.raises(ConfigError, match="WAIT"):
            await RedisStore(f"{url}?wait_replicas=1", namespace="farm").open()
        await client.execute_command("ACL", "SETUSER", "packhorse", "+wait")
        async with opened(f"{url}?wait_replicas=1&wait_timeout=10ms", namespace="farm") as store:
            found = {finding.name: finding for finding in await store.examine()}["replicas"]
        assert (found.grade, "DurabilityNotMet" in found.advice) == (Grade.WARN, True)


def test_every_command_of_a_script_is_among_the_rights_that_are_tried():
    tried = set(re.findall(r"{ '([A-Z]+)'", shipped()["rights"].text))
    used = {name for verb in shipped().names for name in re.findall(r"'([A-Z]{3,})'", shipped()[verb].text)}
    assert used - tried - {"TIME", "LIMIT", "WITHSCORES", "COUNT", "MAXLEN", "MINID", "RANK", "NOPERM"} == set()


def test_the_page_names_tests_that_exist():
    written = "".join(path.read_text() for path in Path(__file__).parent.glob("test_redis*.py"))
    named = re.findall(r"`(test_\w+)`", PAGE.read_text())
    assert len(named) > 5
    assert [name for name in named if f"def {name}(" not in written] == []


# -- eviction


@contextlib.asynccontextmanager
async def evicting(url: str) -> AsyncIterator[None]:
    async with client_of(url) as client:
        await client.config_set("maxmemory-policy", "volatile-lru")
        try:
            yield
        finally:
            await client.config_set("maxmemory-policy", "noeviction")


async def test_a_server_that_may_evict_is_refused_unless_it_is_put_up_with(own, caplog):
    async with evicting(own.url):
        await RedisStore(own.url).migrate()
        with pytest.raises(DurabilityNotMet, match=r"noeviction.*unsafe_eviction=yes"):
            await RedisStore(own.url).open()
        assert not caplog.records
        async with opened(f"{own.url}?unsafe_eviction=yes") as store:
            await put_in(store, new())
    assert "acknowledged jobs may be lost" in caplog.text


async def test_a_server_that_does_not_tell_its_settings_is_trusted_with_a_warning(own, caplog):
    async with client_of(own.url) as client:
        await client.execute_command("ACL", "SETUSER", "packhorse", "reset", *rule("farm"), "-info")
    with caplog.at_level(logging.WARNING, "packhorse"):
        async with opened(with_login(own.url, "packhorse:secret"), namespace="farm") as store:
            await put_in(store, new())
    assert "make sure that it is noeviction" in caplog.text


async def test_a_server_that_is_full_is_drained_by_its_workers(own):
    async with client_of(own.url) as client, opened(own.url, clock=TurnedClock()) as store:
        await client.config_set("maxmemory", (await client.info("memory"))["used_memory"] + 3_000_000)
        try:
            stored = ended = 0
            with contextlib.suppress(StoreFull):
                while stored < 10_000:
                    stored += len(await put_in(store, *(new(payload=b'"' + b"x" * 4000 + b'"') for _ in range(100))))
            while leases := await take(store, 100):
                for lease in leases:
                    await end(store, lease, Done(b"1", Retention(0, 0)))
                ended += len(leases)
                await store.jobs.prune(500)
            assert 100 < ended == stored < 10_000
            await put_in(store, new())
        finally:
            await client.config_set("maxmemory", 0)


# -- servers that are shaken while jobs flow


async def test_jobs_go_on_through_forgotten_scripts_killed_clients_and_flips_to_a_replica(own):
    async def shake(flow: Plan) -> None:
        async with client_of(own.url) as client:
            for number in range(3 * TIMES):
                match number % 3:
                    case 0:
                        await client.script_flush()
                    case 1:
                        for kind in ("normal", "pubsub"):
                            await client.client_kill_filter(_type=kind, skipme=True)
                    case 2:
                        await client.execute_command("REPLICAOF", "127.0.0.1", "1")
                        await asyncio.sleep(0.02)
                        await client.execute_command("REPLICAOF", "NO", "ONE")
                await flow.more(5)

    account = await Plan(own.url).through(shake)

    assert account.lost == 0


# -- certificates


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for this host that only this test trusts."""
    assert shutil.which("openssl"), "apt-get install openssl"
    path = tmp_path_factory.mktemp("certificate") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(path), "-out", str(path.with_suffix(".crt"))],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


@contextlib.asynccontextmanager
async def encrypted(url: str, certificate: Path) -> AsyncIterator[int]:
    """A port that speaks TLS and passes on what it hears; wheels of the servers do not."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    tasks: set[Any] = set()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        upstream, down = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            try:
                await asyncio.gather(passed_on(reader, down), passed_on(upstream, writer))
            finally:
                down.close()
                writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_certificate_is_checked_and_jobs_go_through(own, certificate):
    async with encrypted(own.url, certificate) as port:
        trusted = f"rediss://localhost:{port}/0?ssl_ca_certs={certificate.with_suffix('.crt')}"
        async with opened(trusted) as store:
            [job] = await put_in(store, new())
            assert [lease.id for lease in await take(store)] == [job]
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
            await RedisStore(f"rediss://localhost:{port}/0").open()
