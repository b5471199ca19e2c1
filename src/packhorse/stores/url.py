"""An address in parts, also one with a list of servers; and what of it may be shown."""

import re
from urllib.parse import SplitResult, urlsplit

from packhorse.errors import ConfigError

_PARTS = re.compile(r"([a-z][a-z0-9+.-]*://)([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*(?=:)", re.IGNORECASE)
_HOSTS = re.compile(r"(?:(?:[\w.-]+|\[[\w:.%]+\])(?::\d*)?(?:,(?!$)|$))*")
_HIDDEN = "…"


def split(url: str) -> SplitResult:
    """The parts of an address. What stands for the servers is left as it is: Python's own refuses ``one,[::1]:2``."""
    found = _PARTS.fullmatch(url)
    try:
        if found is None:
            return urlsplit(url)
        scheme, servers, rest = found.groups()
        return urlsplit(scheme + rest)._replace(netloc=servers)
    except ValueError:  # its text quotes the address
        raise ConfigError("The address of the store is invalid: use scheme://host:port/database") from None


def shown(url: str) -> str:
    """An address for people: scheme, hosts and database, never a login or a parameter.

    Where it is not certain what is what, as with a password that holds an unquoted ``/``, only the scheme is shown.
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        return _HIDDEN
    found = _PARTS.fullmatch(url)
    if found is None:
        return f"{scheme[0]}:{_HIDDEN}"
    prefix, servers, rest = found.groups()
    hosts, path = servers.rpartition("@")[2], re.split(r"[?#]", rest, maxsplit=1)[0]
    is_file = scheme[0].lower() == "sqlite"  # its name may hold anything, and it has no login
    if (servers if is_file else "@" in rest) or not _HOSTS.fullmatch(hosts):
        return f"{prefix}{_HIDDEN}"
    return f"{prefix}{hosts}{path}"
