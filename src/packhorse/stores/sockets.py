"""Settings of sockets that all servers share."""

import asyncio
import contextlib
import socket

UNSENT_BYTES = 128 << 10


def show_progress(transport: asyncio.BaseTransport) -> None:
    """Let the system hold few bytes that it has not sent yet: what it takes is then a sign that the line moves."""
    line = transport.get_extra_info("socket")
    with contextlib.suppress(AttributeError, OSError):  # not every system has it, and no socket of the file system
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
