"""The keys of one namespace on one server: what the facets of the store talk to."""

from collections.abc import Mapping
from typing import Any

from packhorse.model.clock import Clock
from packhorse.stores.redis.address import parse
from packhorse.stores.redis.connection import Connections, evalsha
from packhorse.stores.redis.keys import key_of, tag_of
from packhorse.stores.redis.scripts import Script, Scripts, shipped


class Keyspace:
    """Runs scripts by name and reads single keys, under one tag and one clock."""

    def __init__(
        self, url: str, *, namespace: str, clock: Clock | None, events: bool, scripts: Scripts | None = None
    ) -> None:
        self.tag = tag_of(namespace)
        self.address = parse(url)
        self.connections = Connections(self.address, self.tag)
        # Scripts name two keys that are never there. A cluster node refuses to run on such while the slot is moved to
        # another one; the keys that scripts do use may be on either side then.
        self._keys = (self.tag, self.key("door"))
        self.asked: dict[bytes, tuple[str, ...]] = {}  # the queues of each worker's last ask
        self._clock = clock
        self._events = int(events)
        self._scripts = scripts or shipped()

    def key(self, kind: str, name: str | None = None) -> str:
        """The key of a kind of thing, or of the one with this name."""
        return key_of(self.tag, kind, name)

    async def run(self, verb: str, **arguments: Any) -> Any:
        """Run a script in one step; its arguments are those its header names."""
        return await self._call(self._scripts[verb], arguments)

    async def take_step(self, name: str, text: str, checksum: str) -> bool:
        """Take a step of the layout, and say whether it was this call that took it."""
        return not await self._call(self._scripts.with_step(text), {"step": name, "checksum": checksum})

    def request(self, verb: str, **arguments: Any) -> bytes:
        """What runs a script, for a line of the caller's own; the server may turn out not to have it."""
        script = self._scripts[verb]
        return evalsha(script, self._keys, *self._values(script, arguments))

    async def _call(self, script: Script, arguments: Mapping[str, Any]) -> Any:
        return await self.connections.run(script, self._keys, *self._values(script, arguments))

    def _values(self, script: Script, arguments: Mapping[str, Any]) -> list[Any]:
        now = "" if self._clock is None else self._clock.now()
        return [now, self._events, *script.arguments(arguments)]

    async def read(self, command: str, kind: str, name: str | None = None, *rest: Any) -> Any:
        """Send one command that reads one key."""
        return await self.connections.read(command, self.key(kind, name), *rest)

    async def now(self) -> int:
        """The moment, by the clock that rules."""
        if self._clock is not None:
            await self.connections.read("PING")
            return self._clock.now()
        seconds, micros = await self.connections.read("TIME")
        return int(seconds) * 1_000_000 + int(micros)
