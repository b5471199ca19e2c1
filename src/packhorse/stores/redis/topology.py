"""Where the server stands that takes our writes: at its address, where sentinels say, or where our slot is served."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot
from redis.exceptions import MovedError, RedisError, ResponseError

from packhorse.stores.redis.address import CONNECT, Address, Node
from packhorse.stores.redis.refusals import NotReached, code_of, may_be_elsewhere, not_reached
from packhorse.stores.redis.wire import Wire

LOOK = 2  # seconds for one node to say where the primary is: another may know better
NODES = 32  # members of a cluster that are remembered as those to ask
BROKEN = (RedisError, OSError, TimeoutError, EOFError)

Check = Callable[[AbstractConnection], Awaitable[None]]


class Topology(Protocol):
    """Makes connections to the server that takes writes."""

    moves: bool

    async def connect(self) -> Wire:
        """A new connection; a server that cannot be reached was told nothing."""

    def heard(self, error: BaseException) -> None:
        """An error that may mean that the server stands elsewhere now."""


def topology_of(address: Address, tag: str) -> Topology:
    """The one that an address asks for."""
    if address.service:
        return Sentinels(address)
    return Cluster(address, tag) if address.nodes else Fixed(address)


class Fixed:
    """One server, always at the same address."""

    moves = False

    def __init__(self, address: Address) -> None:
        self._address = address

    async def connect(self) -> Wire:
        """A new connection."""
        return Wire(await _reached(self._address.make(**self._address.options)))

    def heard(self, error: BaseException) -> None:
        """Nothing: there is nowhere else to look."""


class Moving:
    """A server that others know of; it is remembered until something goes wrong."""

    moves = True
    who = "nodes"

    def __init__(self, address: Address) -> None:
        self._address = address
        self._nodes = list(address.nodes)
        self._primary: Node | None = None
        self._looking = asyncio.Lock()

    async def connect(self) -> Wire:
        """A new connection to where the primary is now."""
        primary = self._primary or await self._find()
        try:
            return Wire(await _reached(self._made(primary, self._address.options), self._check))
        except (*BROKEN, NotReached):
            self._forget(primary)
            raise

    def heard(self, error: BaseException) -> None:
        """Look for the primary again when the next connection is made, or go where the server points."""
        if isinstance(error, MovedError):
            self._primary = (error.host or (self._primary or self._nodes[0])[0], error.port)
        elif may_be_elsewhere(error):
            self._primary = None

    def _forget(self, primary: Node) -> None:
        if self._primary == primary:
            self._primary = None

    async def _find(self) -> Node:
        async with self._looking:
            if self._primary is not None:
                return self._primary
            said = "none answers"
            for node in tuple(self._nodes):
                try:
                    async with asyncio.timeout(LOOK):
                        found = await self._told_by(node)
                except (*BROKEN, NotReached) as error:
                    said = str(error) or said
                    continue
                if found is not None:
                    self._nodes.remove(node)
                    self._nodes.insert(0, node)
                    self._primary = found
                    return found
                said = f"{node[0]}:{node[1]} does not know"
            raise NotReached(f"None of the {len(self._nodes)} {self.who} tells where {self._wanted()} is ({said})")

    def _made(self, node: Node, options: Mapping[str, Any]) -> AbstractConnection:
        return self._address.make(**{**options, "host": node[0], "port": node[1]})

    @asynccontextmanager
    async def _asked(self, node: Node, options: Mapping[str, Any], *command: str) -> AsyncIterator[Any]:
        connection = await _reached(self._made(node, options))
        try:
            await connection.send_command(*command, check_health=False)
            yield await connection.read_response()
        finally:
            await connection.disconnect(nowait=True)

    async def _check(self, connection: AbstractConnection) -> None:
        """Whether this is what was looked for."""

    async def _told_by(self, node: Node) -> Node | None:
        raise NotImplementedError

    def _wanted(self) -> str:
        raise NotImplementedError


class Sentinels(Moving):
    """A primary with replicas, watched by sentinels."""

    who = "sentinels"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        plain = {name: value for name, value in address.options.items() if name not in ("db", "username", "password")}
        self._options = {**plain, **address.login, "socket_connect_timeout": LOOK}

    def _wanted(self) -> str:
        return f"the service {self._address.service!r}"

    async def _told_by(self, node: Node) -> Node | None:
        command = ("SENTINEL", "get-master-addr-by-name", self._address.service)
        async with self._asked(node, self._options, *command) as found:
            return None if found is None else (found[0].decode(), int(found[1]))

    async def _check(self, connection: AbstractConnection) -> None:
        """Sentinels may name a server before it knows that it is the primary, or after it ceased to be."""
        try:
            await connection.send_command("ROLE", check_health=False)
            role = await connection.read_response()
        except ResponseError:
            return  # not allowed to this user: the first write will tell
        if role[0] != b"master":
            raise NotReached("The server that the sentinels name is not the primary yet: repeat the call later")


class Cluster(Moving):
    """The member of a cluster that serves the slot of all our keys."""

    def __init__(self, address: Address, tag: str) -> None:
        super().__init__(address)
        self._slot = key_slot(tag.encode())
        self._options = {**address.options, "socket_connect_timeout": LOOK}

    def _wanted(self) -> str:
        return f"slot {self._slot}"

    async def _told_by(self, node: Node) -> Node | None:
        async with self._asked(node, self._options, "CLUSTER", "SLOTS") as ranges:
            primary = None
            for first, last, *members in ranges:
                known = [((host or b"").decode() or node[0], int(port)) for host, port, *_ in members]
                self._nodes += [one for one in known if one not in self._nodes][: NODES - len(self._nodes)]
                if first <= self._slot <= last:
                    primary = known[0]
            return primary


async def _reached(connection: AbstractConnection, check: Check | None = None) -> AbstractConnection:
    """Whoever accepts a connection may still say nothing for ever: the whole of it has one limit."""
    try:
        async with asyncio.timeout(CONNECT):
            await connection.connect()  # type: ignore[no-untyped-call]
            if check is not None:
                await check(connection)
    except BROKEN as error:
        await connection.disconnect(nowait=True)
        if code_of(error) or isinstance(error, ResponseError):
            raise  # it was reached, and answered
        raise not_reached(error) from error
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection
