"""The address of the store: its servers, the login, and options of the store.

One server: ``redis:// rediss:// valkey:// valkeys:// unix://``. A primary monitored by sentinels:
``redis+sentinel://host:port,host:port/service/0``. A cluster: ``redis+cluster://host:port,host:port``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from redis.asyncio.connection import AbstractConnection, Connection, parse_url

from packhorse.errors import ConfigError, InvalidTime
from packhorse.model import duration
from packhorse.stores.url import shown, split

CONNECT_TIMEOUT_SECONDS = 3  # for name lookup, connection, certificate and login together
Node = tuple[str, int]

_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}
_PORTS = {"sentinel": 26379, "cluster": 6379}
_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where and how to connect; nodes are sentinels if a service is named, else members of a cluster."""

    make: type[AbstractConnection]
    options: Mapping[str, Any] = field(repr=False)
    nodes: tuple[Node, ...] = ()
    service: str = ""
    login: Mapping[str, str] = field(default_factory=dict, repr=False)  # with sentinels
    replicas: int = 0  # that must have what a call stores before it returns
    patience: int = 1_000_000  # microseconds to wait for replicas
    evicting: bool = False  # whether a server that may evict jobs is accepted


def parse(url: str) -> RedisAddress:
    """Return the parts of an address; errors do not show them, because an address may hold a password."""
    parts = split(url)
    scheme, _, form = parts.scheme.partition("+")
    plain = parts._replace(scheme=_SCHEMES.get(scheme, scheme))
    own, query = _parameters(plain)
    plain = plain._replace(query=query)
    try:
        nodes: tuple[Node, ...] = ()
        service = ""
        if form:
            nodes, plain = _nodes(plain, _PORTS[form])
        if form == "sentinel":
            service, plain = _service(plain)
        options: dict[str, Any] = dict(parse_url(plain.geturl()))
    except (ValueError, KeyError):
        raise ConfigError(f"The address of the Redis store is invalid: {shown(url)}") from None
    if form == "cluster" and options.get("db"):
        raise ConfigError(f"A cluster has no database {options['db']}: leave the number out, a namespace is enough")
    if form:
        options.pop("host", None)
        options.pop("port", None)
    return _address(options, nodes, service, own)


def _address(options: dict[str, Any], nodes: tuple[Node, ...], service: str, own: dict[str, str]) -> RedisAddress:
    make = options.pop("connection_class", Connection)
    # Time limits are set around whole calls, and answers to scripts need no newer protocol.
    options |= {"socket_timeout": None, "socket_connect_timeout": CONNECT_TIMEOUT_SECONDS, "protocol": 2}
    try:
        make(**options)
    except TypeError:  # its text quotes what may be part of a password
        raise ConfigError(
            "The address has a parameter that is not known: see docs/operate/redis.md, and quote / ? # and @ in a password as "
            "%2F %3F %23 %40"
        ) from None
    login = {word: own[f"sentinel_{word}"] for word in ("username", "password") if f"sentinel_{word}" in own}
    try:
        replicas = int(own.get("wait_replicas", "0"))
        patience = duration.micros(own.get("wait_timeout", "1s"))
        evicting = _YES[own.get("unsafe_eviction", "no").lower()]
    except (ValueError, KeyError, InvalidTime):
        raise ConfigError(
            "The address has an invalid parameter: wait_replicas takes a number, wait_timeout a duration such as 500ms, "
            "unsafe_eviction yes or no"
        ) from None
    return RedisAddress(make, options, nodes, service, login, replicas, patience, evicting)


_OWN = frozenset(("wait_replicas", "wait_timeout", "unsafe_eviction", "sentinel_username", "sentinel_password"))


def _parameters(parts: SplitResult) -> tuple[dict[str, str], str]:
    """Return the parameters of the store, and those of the driver."""
    given = parse_qsl(parts.query, keep_blank_values=True)
    return {name: value for name, value in given if name in _OWN}, urlencode([p for p in given if p[0] not in _OWN])


def _nodes(parts: SplitResult, port: int) -> tuple[tuple[Node, ...], SplitResult]:
    """Return the nodes of an address, and the address with the first of them alone."""
    login, at, hosts = parts.netloc.rpartition("@")
    found = [urlsplit(f"//{host}") for host in hosts.split(",")]
    nodes = tuple((node.hostname or "", node.port or port) for node in found)
    if not all(host for host, _ in nodes):
        raise ValueError("a node without a name")
    return nodes, parts._replace(netloc=login + at + found[0].netloc)


def _service(parts: SplitResult) -> tuple[str, SplitResult]:
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("sentinels are asked for a service")
    return unquote(service), parts._replace(path=f"/{database}" if database else "")
