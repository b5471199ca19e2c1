"""Groups of deaths with the same fingerprint: how many, since when, in which releases."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from packhorse.model import limits
from packhorse.model.clock import moment
from packhorse.model.death import Death
from packhorse.model.effect import Effect, Put
from packhorse.model.ids import id_text
from packhorse.model.record import Record
from packhorse.stores.contract import Store
from packhorse.telemetry.redact import redacted

GROUPS: Final = "packhorse.error_groups"
GROUP_KEPT_US: Final = 31 * 86_400 * limits.SECOND
HOUR_US: Final = 3600 * limits.SECOND
HOURS: Final = 24
NEWEST: Final = 10
MESSAGE_MAX_CHARACTERS: Final = 500


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Deaths with the same cause."""

    fingerprint: str
    """What the deaths have in common."""
    task: str
    """The task of the newest death."""
    error_type: str
    """The class of the exception; for deaths without one, the reason."""
    frame: str
    """The innermost function of your code in the traceback."""
    message: str
    """The message of the newest death, without secrets."""
    deaths: int
    """How many deaths there were. A job that is replayed and dies again counts twice."""
    first_died_at: datetime
    """When the first of them died."""
    last_died_at: datetime
    """When the last of them died."""
    first_release: str
    """The release in which the first of them died."""
    last_release: str
    """The release in which the last of them died."""
    newest: tuple[str, ...]
    """The ids of the last ten jobs, the newest first."""
    hourly: tuple[int, ...]
    """Deaths in each of 24 hours, the hour of the last death first."""
    exact: bool = True
    """False if nothing has counted the deaths, and the group was made of the dead jobs that are kept."""


def grown(group: ErrorGroup | None, deaths: Sequence[Death], *, exact: bool = True) -> ErrorGroup:
    """Add deaths, of which there is at least one, to their group."""
    ordered = sorted(deaths, key=lambda death: (death.at, death.job.id))
    first, last = ordered[0], ordered[-1]
    began = moment(first.at) if group is None else min(group.first_died_at, moment(first.at))
    newer = group is None or moment(last.at) >= group.last_died_at
    if group is None or newer:
        failure = last.failure
        shown = ErrorGroup(
            fingerprint=last.fingerprint,
            task=last.job.task,
            error_type=last.error_type,
            frame="" if failure is None else failure.frame,
            message=redacted(last.message[: 4 * MESSAGE_MAX_CHARACTERS])[:MESSAGE_MAX_CHARACTERS],
            deaths=0,
            first_died_at=began,
            last_died_at=moment(last.at),
            first_release="",
            last_release=_release(last),
            newest=(),
            hourly=(),
        )
    else:
        shown = group
    ids = [*(id_text(death.job.id) for death in reversed(ordered)), *(group.newest if group else ())]
    return msgspec.structs.replace(
        shown,
        deaths=len(deaths) + (group.deaths if group else 0),
        first_died_at=began,
        first_release=group.first_release if group else _release(first),
        newest=tuple(dict.fromkeys(ids))[:NEWEST],
        hourly=_hourly(group, deaths, shown.last_died_at),
        exact=exact,
    )


def _release(death: Death) -> str:
    return "" if death.failure is None else death.failure.release


def _hourly(group: ErrorGroup | None, deaths: Iterable[Death], last: datetime) -> tuple[int, ...]:
    """Count deaths by hours back from the last one; what is older than a day falls out."""
    newest = _hour(last)
    counts = Counter(newest - death.at // HOUR_US for death in deaths)
    if group is not None:
        behind = newest - _hour(group.last_died_at)
        counts.update({hour + behind: count for hour, count in enumerate(group.hourly)})
    return tuple(counts[hour] for hour in range(HOURS))


def _hour(at: datetime) -> int:
    return int(at.timestamp()) * limits.SECOND // HOUR_US


_DECODER = msgspec.json.Decoder(ErrorGroup)


def group_of(record: Record) -> ErrorGroup:
    """Read a group."""
    return _DECODER.decode(record.value)


def by_fingerprint(deaths: Iterable[Death]) -> dict[str, list[Death]]:
    """Put deaths with the same fingerprint together."""
    groups: dict[str, list[Death]] = {}
    for death in deaths:
        groups.setdefault(death.fingerprint, []).append(death)
    return groups


class GroupCounter:
    """Counts deaths by fingerprint: a consumer of deaths."""

    name, repeatable = "groups", False

    async def on_deaths(self, store: Store, deaths: Sequence[Death]) -> Sequence[Effect]:
        """Give the groups of these deaths, grown by them."""
        groups = by_fingerprint(deaths)
        records = dict(zip(groups, await store.records.get(GROUPS, list(groups)), strict=True))
        return [self._put(key, records[key], some) for key, some in groups.items()]

    def _put(self, key: str, record: Record | None, deaths: Sequence[Death]) -> Put:
        group = grown(None if record is None else group_of(record), deaths)
        expires = round(group.last_died_at.timestamp() * limits.SECOND) + GROUP_KEPT_US
        expect = 0 if record is None else record.version
        return Put(GROUPS, key, msgspec.json.encode(group), expect=expect, expires=expires)
