"""What every store refuses before it does anything: arguments that are no checked values by themselves."""

from collections.abc import Sequence

from packhorse.errors import InvalidOption, TooManyEffects
from packhorse.model import caps
from packhorse.model.effect import Effect, Publish, Put, bytes_of
from packhorse.model.ids import JobId, check_id
from packhorse.model.job import NewJob
from packhorse.model.lease import Lease, Settlement
from packhorse.model.reason import WaitReason

_SURELY_FIT = caps.CALL_BYTES // (caps.PAYLOAD + caps.HEADERS)


def jobs(given: Sequence[NewJob]) -> None:
    """Refuse more jobs, or more bytes in all, than one call may bring."""
    caps.items("jobs", given)
    if len(given) > _SURELY_FIT:
        caps.total("jobs", sum([len(job.payload) + len(job.headers) for job in given]))


def settlements(given: Sequence[Settlement]) -> None:
    """Refuse more settlements, or more effects in all, than one exchange may write."""
    caps.items("settlements", given)
    effects = sum(len(settlement.effects) for settlement in given)
    if effects > caps.EFFECTS_PER_CALL:
        raise TooManyEffects("effects", effects, caps.EFFECTS_PER_CALL)


def moves(given: Sequence[Sequence[Effect]]) -> None:
    """Refuse more moves, or more effects or bytes in all, than one call may write."""
    caps.items("moves", given)
    caps.total("effects", sum(map(bytes_of, given)))
    effects = sum(len(move) for move in given)
    if effects > caps.EFFECTS_PER_CALL:
        raise TooManyEffects("effects", effects, caps.EFFECTS_PER_CALL)


def renewals(leases: Sequence[Lease], duration: int) -> None:
    """Refuse leases that are too many, or would be over at once."""
    caps.items("leases", leases)
    caps.span("duration", duration, caps.SHORTEST_LEASE)


def limit(given: int) -> None:
    """Refuse a limit that is no small positive number."""
    caps.within("limit", given, 1, caps.LOOKED_AT)


def losses(most: int) -> None:
    """Refuse a number of losses that nothing could reach."""
    caps.within("max lost", most, 1, caps.LOSSES)


def release(reason: WaitReason, tasks: Sequence[str] | None) -> None:
    """Refuse to release what goes on by itself."""
    if reason in (WaitReason.LANE, WaitReason.CHILDREN):
        raise InvalidOption(
            "release", reason.value, "lanes and children let their jobs go by themselves; cancel it instead"
        )
    caps.items("tasks", tasks or ())
    for task in tasks or ():
        caps.name("task", task)


def ids(given: Sequence[JobId]) -> None:
    """Refuse what are no ids, or too many."""
    caps.items("ids", given)
    for job in given:
        check_id(job)


def notes(given: Sequence[tuple[Lease, bytes]]) -> None:
    """Refuse progress that is too long to be looked at often."""
    caps.items("notes", given)
    for _, progress in given:
        caps.text("progress", progress, caps.PROGRESS)


def puts(given: Sequence[Put]) -> None:
    """Refuse more records, or more bytes in all, than one call may write."""
    caps.items("records", given)
    caps.total("records", bytes_of(given))


def keys(kind: str, given: Sequence[str]) -> None:
    """Refuse a kind or keys that no record can have."""
    caps.name("record kind", kind)
    caps.items("keys", given)
    for key in given:
        caps.key("record key", key)


def prefix(kind: str, given: str) -> None:
    """Refuse a kind or a prefix that no record can have."""
    caps.name("record kind", kind)
    if given:
        caps.key("prefix", given)


def events(given: Sequence[Publish]) -> None:
    """Refuse more events, or more bytes in all, than one call may bring."""
    caps.items("events", given)
    caps.total("events", bytes_of(given))


def reading(stream: str, after: int, most: int) -> None:
    """Refuse to read what is no stream, or from what is no offset."""
    caps.name("stream", stream)
    caps.within("after", after, 0, 2**53)
    limit(most)


def queues(given: Sequence[str]) -> None:
    """Refuse what are no names of queues."""
    caps.items("queues", given)
    for queue in given:
        caps.name("queue", queue)


def ttl(given: int) -> None:
    """Refuse a time that cannot be meant."""
    caps.span("ttl", given)
