"""Which addresses of the web may be called: public ones over https, and others only where they are listed.

A name is resolved once, every answer is judged, and the connection goes to an address that was judged: a name that
resolves to something else a moment later changes nothing.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import msgspec

from packhorse.errors import AddressRefused, InvalidOption

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PORTS = {"https": 443, "http": 80}
MAX_URL = 2048

_PLAIN = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")

_GLOBAL_V6 = IPv6Network("2000::/3")
_COMPATIBLE, _NAT64 = IPv6Network("::/96"), IPv6Network("64:ff9b::/96")
_NOT_PUBLIC = (
    IPv4Network("192.88.99.0/24"),  # relays of 6to4, wherever the nearest is
    IPv4Network("168.63.129.16/32"),  # public by its number, but the host of a virtual machine of Azure
    IPv6Network("3fff::/20"),  # for documentation; older Pythons do not know it
)


class Endpoint(msgspec.Struct, frozen=True):
    """The parts of an address of the web."""

    scheme: str
    host: str
    port: int
    path: str


class AddressGuard(msgspec.Struct, frozen=True):
    """Judges addresses: ``networks`` and ``ports`` are allowed besides public addresses and the usual port."""

    networks: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset()
    http: bool = False

    def endpoint(self, url: str) -> Endpoint:
        """Take an address apart, or refuse it."""
        if len(url) > MAX_URL or "\\" in url:
            raise AddressRefused("this address", f"give at most {MAX_URL} characters, and no backslash")
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname or ""
        except ValueError:
            raise AddressRefused("this address", "it cannot be read: use https://host/path") from None
        if parts.scheme not in ("https", "http") or not host:
            raise AddressRefused(host, "use https://host/path")
        if parts.scheme == "http" and not self.http:
            raise AddressRefused(host, "use https, or set http=True")
        if "@" in parts.netloc:
            raise AddressRefused(host, "leave the user and the password out of the address")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not _PLAIN.fullmatch(path) or any(char <= " " or char == "\x7f" for char in url):
            raise AddressRefused(host, "percent-encode blanks and characters that are not ASCII")
        usual = PORTS[parts.scheme]
        if (port := usual if port is None else port) != usual and port not in self.ports:
            raise AddressRefused(host, f"port {port} is not allowed: list it in ports=")
        return Endpoint(parts.scheme, self._host(host), port, path)

    def judge(self, host: str, answers: Iterable[str]) -> tuple[str, ...]:
        """Give the addresses of a name; refuse all of them if one is not public and not allowed."""
        found = tuple(dict.fromkeys(answers))
        if not found:
            raise AddressRefused(host, "its name has no address")
        for answer in found:
            address = _address(answer)
            if address is None or not (is_public(address) or self._allows(address)):
                raise AddressRefused(host, f"its address {answer} is not public: list its network in allow=")
        return found

    def _host(self, host: str) -> str:
        if (literal := _address(host)) is not None:
            if not self._allows(literal):
                raise AddressRefused(host, "use a name, or list the network of this address in allow=")
            return str(literal)
        try:
            name = host.rstrip(".").encode("idna").decode().lower()
        except UnicodeError:
            raise AddressRefused(host, "it is not the name of a host") from None
        if not _NAME.fullmatch(name) or len(name) > 253:
            raise AddressRefused(host, "it is not the name of a host")
        if _NUMBER.fullmatch(name.rpartition(".")[2]):
            raise AddressRefused(
                host, "use a name, or write the address in its usual form and list its network in allow="
            )
        return name

    def _allows(self, address: Address) -> bool:
        plain = address.ipv4_mapped if isinstance(address, IPv6Address) and address.ipv4_mapped else address
        return any(plain.version == network.version and plain in network for network in self.networks)


def guard(allow: Sequence[str], ports: Sequence[int], *, http: bool) -> AddressGuard:
    """Check options and make the guard."""
    if isinstance(allow, str):
        raise InvalidOption("allow", allow, 'give a list of networks: ["10.2.0.0/16"]')
    networks: list[Network] = []
    for one in allow:
        try:
            networks.append(ip_network(one))
        except ValueError as error:
            raise InvalidOption("allow", one, 'give networks like "10.2.0.0/16"') from error
    for port in ports:
        if type(port) is not int or not 0 < port < 65536:
            raise InvalidOption("ports", port, "give numbers from 1 to 65535")
    return AddressGuard(tuple(networks), frozenset(ports), http)


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet; an IPv4 address inside an IPv6 one is judged as itself."""
    if isinstance(address, IPv6Address):
        if inner := _inner(address):
            return all(is_public(each) for each in inner)
        if address not in _GLOBAL_V6 or address.scope_id is not None:
            return False
    outside = any(address in network for network in _NOT_PUBLIC if network.version == address.version)
    return address.is_global and not (address.is_multicast or address.is_reserved or outside)


def _inner(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if address in _COMPATIBLE or address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return ()


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
