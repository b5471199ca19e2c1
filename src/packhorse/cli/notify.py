"""What systemd wants to know of a service: that it is ready, lives, and stops. Nothing where there is no systemd."""

import os
import socket
from contextlib import suppress

from packhorse.model.clock import SYSTEM


def notify(word: str) -> None:
    """Tell systemd ``READY=1``, ``STOPPING=1`` or ``WATCHDOG=1``."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or not hasattr(socket, "AF_UNIX"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(word.encode(), "\0" + address[1:] if address.startswith("@") else address)


async def keep_notifying() -> None:
    """Say that this process lives, twice as often as systemd asks for, until cancelled."""
    asked = os.environ.get("WATCHDOG_USEC", "")
    if asked.isdigit() and os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
        while True:
            notify("WATCHDOG=1")
            await SYSTEM.sleep(max(1, int(asked) // 2))
