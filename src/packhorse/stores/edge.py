"""What every store refuses before it does anything: arguments that are no checked values by themselves."""

from collections.abc import Callable, Sequence

from packhorse.errors import InvalidOption, TooManyEffects
from packhorse.model import limits
from packhorse.model.effect import Effect, Publish, Put, bytes_of
from packhorse.model.ids import JobId, check_id
from packhorse.model.job import NewJob
from packhorse.model.lease import Lease, Settlement
from packhorse.model.reason import WaitReason

_SURELY_FIT = limits.CALL_BYTES // (limits.PAYLOAD + limits.HEADERS)


def jobs(given: Sequence[NewJob]) -> None:
    """Refuse more jobs, or more bytes in all, than one call may bring."""
    limits.items("jobs", given)
    if len(given) > _SURELY_FIT:
        limits.total("jobs", sum([len(job.payload) + len(job.headers) for job in given]))


def settlements(given: Sequence[Settlement]) -> None:
    """Refuse more settlements, or more effects in all, than one exchange may write."""
    limits.items("settlements", given)
    effects = sum(len(settlement.effects) for settlement in given)
    if effects > limits.EFFECTS_PER_CALL:
        raise TooManyEffects("effects", effects, limits.EFFECTS_PER_CALL)


def moves(given: Sequence[Sequence[Effect]]) -> None:
    """Refuse more moves, or more effects or bytes in all, than one call may write."""
    limits.items("moves", given)
    limits.total("effects", sum(map(bytes_of, given)))
    effects = sum(len(move) for move in given)
    if effects > limits.EFFECTS_PER_CALL:
        raise TooManyEffects("effects", effects, limits.EFFECTS_PER_CALL)


def renewals(leases: Sequence[Lease], duration: int) -> None:
    """Refuse leases that are too many, or would be over at once."""
    limits.items("leases", leases)
    limits.span("duration", duration, limits.STORE_MIN_LEASE_US)


def limit(given: int) -> None:
    """Refuse a limit that is no small positive number."""
    limits.within("limit", given, 1, limits.LOOKED_AT)


def losses(most: int) -> None:
    """Refuse a number of losses that nothing could reach."""
    limits.within("max lost", most, 1, limits.LOSSES)


def release(reason: WaitReason, tasks: Sequence[str] | None) -> None:
    """Refuse to release jobs that are released by the end of others."""
    if not isinstance(reason, WaitReason):
        raise InvalidOption("release", reason, f"give one of {', '.join(WaitReason)}")
    if reason in (WaitReason.LANE, WaitReason.CHILDREN):
        raise InvalidOption(
            "release", reason.value, "lanes and children let their jobs go by themselves; cancel it instead"
        )
    _names("tasks", "task", tasks or (), limits.name)


def ids(given: Sequence[JobId]) -> None:
    """Refuse what are no ids, or too many."""
    limits.items("ids", given)
    for job in given:
        check_id(job)


def bodies(given: bool) -> None:
    """Refuse what does not say whether bodies are wanted."""
    if not isinstance(given, bool):
        raise InvalidOption("bodies", given, "give True or False")


def notes(given: Sequence[tuple[Lease, bytes]]) -> None:
    """Refuse progress that is too long to be looked at often."""
    limits.items("notes", given)
    for _, progress in given:
        limits.text("progress", progress, limits.PROGRESS)


def puts(given: Sequence[Put]) -> None:
    """Refuse more records, or more bytes in all, than one call may write."""
    limits.items("records", given)
    limits.total("records", bytes_of(given))


def keys(kind: str, given: Sequence[str]) -> None:
    """Refuse a kind or keys that no record can have."""
    limits.name("record kind", kind)
    _names("keys", "record key", given, limits.key)


def prefix(kind: str, given: str) -> None:
    """Refuse a kind or a prefix that no record can have."""
    limits.name("record kind", kind)
    if given:
        limits.key("prefix", given)


def events(given: Sequence[Publish]) -> None:
    """Refuse more events, or more bytes in all, than one call may bring."""
    limits.items("events", given)
    limits.total("events", bytes_of(given))


def reading(stream: str, after: int, most: int) -> None:
    """Refuse to read what is no stream, or from what is no offset."""
    limits.name("stream", stream)
    limits.within("after", after, 0, 2**53)
    limit(most)


def stream(name: str) -> None:
    """Refuse what is no name of a stream."""
    limits.name("stream", name)


def trim(stream: str, below: int, most: int) -> None:
    """Refuse to trim what is no stream, or below what is no offset."""
    limits.name("stream", stream)
    limits.within("below", below, 0, 2**53)
    limit(most)


def queues(given: Sequence[str]) -> None:
    """Refuse what are no names of queues."""
    _names("queues", "queue", given, limits.name)


def _names(what: str, one: str, given: Sequence[str], check: Callable[[str, object], None]) -> None:
    if isinstance(given, str):  # would be taken for the list of its letters
        raise InvalidOption(what, given, "give a list of names")
    limits.items(what, given)
    for name in given:
        check(one, name)


def ttl(given: int) -> None:
    """Refuse a time that cannot be meant."""
    limits.span("ttl", given)
