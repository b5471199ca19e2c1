"""The keys of one namespace on one server, as the facets of the store use them."""

from collections.abc import Mapping
from typing import Any

from packhorse.model.clock import Clock
from packhorse.stores.redis.address import parse
from packhorse.stores.redis.keys import key_of, raw_key_of, tag_of
from packhorse.stores.redis.pool import ConnectionPool, evalsha
from packhorse.stores.redis.scripts import Script, Scripts, shipped


class Keyspace:
    """Runs scripts by name and reads single keys, under one tag and one clock."""

    def __init__(
        self, url: str, *, namespace: str, clock: Clock | None, events: bool, scripts: Scripts | None = None
    ) -> None:
        self.tag = tag_of(namespace)
        self.address = parse(url)
        self.connections = ConnectionPool(self.address, self.tag)
        # Every script names two keys that never exist. While a slot moves to another node, a cluster refuses scripts
        # that name missing keys; the keys that scripts really use may be on either node then.
        self._keys = (self.tag, self.key("slot_probe"))
        self.claimed_queues: dict[bytes, tuple[str, ...]] = {}  # the queues of each worker's last claim request
        self._clock = clock
        self._events = int(events)
        self._scripts = scripts or shipped()

    def key(self, kind: str, name: str | None = None) -> str:
        """Return the key of a kind, or the key of one thing of this kind."""
        return key_of(self.tag, kind, name)

    async def run(self, verb: str, **arguments: Any) -> Any:
        """Run a script; its arguments are those that its header names."""
        return await self._call(self._scripts[verb], arguments)

    async def take_step(self, name: str, text: str, record: str) -> bool:
        """Take a step of the layout, and return whether this call took it."""
        return not await self._call(self._scripts.with_step(text), {"step": name, "record": record})

    def request(self, verb: str, **arguments: Any) -> bytes:
        """Return the request that runs a script by its checksum, for a connection of the caller's own."""
        script = self._scripts[verb]
        return evalsha(script, self._keys, *self._values(script, arguments))

    async def _call(self, script: Script, arguments: Mapping[str, Any]) -> Any:
        return await self.connections.run(script, self._keys, *self._values(script, arguments))

    def _values(self, script: Script, arguments: Mapping[str, Any]) -> list[Any]:
        now = "" if self._clock is None else self._clock.now()
        return [now, self._events, *script.arguments(arguments)]

    async def read(self, command: str, kind: str, name: str | bytes | None = None, *rest: Any) -> Any:
        """Send a command that reads one key, and return its reply."""
        key = raw_key_of(self.tag, kind, name) if isinstance(name, bytes) else self.key(kind, name)
        return await self.connections.read(command, key, *rest)

    async def now(self) -> int:
        """Return the time of the clock in force: the given one, or the server's."""
        if self._clock is not None:
            await self.connections.read("PING")
            return self._clock.now()
        seconds, micros = await self.connections.read("TIME")
        return int(seconds) * 1_000_000 + int(micros)
