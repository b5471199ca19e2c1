"""A worker as the fleet knows it."""

import msgspec

from packhorse.model import limits
from packhorse.model.ids import check_id


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
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
        limits.name("worker", self.name)


Decoder = msgspec.json.Decoder[WorkerInfo] | msgspec.msgpack.Decoder[WorkerInfo]


def stored_worker(decoder: Decoder, data: bytes, seen: int) -> WorkerInfo | None:
    """Read a worker as of its last beat; None if it cannot be read."""
    try:
        return msgspec.structs.replace(decoder.decode(data), seen=seen)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
