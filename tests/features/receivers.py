"""Real receivers on this machine: of HTTP, with TLS if asked for, and of SMTP."""

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from packhorse import Webhook

NEW = "whsec_" + "bmV3LXNlY3JldC1uZXctc2VjcmV0"
LOOPBACK: dict[str, Any] = {"allow": ["127.0.0.0/8", "::1/128"], "http": True}


class HttpReceiver:
    """Answers each request with what a test has set, and keeps the requests."""

    def __init__(self) -> None:
        self.requests, self.answer, self.port = [], b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nthanks", 0

    def answers(self, status: int, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.answer = "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers.get("Content-Length", 0)))
            self.requests.append((head[0], headers, body))
            if self.answer == b"never":
                await reader.read()
            writer.write(self.answer)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def http_receiver(certificate: Path | None = None) -> AsyncIterator[HttpReceiver]:
    """A receiver on a free port, until the block ends."""
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    receiver = HttpReceiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=context)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


def webhook(receiver: HttpReceiver, **options: Any) -> Webhook:
    """A webhook of the receiver."""
    return Webhook(f"http://localhost:{receiver.port}/alerts?team=ops", ports=[receiver.port], **LOOPBACK, **options)


class SmtpReceiver:
    """Takes e-mail without TLS, and keeps it."""

    def __init__(self) -> None:
        self.mails, self.refuses, self.port = [], False, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers = {
            "EHLO": "250 here",
            "MAIL": "250 ok",
            "RCPT": "250 ok",
            "DATA": "354 go on",
            "QUIT": "221 bye",
            "RSET": "250 ok",
        }
        writer.write(b"220 receiver\r\n")
        with contextlib.suppress(OSError):
            while line := (await reader.readline()).decode():
                word = line[:4].upper()
                answer = "550 not here" if self.refuses and word == "RCPT" else answers.get(word, "502 what")
                writer.write(f"{answer}\r\n".encode())
                if word == "DATA":
                    self.mails.append((await reader.readuntil(b"\r\n.\r\n")).decode())
                    writer.write(b"250 taken\r\n")
                if word == "QUIT":
                    break
        writer.close()


@contextlib.asynccontextmanager
async def smtp_receiver() -> AsyncIterator[SmtpReceiver]:
    """A receiver of e-mail on a free port, until the block ends."""
    receiver = SmtpReceiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


def certificate(folder: Path) -> Path:
    """Make a key and a certificate for localhost that only a test trusts."""
    assert shutil.which("openssl"), "apt-get install openssl"
    both, cert = folder / "both.pem", folder / "both.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", str(both), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_bytes(both.read_bytes() + cert.read_bytes())
    return both
