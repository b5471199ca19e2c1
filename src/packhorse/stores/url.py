"""An address in parts, also one with a list of servers."""

import re
from urllib.parse import SplitResult, urlsplit

_PARTS = re.compile(r"([a-z][a-z0-9+.-]*://)([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)


def split(url: str) -> SplitResult:
    """The parts of an address. What stands for the servers is left as it is: Python's own refuses ``one,[::1]:2``."""
    found = _PARTS.fullmatch(url)
    if found is None:
        return urlsplit(url)
    scheme, servers, rest = found.groups()
    return urlsplit(scheme + rest)._replace(netloc=servers)
