"""The address of the store: its servers, whether a pooler stands before them, and where to listen.

Several servers: ``postgresql://user@one:5432,two:5432/shop``, tried in order until one takes writes. Parameters of our
own are ``pooler=transaction``, ``pooler=session`` and ``listen=``, an address of its own or ``no``; all others are
the driver's.
"""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from packhorse.errors import ConfigError
from packhorse.stores.url import split

Urls = tuple[str, ...]

_OWN = frozenset(("pooler", "listen"))
_POOLERS = {"transaction": True, "session": False}
_ATTRIBUTE = "target_session_attrs"


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """One address for each server; whether calls may meet another session each time, or None to find that out."""

    urls: Urls = field(repr=False)
    pooled: bool | None = None
    listen: Urls | None = field(
        default=None, repr=False
    )  # None: where calls go, if sessions last there; empty: nowhere

    def listens(self, *, pooled: bool) -> Urls:
        """Where to listen for hints, if anywhere."""
        if self.listen is not None:
            return self.listen
        return () if pooled else self.urls


def parse(url: str) -> PostgresAddress:
    """The parts of an address."""
    parts = split(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in given if name in _OWN}
    if own.get("pooler", "session") not in _POOLERS:
        raise ConfigError("The address has an invalid parameter: pooler is transaction or session")
    return PostgresAddress(
        _urls(parts, [each for each in given if each[0] not in _OWN]),
        _POOLERS[own["pooler"]] if "pooler" in own else None,
        _listen(own["listen"]) if "listen" in own else None,
    )


def _listen(words: str) -> Urls:
    if words == "no":
        return ()
    if split(words).scheme not in ("postgresql", "postgres"):
        raise ConfigError("The address has an invalid parameter: listen is a percent-encoded address, or no")
    return parse(words).urls


def _check(server: str) -> None:
    """The driver would go to some other port."""
    try:
        _ = urlsplit(f"//{server}").port
    except ValueError:  # its text quotes what may be part of a password
        raise ConfigError(
            "The address has an invalid server: use host:port with a port up to 65535, [::1]:port for IPv6, and "
            "quote / ? # and @ in a password as %2F %3F %23 %40"
        ) from None


def _urls(parts: SplitResult, query: list[tuple[str, str]]) -> Urls:
    login, at, hosts = parts.netloc.rpartition("@")
    several = hosts.split(",")
    for host in several:
        _check(host)
    if len(several) > 1 and _ATTRIBUTE not in dict(query):
        query = [*query, (_ATTRIBUTE, "read-write")]
    plain = parts._replace(query=urlencode(query, quote_via=quote))
    return tuple(plain._replace(netloc=f"{login}{at}{host}").geturl() for host in several)
