"""Notify systemd that the service is ready, alive or stopping. Does nothing without systemd."""

import os
import socket
from contextlib import suppress

from packhorse.model.clock import SYSTEM


def notify(message: str) -> None:
    """Send systemd ``READY=1``, ``STOPPING=1`` or ``WATCHDOG=1``."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or not hasattr(socket, "AF_UNIX"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(message.encode(), "\0" + address[1:] if address.startswith("@") else address)


async def keep_notifying() -> None:
    """Send the watchdog message twice as often as systemd requires, until cancelled."""
    interval_us = os.environ.get("WATCHDOG_USEC", "")
    if interval_us.isdigit() and os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
        while True:
            notify("WATCHDOG=1")
            await SYSTEM.sleep(max(1, int(interval_us) // 2))
