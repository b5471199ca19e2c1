"""A TCP proxy whose wire goes bad in several ways, and is healed, while jobs flow through it."""

import asyncio
import contextlib
import enum
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.integration.flowing import Account, Plan
from tests.integration.torn import LONG

ROUNDS = 10 if LONG else 1
BOUND = 20  # seconds within which anything happens
AIM = 5  # seconds after which work goes on at the latest
SLACK = 2  # seconds more for a machine that does much else


class Wire(enum.Enum):
    """What happens to bytes and to those who connect."""

    WELL = "passes on"
    REFUSE = "refuses everybody, and cuts those who are there"
    HOLE = "swallows all bytes; who was there then is never answered"
    CUT = "resets a connection after some bytes"
    MUTE = "passes requests on, and swallows answers"
    SLOW = "passes one byte a second"


# Seconds that each lasts. Who says nothing lasts longer than any call, so that new connections meet it too.
BAD = {
    Wire.REFUSE: 6 if LONG else 1.5,
    Wire.HOLE: 6,
    Wire.CUT: 6 if LONG else 1.5,
    Wire.MUTE: 6,
    Wire.SLOW: 6,
}


class BadWire:
    """Passes bytes on as long as it is well; ``cut`` is after how many bytes a connection is reset."""

    def __init__(self, url: str, *, cut: int = 2000) -> None:
        self._parts = urlsplit(url)
        self._cut = cut
        self._state = Wire.WELL
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.harmed = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["BadWire"]:
        """Serve as long as the block runs."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        user = f"{self._parts.username}@" if self._parts.username else ""
        self.url = self._parts._replace(netloc=f"{user}127.0.0.1:{self._port}").geturl()
        try:
            yield self
        finally:
            self._server.close()
            self._drop_all()
            await asyncio.gather(*self._open, return_exceptions=True)
            await asyncio.sleep(0.05)  # for both ends of what was closed to be gone

    async def becomes(self, state: Wire) -> None:
        """Go bad, or be healed: those who were cut off then have to connect anew."""
        if state is Wire.REFUSE:
            assert self._server is not None
            self._server.close()
            self._drop_all()
        elif self._state is Wire.REFUSE:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._state = state

    def _drop_all(self) -> None:
        for task in list(self._open):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        task.add_done_callback(self._open.pop)
        with contextlib.suppress(asyncio.CancelledError):  # also in the middle of hanging up
            await self._join(reader, writer)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends, ways = [writer], []
        try:
            upstream, down = await asyncio.open_connection(self._parts.hostname, self._parts.port)
            ends.append(down)
            ways.append(asyncio.ensure_future(self._pass(reader, down, answers=False)))
            ways.append(asyncio.ensure_future(self._pass(upstream, writer, answers=True)))
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            _reset(writer)
        finally:
            for way in ways:
                way.cancel()
            for end in ends:
                end.transport.abort()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool) -> None:
        passed = 0
        lost = False
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                state = self._state
                self.harmed += state is not Wire.WELL
                lost = lost or state is Wire.HOLE or (state is Wire.MUTE and answers)
                if lost:  # a stream with a gap in it is of no use to anybody
                    continue
                if state is Wire.SLOW:
                    await self._trickle(data, target)
                    continue
                if state is Wire.CUT:
                    passed += len(data)
                    if passed > self._cut:
                        _reset(target)
                        return
                target.write(data)
                await target.drain()

    async def _trickle(self, data: bytes, target: asyncio.StreamWriter) -> None:
        for at in range(len(data)):
            if self._state is not Wire.SLOW:
                target.write(data[at:])
                break
            target.write(data[at : at + 1])
            await asyncio.sleep(1)
        await target.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close as a router does that has forgotten the connection."""
    line = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Suffered(NamedTuple):
    """What became of jobs, and how long after it was healed work went on at the latest."""

    state: Wire
    account: Account
    back: float


async def suffer(url: str, state: Wire, rounds: int) -> Suffered:
    """Let jobs flow while the wire goes bad and is healed."""
    back = []
    async with BadWire(url).running() as wire:

        async def go_bad(flow: Plan) -> None:
            for _ in range(rounds):
                await wire.becomes(state)
                await asyncio.sleep(BAD[state])
                await wire.becomes(Wire.WELL)
                healed, ran = time.monotonic(), flow.ran.total()
                async with asyncio.timeout(BOUND):
                    while flow.ran.total() <= ran:
                        await asyncio.sleep(0.01)
                back.append(time.monotonic() - healed)
                await flow.more(20)

        account = await Plan(wire.url).through(go_bad)
        assert wire.harmed or state is Wire.REFUSE
    return Suffered(state, account, max(back))


def show(suffered: Iterable[Suffered]) -> None:
    """Nothing was lost, and work went on soon, whatever was wrong with the wire."""
    late = []
    for state, account, back in suffered:
        print(f"{state.name}: working again {back:.2f} s after it was healed, at the latest")  # noqa: T201
        assert account.lost == 0, state
        late += [(state, back)] if back > AIM + SLACK else []
    assert late == []
