"""Servers that stand in for each other: a primary with a replica and sentinels, and clusters."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests import servers
from tests.integration.keyspaces import client_of

SERVICE = "barn"
SLOTS = 16384
REPLICATED = ("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
CLUSTERED = (
    "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-config-file", "nodes.conf",
    "--cluster-replica-validity-factor", "0", "--appendonly", "no",
)  # fmt: skip


def port_of(server: servers.Server) -> int:
    return urlsplit(server.url).port or 0


async def until(holds: Callable[..., Awaitable[Any]], what: str, *about: Any, patience: float = 30) -> None:
    """Wait until something holds of something; a server that is away just does not say so."""
    try:
        async with asyncio.timeout(patience):
            while True:
                with contextlib.suppress(Exception):
                    if await holds(*about):
                        return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {what}") from None


async def ask(server: servers.Server, *command: Any) -> Any:
    """One command to one server."""
    async with client_of(server.url) as client:
        return await client.execute_command(*command)


async def info(server: servers.Server, section: str) -> dict[str, Any]:
    async with client_of(server.url) as client:
        return dict(await client.info(section))


async def follows(replica: servers.Server) -> bool:
    return (await info(replica, "replication")).get("master_link_status") == "up"


@contextlib.asynccontextmanager
async def started(kind: str, *settings: str) -> AsyncIterator[servers.Server]:
    """A server for as long as the block runs; it is waited for on a loop of its own."""
    server = await asyncio.to_thread(servers.start, kind, settings=settings)
    try:
        yield server
    finally:
        server.stop()


@dataclass
class Watched:
    """A primary, its replicas, and sentinels that watch all of them."""

    primary: servers.Server
    replicas: list[servers.Server]
    sentinels: tuple[int, ...]

    @property
    def replica(self) -> servers.Server:
        return self.replicas[0]

    @property
    def url(self) -> str:
        scheme = urlsplit(self.primary.url).scheme
        return f"{scheme}+sentinel://{','.join(f'127.0.0.1:{port}' for port in self.sentinels)}/{SERVICE}"


def _sentinel(kind: str, primary: servers.Server, folder: Path, quorum: int) -> tuple[int, subprocess.Popen[bytes]]:
    port = servers.free_port()
    while (home := folder / f"sentinel-{port}").exists():  # the one before it has not opened its port yet
        port = servers.free_port()
    home.mkdir()
    (home / "sentinel.conf").write_text(
        f"port {port}\nbind 127.0.0.1\ndir {home}\nlogfile sentinel.log\n"
        f"sentinel monitor {SERVICE} 127.0.0.1 {port_of(primary)} {quorum}\n"
        f"sentinel down-after-milliseconds {SERVICE} 500\nsentinel failover-timeout {SERVICE} 4000\n"
    )
    binary, _ = servers.program(kind)
    command = [str(binary), str(home / "sentinel.conf"), "--sentinel"]
    return port, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=servers._die_with_parent,  # noqa: PLW1509
    )  # fmt: skip


@contextlib.asynccontextmanager
async def watched(kind: str, folder: Path, replicas: int = 1) -> AsyncIterator[Watched]:
    """A primary with replicas and three sentinels."""
    async with contextlib.AsyncExitStack() as stack:
        primary = await stack.enter_async_context(started(kind, *REPLICATED))
        following = (*REPLICATED, "--replicaof", "127.0.0.1", str(port_of(primary)))
        behind = [await stack.enter_async_context(started(kind, *following)) for _ in range(replicas)]
        for replica in behind:
            await until(follows, "the replica to follow", replica)
        made = [_sentinel(kind, primary, folder, 2) for _ in range(3)]
        try:
            fleet = Watched(primary, behind, tuple(port for port, _ in made))
            for sentinel in fleet.sentinels:
                await until(_aware, "the sentinels to know all others", sentinel, replicas)
            yield fleet
        finally:
            for _, process in made:
                process.kill()
                process.wait(20)


async def _aware(port: int, replicas: int) -> bool:
    async with client_of(f"redis://127.0.0.1:{port}") as client:
        state = await client.execute_command("SENTINEL", "MASTER", SERVICE)
    facts = state if isinstance(state, dict) else dict(zip(state[::2], state[1::2], strict=True))
    plain = {_text(name): _text(value) for name, value in facts.items()}
    return int(plain["num-slaves"]) == replicas and int(plain["num-other-sentinels"]) >= 2


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@dataclass
class Clustered:
    """Three primaries, and one replica of the one that serves a slot."""

    nodes: list[servers.Server]
    replica: servers.Server
    holder: servers.Server

    @property
    def url(self) -> str:
        """An address whose first node does not serve the slot."""
        others = [node for node in self.nodes if node is not self.holder]
        scheme = urlsplit(self.holder.url).scheme
        return f"{scheme}+cluster://{','.join(f'127.0.0.1:{port_of(node)}' for node in others)}"


async def _node(kind: str, stack: contextlib.AsyncExitStack) -> servers.Server:
    for _ in range(20):  # the port of the cluster bus is 10,000 higher, and may be none or taken
        with contextlib.suppress(RuntimeError):
            return await stack.enter_async_context(started(kind, *CLUSTERED, *REPLICATED))
    raise RuntimeError("no cluster node could be started")


@contextlib.asynccontextmanager
async def clustered(kind: str, slot: int) -> AsyncIterator[Clustered]:
    """A cluster of three primaries with a replica for the slot."""
    async with contextlib.AsyncExitStack() as stack:
        nodes = [await _node(kind, stack) for _ in range(3)]
        replica = await _node(kind, stack)
        share = SLOTS // 3 + 1
        for number, node in enumerate(nodes):
            slots = range(number * share, min((number + 1) * share, SLOTS))
            await ask(node, "CLUSTER", "ADDSLOTS", *slots)
            if number:
                await ask(node, "CLUSTER", "MEET", "127.0.0.1", port_of(nodes[0]))
        await ask(replica, "CLUSTER", "MEET", "127.0.0.1", port_of(nodes[0]))
        holder = nodes[slot // share]
        identity = _text(await ask(holder, "CLUSTER", "MYID"))
        await until(_replicates, "the replica to find its primary", replica, identity)
        for node in (*nodes, replica):
            await until(_sound, "the cluster to be sound", node)
        await until(follows, "the replica to follow", replica)
        yield Clustered(nodes, replica, holder)


async def _replicates(replica: servers.Server, identity: str) -> bool:
    await ask(replica, "CLUSTER", "REPLICATE", identity)
    return True


async def _sound(node: servers.Server) -> bool:
    async with client_of(node.url) as client:
        facts = await client.execute_command("CLUSTER", "INFO")
    known = facts if isinstance(facts, dict) else dict(line.split(":") for line in _text(facts).split())
    return known["cluster_state"] == "ok" and int(known["cluster_known_nodes"]) == 4


async def move_slot(cluster: Clustered, slot: int, to: servers.Server, pause: float) -> Sequence[bytes]:
    """Move a slot key by key to another primary, as resharding tools do, with time for others in between."""
    source, target = cluster.holder, to
    ids = {node.url: _text(await ask(node, "CLUSTER", "MYID")) for node in (source, target)}
    await ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.url])
    await ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.url])
    moved: list[bytes] = []
    while keys := await ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 5):
        await ask(source, "MIGRATE", "127.0.0.1", port_of(target), "", 0, 5000, "KEYS", *keys)
        moved += keys
        await asyncio.sleep(pause)
    for node in (target, source, *cluster.nodes):
        await ask(node, "CLUSTER", "SETSLOT", slot, "NODE", ids[target.url])
    return moved
