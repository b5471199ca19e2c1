"""The kinds of stores there are, and which of them serves an address."""

from collections.abc import Callable

import msgspec

from packhorse.model.clock import Clock
from packhorse.stores.contract import Store
from packhorse.stores.url import split

_REDIS = (
    "unix",
    *(name + form for name in ("redis", "rediss", "valkey", "valkeys") for form in ("", "+sentinel", "+cluster")),
)
_SERVER = "does the server run, is the address right, is it reachable from here"


def _sqlite() -> Callable[..., Store]:
    from packhorse.stores.sqlite.store import SQLiteStore

    def opened(url: str, *, namespace: str, clock: Clock | None, events: bool) -> Store:  # noqa: ARG001 - one per file
        return SQLiteStore(url, clock=clock, events=events)

    return opened


def _redis() -> Callable[..., Store]:
    from packhorse.stores.redis.store import RedisStore

    return RedisStore


def _postgres() -> Callable[..., Store]:
    from packhorse.stores.postgres.store import PostgresStore

    return PostgresStore


class StoreKind(msgspec.Struct, frozen=True):
    """A kind of store: what people call it, the schemes of its addresses, and how it is loaded, with which extra.

    ``check`` asks what may be wrong if one cannot be used.
    """

    name: str
    schemes: tuple[str, ...]
    load: Callable[[], Callable[..., Store]]
    extra: str | None
    check: str


KINDS = (
    StoreKind("SQLite", ("sqlite",), _sqlite, None, "does its folder exist, and may this user write there?"),
    StoreKind("Redis or Valkey", _REDIS, _redis, "redis", f"{_SERVER} (redis-cli -u ADDRESS ping)?"),
    StoreKind("PostgreSQL", ("postgres", "postgresql"), _postgres, "postgres", f"{_SERVER} (pg_isready -d ADDRESS)?"),
)


def kind_of(url: str) -> StoreKind | None:
    """The kind of store that serves an address."""
    scheme = split(url).scheme
    return next((kind for kind in KINDS if scheme in kind.schemes), None)
