"""The layout of a namespace: steps taken once, in order, and what a server must be set to."""

import hashlib
from contextlib import suppress
from functools import cache
from importlib.resources import files

from packhorse.errors import DurabilityNotMet, StoreUnavailable
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.sql.migrate import Migration, check, pending


@cache
def steps() -> tuple[Migration, ...]:
    """The steps this release ships, in order."""
    folder = files("packhorse.stores.redis") / "migrations"
    found = sorted((path for path in folder.iterdir() if path.name.endswith(".lua")), key=lambda path: path.name)
    return tuple(_step(path.name.removesuffix(".lua"), path.read_text(encoding="utf-8")) for path in found)


def _step(name: str, text: str) -> Migration:
    return Migration(name, text, hashlib.sha256(text.encode()).hexdigest()[:16])


async def taken_steps(keyspace: Keyspace) -> dict[str, str]:
    """The steps that were taken, with the checksums they had."""
    fields = await keyspace.read("HGETALL", "layout")
    return {step.decode(): checksum.decode() for step, checksum in zip(fields[::2], fields[1::2], strict=True)}


async def take_steps(keyspace: Keyspace) -> list[str]:
    """Take the steps that are missing; of two who try at once one takes each."""
    taken = [
        step.name
        for step in pending(steps(), await taken_steps(keyspace))
        if await keyspace.take_step(step.name, step.sql, step.checksum)
    ]
    await check_steps(keyspace)
    return taken


async def check_steps(keyspace: Keyspace) -> None:
    """Refuse a layout that is missing, too old or newer than this release."""
    check(steps(), await taken_steps(keyspace))


async def check_settings(keyspace: Keyspace) -> None:
    """Refuse a server that would throw stored jobs away to make room."""
    limit = policy = ""
    with suppress(StoreUnavailable):  # a server that does not tell its settings is trusted
        facts = (await keyspace.connections.read("INFO", "memory")).decode()
        found = dict(line.split(":", 1) for line in facts.splitlines() if ":" in line)
        limit, policy = found.get("maxmemory", ""), found.get("maxmemory_policy", "")
    if limit not in ("", "0") and policy not in ("", "noeviction"):
        raise DurabilityNotMet(
            f"The server may evict stored jobs (maxmemory-policy {policy}): set maxmemory-policy to noeviction"
        )
