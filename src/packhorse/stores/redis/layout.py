"""The layout of a namespace: its migration steps, and the settings that a server must have."""

import logging
from functools import cache
from importlib.resources import files
from typing import Any

from redis.exceptions import ResponseError

from packhorse.errors import ConfigError, DurabilityNotMet, StoreError
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.scripts import shipped
from packhorse.stores.sql.migrate import Migration, TakenStep, check, migration, newer, pending

_COMPATIBLE = "compatible"
_LOG = logging.getLogger("packhorse")


@cache
def steps() -> tuple[Migration, ...]:
    """Return the steps of this release, in order."""
    folder = files("packhorse.stores.redis") / "migrations"
    found = sorted((path for path in folder.iterdir() if path.name.endswith(".lua")), key=lambda path: path.name)
    texts = [(path.name.removesuffix(".lua"), path.read_text(encoding="utf-8")) for path in found]
    return tuple(migration(name, text, text) for name, text in texts)


async def taken_steps(keyspace: Keyspace) -> dict[str, TakenStep]:
    """Read the steps that were taken, each with its checksum, and ``compatible`` behind it if it is."""
    fields = await keyspace.read("HGETALL", "layout")
    return {step.decode(): _taken(record.decode()) for step, record in zip(fields[::2], fields[1::2], strict=True)}


def _taken(record: str) -> TakenStep:
    checksum, _, mark = record.partition(" ")
    return TakenStep(checksum, mark == _COMPATIBLE)


def _record(step: Migration) -> str:
    return f"{step.checksum} {_COMPATIBLE}" if step.compatible else step.checksum


async def take_steps(keyspace: Keyspace) -> list[str]:
    """Take the missing steps; of two concurrent calls one takes each step."""
    before = await taken_steps(keyspace)
    taken = [
        step.name for step in pending(steps(), before) if await keyspace.take_step(step.name, step.sql, _record(step))
    ]
    await check_steps(keyspace)
    if not newer(steps(), before):  # else a newer release has left its own
        await _keep_script(keyspace)
    return taken


async def _keep_script(keyspace: Keyspace) -> None:
    """Store the script by which clients in other languages enqueue."""
    text = shipped()["enqueue_json"].text
    if await keyspace.read("HGET", "scripts", None, "enqueue") != text.encode():
        await keyspace.run("keep_script", name="enqueue", text=text)


async def check_steps(keyspace: Keyspace) -> None:
    """Refuse a layout that is missing, too old or newer than this release."""
    check(steps(), await taken_steps(keyspace))


async def check_settings(keyspace: Keyspace) -> None:
    """Refuse a server that may evict stored jobs, and a user who may not run the commands of the scripts."""
    _check_eviction(await _policy(keyspace), accepted=keyspace.address.evicting)
    denied = [name.decode() for name in await keyspace.run("rights")]
    denied += await keyspace.connections.denied(*_direct_commands(keyspace))
    if denied:
        names = ", ".join(denied)
        raise ConfigError(
            f"The server's user may not run {names} on keys and channels of the namespace: see docs/operate/redis.md"
        )


def _direct_commands(keyspace: Keyspace) -> list[tuple[Any, ...]]:
    """Return the commands that are sent outside scripts, in a form that neither writes nor blocks."""
    probe = keyspace.key("probe")
    tries: list[tuple[Any, ...]] = [
        ("HKEYS", probe),
        ("XRANGE", probe, "-", "+"),
        ("BLPOP", probe, "no time"),
        ("XREAD", "STREAMS", probe, "no offset"),
    ]
    if keyspace.address.replicas:
        tries.append(("WAIT", 0, 0))
    return [
        *tries,
        ("SUBSCRIBE", keyspace.key("ended")),
    ]  # the last, because a subscribed connection runs no other command


async def _policy(keyspace: Keyspace) -> str:
    """Return the eviction policy of the server, empty if the server does not tell it."""
    try:
        facts = (await keyspace.connections.read("INFO", "memory")).decode()
    except (StoreError, ConfigError) as error:
        if isinstance(error.__cause__, ResponseError):
            return ""  # INFO is denied or renamed
        raise
    found: dict[str, str] = dict(line.split(":", 1) for line in facts.splitlines() if ":" in line)
    return found.get("maxmemory_policy", "")


def _check_eviction(policy: str, *, accepted: bool) -> None:
    if policy == "noeviction":
        return
    if not policy:
        _LOG.warning(
            "The server does not report its maxmemory-policy: make sure that it is noeviction, or it may delete jobs"
        )
        return
    lost = f"maxmemory-policy is {policy}: a full server throws away jobs, leases and unique keys without a word"
    if not accepted:
        raise DurabilityNotMet(f"{lost}; set maxmemory-policy to noeviction, or add unsafe_eviction=yes to the address")
    _LOG.warning("%s (unsafe_eviction); no guarantee holds, acknowledged jobs may be lost or run twice", lost)
