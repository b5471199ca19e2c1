"""The layout of a namespace: steps taken once, in order, and what a server must be set to."""

import hashlib
import logging
from functools import cache
from importlib.resources import files
from typing import Any

from redis.exceptions import ResponseError

from packhorse.errors import ConfigError, DurabilityNotMet, StoreError
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.scripts import shipped
from packhorse.stores.sql.migrate import Migration, check, pending

_LOG = logging.getLogger("packhorse")


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
    await _keep_script(keyspace)
    return taken


async def _keep_script(keyspace: Keyspace) -> None:
    """Leave the script by which clients in other languages enqueue where they find it."""
    text = shipped()["enqueue_json"].text
    if await keyspace.read("HGET", "scripts", None, "enqueue") != text.encode():
        await keyspace.run("keep_script", name="enqueue", text=text)


async def check_steps(keyspace: Keyspace) -> None:
    """Refuse a layout that is missing, too old or newer than this release."""
    check(steps(), await taken_steps(keyspace))


async def check_settings(keyspace: Keyspace) -> None:
    """Refuse a server that would throw stored jobs away to make room, or a user who may not do what scripts do."""
    _check_eviction(await _policy(keyspace), put_up_with=keyspace.address.evicting)
    denied = [name.decode() for name in await keyspace.run("rights")]
    denied += await keyspace.connections.denied(*_outside(keyspace))
    if denied:
        names = ", ".join(denied)
        raise ConfigError(
            f"The server's user may not run {names} on keys and channels of the namespace: see docs/operate/redis.md"
        )


def _outside(keyspace: Keyspace) -> list[tuple[Any, ...]]:
    """What is sent by itself and not from a script, in a form that changes nothing and does not wait."""
    probe = keyspace.key("probe")
    tries: list[tuple[Any, ...]] = [("HKEYS", probe), ("XRANGE", probe, "-", "+"), ("BLPOP", probe, "no time")]
    if keyspace.address.replicas:
        tries.append(("WAIT", 0, 0))
    return [*tries, ("SUBSCRIBE", keyspace.key("ends"))]  # the last, for after it a line is good for nothing else


async def _policy(keyspace: Keyspace) -> str:
    """What the server does when it is full, or nothing if it does not tell."""
    try:
        facts = (await keyspace.connections.read("INFO", "memory")).decode()
    except (StoreError, ConfigError) as error:
        if isinstance(error.__cause__, ResponseError):
            return ""  # forbidden, or called otherwise
        raise
    found: dict[str, str] = dict(line.split(":", 1) for line in facts.splitlines() if ":" in line)
    return found.get("maxmemory_policy", "")


def _check_eviction(policy: str, *, put_up_with: bool) -> None:
    if policy == "noeviction":
        return
    if not policy:
        _LOG.warning("The server does not tell its maxmemory-policy: see that it is noeviction, or it may evict jobs")
        return
    lost = f"maxmemory-policy is {policy}: a full server throws away jobs, leases and unique keys without a word"
    if not put_up_with:
        raise DurabilityNotMet(f"{lost}; set maxmemory-policy to noeviction, or add unsafe_eviction=yes to the address")
    _LOG.warning("%s (unsafe_eviction); no promise holds, acknowledged jobs may be lost or run twice", lost)
