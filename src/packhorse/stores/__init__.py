"""Where state is kept: one contract, three stores."""

from pathlib import Path
from urllib.parse import quote

from packhorse.errors import MissingExtra, UnknownScheme
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.stores.contract import Store
from packhorse.stores.kinds import kind_of
from packhorse.stores.url import split

NAMESPACE = "packhorse"


def open_store(url: str, *, namespace: str = NAMESPACE, clock: Clock | None = None, events: bool = True) -> Store:
    """The store that serves an address, not yet connected.

    A clock is given by tests only: without one the store's own clock rules.
    """
    limits.name("namespace", namespace, 48)
    if kind := kind_of(url):
        try:
            serve = kind.load()
        except ModuleNotFoundError as error:
            if kind.extra is None:
                raise
            raise MissingExtra(kind.name, kind.extra) from error
        return serve(url, namespace=namespace, clock=clock, events=events)
    raise UnknownScheme(split(url).scheme)


def file_of(url: str) -> Path | None:
    """The file in which an address keeps its jobs; None for a server and for memory."""
    if split(url).scheme != "sqlite":
        return None
    from packhorse.stores.sqlite.store import path_of

    path = path_of(url)
    return None if path == ":memory:" else Path(path)


def anchored(url: str) -> str:
    """The same address, with the whole path of a file: it leads there also from another folder, and in a forked process."""
    file = file_of(url)
    if file is None:
        return url
    query = split(url).query
    return f"sqlite:///{quote(str(file), errors='surrogateescape')}" + (f"?{query}" if query else "")
