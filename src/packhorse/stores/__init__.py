"""Where state is kept: one contract, three stores."""

from urllib.parse import urlsplit

from packhorse.errors import MissingExtra, UnknownScheme
from packhorse.model import caps
from packhorse.model.clock import Clock
from packhorse.stores.contract import Store

NAMESPACE = "packhorse"
_REDIS = (
    "unix",
    *(name + form for name in ("redis", "rediss", "valkey", "valkeys") for form in ("", "+sentinel", "+cluster")),
)


def open_store(url: str, *, namespace: str = NAMESPACE, clock: Clock | None = None, events: bool = True) -> Store:
    """The store that serves an address, not yet connected.

    A clock is given by tests only: without one the store's own clock rules.
    """
    caps.name("namespace", namespace, 48)
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        from packhorse.stores.sqlite.store import SQLiteStore

        return SQLiteStore(url, clock=clock, events=events)
    if scheme in _REDIS:
        try:
            from packhorse.stores.redis.store import RedisStore
        except ModuleNotFoundError as error:
            raise MissingExtra("Redis or Valkey", "redis") from error
        return RedisStore(url, namespace=namespace, clock=clock, events=events)
    if scheme in ("postgres", "postgresql"):
        try:
            from packhorse.stores.postgres.store import PostgresStore
        except ModuleNotFoundError as error:
            raise MissingExtra("PostgreSQL", "postgres") from error
        return PostgresStore(url, namespace=namespace, clock=clock, events=events)
    raise UnknownScheme(scheme)
