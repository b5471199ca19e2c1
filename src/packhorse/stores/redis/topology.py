"""Find the server that takes writes: by its address, by sentinels, or by the slot of the namespace."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot
from redis.exceptions import MovedError, RedisError, ResponseError

from packhorse.stores.redis.address import CONNECT_TIMEOUT_SECONDS, Node, RedisAddress
from packhorse.stores.redis.connection import Connection
from packhorse.stores.redis.errors import NotReached, code_of, may_be_elsewhere, not_reached

NODE_TIMEOUT_SECONDS = 2  # for one node to answer where the primary is: another may answer sooner
MAX_NODES = 32  # members of a cluster that are remembered to be asked
BROKEN = (RedisError, OSError, TimeoutError, EOFError)

Check = Callable[[AbstractConnection], Awaitable[None]]


class Topology(Protocol):
    """Makes connections to the server that takes writes."""

    moves: bool

    async def connect(self) -> Connection:
        """Return a new connection; if the server cannot be reached, nothing was sent."""

    def report(self, error: BaseException) -> None:
        """Take note of an error of a connection: it may mean that another server takes writes now."""


def topology_of(address: RedisAddress, tag: str) -> Topology:
    """Return the topology of an address."""
    if address.service:
        return Sentinels(address)
    return Cluster(address, tag) if address.nodes else Fixed(address)


class Fixed:
    """A single server, always at the same address."""

    moves = False

    def __init__(self, address: RedisAddress) -> None:
        self._address = address

    async def connect(self) -> Connection:
        """Return a new connection."""
        return Connection(await _reached(self._address.make(**self._address.options)))

    def report(self, error: BaseException) -> None:
        """Do nothing: there is no other server to look for."""


class Moving:
    """A primary that other nodes know of; it is remembered until a connection fails."""

    moves = True
    who = "nodes"

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._nodes = list(address.nodes)
        self._primary: Node | None = None
        self._finding = asyncio.Lock()

    async def connect(self) -> Connection:
        """Return a new connection to the primary."""
        primary = self._primary or await self._find()
        try:
            return Connection(await _reached(self._made(primary, self._address.options), self._check))
        except (*BROKEN, NotReached):
            self._forget(primary)
            raise

    def report(self, error: BaseException) -> None:
        """Remember the primary that the server names, or forget it so that the next connection asks again."""
        if isinstance(error, MovedError):
            self._primary = (error.host or (self._primary or self._nodes[0])[0], error.port)
        elif may_be_elsewhere(error):
            self._primary = None

    def _forget(self, primary: Node) -> None:
        if self._primary == primary:
            self._primary = None

    async def _find(self) -> Node:
        async with self._finding:
            if self._primary is not None:
                return self._primary
            answer = "none answers"
            for node in tuple(self._nodes):
                try:
                    async with asyncio.timeout(NODE_TIMEOUT_SECONDS):
                        found = await self._ask(node)
                except (*BROKEN, NotReached) as error:
                    answer = str(error) or answer
                    continue
                if found is not None:
                    self._nodes.remove(node)
                    self._nodes.insert(0, node)
                    self._primary = found
                    return found
                answer = f"{node[0]}:{node[1]} does not know"
            raise NotReached(f"None of the {len(self._nodes)} {self.who} reports where {self._wanted()} is ({answer})")

    def _made(self, node: Node, options: Mapping[str, Any]) -> AbstractConnection:
        return self._address.make(**{**options, "host": node[0], "port": node[1]})

    @asynccontextmanager
    async def _command(self, node: Node, options: Mapping[str, Any], *command: str) -> AsyncIterator[Any]:
        connection = await _reached(self._made(node, options))
        try:
            await connection.send_command(*command, check_health=False)
            yield await connection.read_response()
        finally:
            await connection.disconnect(nowait=True)

    async def _check(self, connection: AbstractConnection) -> None:
        """Refuse a server that is not the primary."""

    async def _ask(self, node: Node) -> Node | None:
        raise NotImplementedError

    def _wanted(self) -> str:
        raise NotImplementedError


class Sentinels(Moving):
    """A primary with replicas, monitored by sentinels."""

    who = "sentinels"

    def __init__(self, address: RedisAddress) -> None:
        super().__init__(address)
        plain = {name: value for name, value in address.options.items() if name not in ("db", "username", "password")}
        self._options = {**plain, **address.login, "socket_connect_timeout": NODE_TIMEOUT_SECONDS}

    def _wanted(self) -> str:
        return f"the service {self._address.service!r}"

    async def _ask(self, node: Node) -> Node | None:
        command = ("SENTINEL", "get-master-addr-by-name", self._address.service)
        async with self._command(node, self._options, *command) as found:
            return None if found is None else (found[0].decode(), int(found[1]))

    async def _check(self, connection: AbstractConnection) -> None:
        """Refuse a replica: sentinels may name a server before it is the primary, or after it was."""
        try:
            await connection.send_command("ROLE", check_health=False)
            role = await connection.read_response()
        except ResponseError:
            return  # ROLE is denied to this user: the first write fails on a replica
        if role[0] != b"master":
            raise NotReached("The server that the sentinels name is not the primary yet: repeat the call later")


class Cluster(Moving):
    """The member of a cluster that serves the slot of the namespace."""

    def __init__(self, address: RedisAddress, tag: str) -> None:
        super().__init__(address)
        self._slot = key_slot(tag.encode())
        self._options = {**address.options, "socket_connect_timeout": NODE_TIMEOUT_SECONDS}

    def _wanted(self) -> str:
        return f"slot {self._slot}"

    async def _ask(self, node: Node) -> Node | None:
        async with self._command(node, self._options, "CLUSTER", "SLOTS") as ranges:
            primary = None
            for first, last, *members in ranges:
                known = [((host or b"").decode() or node[0], int(port)) for host, port, *_ in members]
                self._nodes += [one for one in known if one not in self._nodes][: MAX_NODES - len(self._nodes)]
                if first <= self._slot <= last:
                    primary = known[0]
            return primary


async def _reached(connection: AbstractConnection, check: Check | None = None) -> AbstractConnection:
    """Connect and log in within one time limit: a server may accept a connection and never answer."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            await connection.connect()  # type: ignore[no-untyped-call]
            if check is not None:
                await check(connection)
    except BROKEN as error:
        await connection.disconnect(nowait=True)
        if code_of(error) or isinstance(error, ResponseError):
            raise  # the server answered
        raise not_reached(error) from error
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection
