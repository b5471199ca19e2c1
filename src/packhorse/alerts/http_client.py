"""A small HTTP/1.1 client: one request on one connection to an address that was judged; no redirects, no proxies."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property

import msgspec

from packhorse.alerts.address_guard import AddressGuard, Endpoint
from packhorse.errors import DeliveryFailed

READ_MAX_BYTES = 64 << 10
MAX_HEADERS = 200
MAX_ADDRESSES_TRIED = 4

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a name."""
Opener = Callable[[str, int, ssl.SSLContext | None, str | None], Awaitable[Connection]]
"""Connects to an address and a port; the name is for the certificate alone."""


class HttpResponse(msgspec.Struct, frozen=True):
    """What a server answered: no more than 64 KiB of its body, names of headers in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def resolve_name(host: str, port: int) -> list[str]:
    """Ask the resolver of the system."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def open_address(address: str, port: int, tls: ssl.SSLContext | None, name: str | None) -> Connection:
    """Connect to an address."""
    return await asyncio.open_connection(address, port, ssl=tls, server_hostname=name)


class HttpClient:
    """Sends requests to addresses that a guard lets pass."""

    def __init__(
        self,
        guard: AddressGuard,
        *,
        ca_file: str | None = None,
        resolve: Resolver = resolve_name,
        connect: Opener = open_address,
    ) -> None:
        self.guard, self._ca_file, self._resolve, self._connect = guard, ca_file, resolve, connect

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> HttpResponse:
        """Send a request, and read the response."""
        endpoint = self.guard.endpoint(url)
        addresses = self.guard.judge(endpoint.host, await self._answers(endpoint))
        reader, writer = await self._open(endpoint, addresses)
        try:
            writer.write(_head(method, endpoint, headers, len(body)) + body)
            await writer.drain()
            return await _response(reader)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise DeliveryFailed(f"{endpoint.host} sent what is no HTTP response") from error
        except OSError as error:
            raise DeliveryFailed(f"the connection to {endpoint.host} broke: {error}") from error
        finally:
            writer.transport.abort()  # nothing more is expected, and a server may not hold us up by not closing

    async def _answers(self, endpoint: Endpoint) -> Sequence[str]:
        try:
            return await self._resolve(endpoint.host, endpoint.port)
        except OSError as error:
            raise DeliveryFailed(f"the name {endpoint.host} was not found: {error}") from error

    async def _open(self, endpoint: Endpoint, addresses: Sequence[str]) -> Connection:
        tls = self._tls if endpoint.scheme == "https" else None
        failed: OSError | None = None
        for address in addresses[:MAX_ADDRESSES_TRIED]:
            try:
                return await self._connect(address, endpoint.port, tls, endpoint.host if tls else None)
            except OSError as error:
                failed = error
        raise DeliveryFailed(f"{endpoint.host} cannot be reached: {failed}") from failed

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._ca_file)


def _head(method: str, endpoint: Endpoint, headers: Mapping[str, str], length: int) -> bytes:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    usual = endpoint.port == (443 if endpoint.scheme == "https" else 80)
    sent = {
        "Host": host if usual else f"{host}:{endpoint.port}",
        "User-Agent": "packhorse",
        "Accept": "*/*",
        "Connection": "close",
        "Content-Length": str(length),
        **headers,
    }
    lines = [f"{method} {endpoint.path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _response(reader: asyncio.StreamReader) -> HttpResponse:
    status = 100
    while status < 200:  # those before are interim
        version, _, rest = (await _line(reader)).partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(version)
        status, headers = int(rest[:3]), await _headers(reader)
    if status in (204, 304):
        return HttpResponse(status, headers, b"")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return HttpResponse(status, headers, await _chunks(reader))
    length = int(headers.get("content-length", READ_MAX_BYTES))
    return HttpResponse(status, headers, await _up_to(reader, min(length, READ_MAX_BYTES)))


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = await _line(reader)
        if not line:
            return headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise ValueError("too many headers")


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while len(body) < READ_MAX_BYTES and (size := int((await _line(reader)).partition(";")[0], 16)):
        body += await _up_to(reader, min(size, READ_MAX_BYTES - len(body)))
        if len(body) < READ_MAX_BYTES:
            await _line(reader)
    return body


async def _up_to(reader: asyncio.StreamReader, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := await reader.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


async def _line(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\n")).decode("latin-1").rstrip("\r\n")
