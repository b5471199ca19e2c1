"""A worker as the fleet knows it."""

import msgspec

from packhorse.model import caps
from packhorse.model.ids import check_id


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One incarnation of a worker process: the id is new with every start, the name is for people."""

    id: bytes
    name: str
    host: str = ""
    pid: int = 0
    slots: int = 0
    release: str | None = None
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    started: int = 0
    seen: int = 0

    def __post_init__(self) -> None:
        check_id(self.id)
        caps.name("worker", self.name)


Decoder = msgspec.json.Decoder[Worker] | msgspec.msgpack.Decoder[Worker]


def stored_worker(decoder: Decoder, data: bytes, seen: int) -> Worker | None:
    """Read a worker as it last said, seen when it said so; None if that cannot be read."""
    try:
        return msgspec.structs.replace(decoder.decode(data), seen=seen)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
