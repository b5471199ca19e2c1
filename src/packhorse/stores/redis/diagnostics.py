"""Findings about a Redis or Valkey server: version, eviction, persistence, memory, replicas, clock."""

from collections.abc import Iterator, Mapping

from packhorse.errors import StoreError
from packhorse.model.clock import SYSTEM
from packhorse.model.finding import Durability, Finding, Grade, durability, size, skew
from packhorse.stores.redis.pool import ConnectionPool

OLDEST_VERSION = (6, 2)
FULL_MEMORY_SHARE = 0.9
SETTINGS = ("maxmemory-policy", "appendonly", "appendfsync", "save")
Facts = Mapping[str, str]

_KEEP = "set appendonly yes (CONFIG SET appendonly yes, and in the server's configuration)"


async def findings(connections: ConnectionPool) -> list[Finding]:
    """Return all findings; a managed server may hide its settings."""
    before = SYSTEM.now()
    seconds, micros = await connections.read("TIME")
    apart = skew((before + SYSTEM.now()) // 2, int(seconds) * 1_000_000 + int(micros))
    facts, settings = await _facts(connections), await _settings(connections)
    return [*judged(facts, settings, wanted=connections.replicas), apart]


async def _facts(connections: ConnectionPool) -> Facts:
    try:
        text = (await connections.read("INFO", "everything")).decode()
    except StoreError:
        return {}
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


async def _settings(connections: ConnectionPool) -> Facts:
    """Return the settings of the server, without those that may not be read."""
    found: dict[str, str] = {}
    for name in SETTINGS:
        try:
            pair = [part.decode() for part in await connections.read("CONFIG", "GET", name)]
        except StoreError:
            return found
        found |= dict(zip(pair[::2], pair[1::2], strict=True))
    return found


def judged(facts: Facts, settings: Facts, *, wanted: int = 0) -> Iterator[Finding]:
    """Judge the facts and settings of a server, and the number of replicas that callers wait for."""
    if facts:
        yield _version(facts)
    else:
        yield Finding("server", "INFO is not allowed", Grade.NOTE, "allow INFO to this user to see version and memory")
    if not settings:
        advice = "check the settings of the server or provider yourself, including appendfsync"
        yield Finding("settings", "CONFIG is not allowed", Grade.NOTE, advice)
    yield _eviction(settings.get("maxmemory-policy", facts.get("maxmemory_policy", "")))
    yield _persistence(facts, settings)
    if facts:
        yield _memory(int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0)))
        yield from _others(facts)
        yield _replicas(int(facts.get("connected_slaves", "0")), wanted)


def _version(facts: Facts) -> Finding:
    name, version = "Redis", facts.get("redis_version", "0")
    if "valkey_version" in facts:
        name, version = "Valkey", facts["valkey_version"]
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VERSION:
        return Finding(name, version, Grade.BAD, "use Redis 6.2 or newer, or Valkey")
    return Finding(name, version)


def _eviction(policy: str) -> Finding:
    if policy == "noeviction":
        return Finding("maxmemory-policy", policy)
    if not policy:
        return Finding("maxmemory-policy", "cannot be read", Grade.NOTE, "make sure that it is noeviction")
    advice = "the server may delete stored jobs: CONFIG SET maxmemory-policy noeviction, also in its configuration"
    return Finding("maxmemory-policy", policy, Grade.BAD, advice)


def _persistence(facts: Facts, settings: Facts) -> Finding:
    appends = settings.get("appendonly", {"1": "yes", "0": "no"}.get(facts.get("aof_enabled", ""), ""))
    if appends == "yes":
        return _appending(settings.get("appendfsync", ""))
    if not appends:
        return Finding("durability", "cannot be read", Grade.NOTE, "make sure that appendonly is yes")
    if settings.get("save"):
        words = "a killed server or a power cut loses everything after the last snapshot"
    elif "save" in settings:
        words = "a server that ends, however it ends, loses all jobs"
    else:
        words = "a killed server or a power cut loses jobs"
    return durability(Durability.MEMORY, words, Grade.WARN, _KEEP)


def _appending(sync: str) -> Finding:
    if sync == "always":
        words = "a killed server and a power cut lose nothing that was acknowledged, a failover may"
        return durability(Durability.OS, words)
    if sync == "no":
        words = "a killed server loses nothing, a power cut loses what the system had not written yet (often 30 s)"
        return durability(Durability.PROCESS, words, Grade.WARN, "set appendfsync everysec, or always")
    words = (
        "a killed server loses nothing while its disk keeps up, a power cut may lose the last second, a failover more"
    )
    if sync == "everysec":
        return durability(Durability.PROCESS, words)
    return durability(Durability.PROCESS, words, Grade.NOTE, "appendfsync cannot be read: make sure that it is not no")


def _memory(used: int, most: int) -> Finding:
    if not most:
        advice = "set maxmemory below the memory of the host: a full server then refuses jobs instead of being killed"
        return Finding("memory", f"{size(used)} used, no maxmemory", Grade.NOTE, advice)
    value = f"{size(used)} of {size(most)} used"
    if used > FULL_MEMORY_SHARE * most:
        return Finding("memory", value, Grade.WARN, "raise maxmemory, or run more workers: a full server refuses jobs")
    return Finding("memory", value)


def _others(facts: Facts) -> Iterator[Finding]:
    if facts.get("role", "master") != "master":
        yield Finding("role", "replica", Grade.BAD, "a replica accepts no writes: use the address of the primary")
    if facts.get("cluster_enabled") == "1":
        advice = "a namespace is in one slot: use redis+cluster://, and several namespaces to spread the load"
        yield Finding("cluster", "on", Grade.NOTE, advice)


def _replicas(there: int, wanted: int) -> Finding:
    if there < wanted:
        advice = "calls that store something raise DurabilityNotMet: bring the replicas back, or lower wait_replicas"
        return Finding("replicas", f"{there}, but wait_replicas asks for {wanted}", Grade.WARN, advice)
    if wanted:
        return Finding("replicas", f"{there}, callers wait for {wanted}: a failover rarely loses acknowledged jobs")
    if there:
        advice = "wait_replicas=1 in the address lets callers wait for one of them"
        return Finding(
            "replicas", f"{there}, replication is asynchronous: a failover may lose the last writes", Grade.NOTE, advice
        )
    return Finding("replicas", "0")
