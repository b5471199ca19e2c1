"""Silences: for a time, alerts that match are not sent. They go on being evaluated."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from packhorse.alerts.alert import AlertFinding
from packhorse.errors import InvalidOption
from packhorse.model import limits
from packhorse.model.clock import moment
from packhorse.model.effect import Put
from packhorse.model.ids import id_text, new_id
from packhorse.stores.contract import Store

SILENCES = "packhorse.silences"
MAX_WHY = 500


class Silence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is not sent, and until when. An alert matches if all that is given here is so."""

    id: str
    """The id of the silence."""
    until: datetime
    """When it ends."""
    rule: str | None = None
    """The name of a rule."""
    queue: str | None = None
    """A queue."""
    task: str | None = None
    """A task."""
    fingerprint: str | None = None
    """What failures have in common."""
    who: str = ""
    """Who silenced it."""
    why: str = ""
    """Why."""

    def matches(self, rule: str, finding: AlertFinding) -> bool:
        """Whether an alert of this rule is silenced."""
        wanted = ((self.rule, rule), (self.queue, finding.queue), (self.task, finding.task))
        both = (*wanted, (self.fingerprint, finding.fingerprint))
        return all(mine is None or mine == its for mine, its in both)


_DECODER = msgspec.json.Decoder(Silence)


async def put_silence(store: Store, duration: int, who: str, why: str, **matcher: str | None) -> Silence:
    """Store a silence that begins now."""
    given = {name: text for name, text in matcher.items() if text is not None}
    if not given:
        raise InvalidOption("silence", given, "give rule=, queue=, task= or fingerprint=: nothing silences everything")
    for name, text in given.items():
        limits.key(name, text)
    limits.words("why", why, MAX_WHY)
    until = await store.ping() + duration
    silence = Silence(id=id_text(new_id()), until=moment(until), who=who, why=why, **given)
    await store.records.put([Put(SILENCES, silence.id, msgspec.json.encode(silence), expires=until)])
    return silence


async def silences_now(store: Store) -> list[Silence]:
    """Read the silences that are in force."""
    found: list[Silence] = []
    cursor: str | None = None
    while True:
        page = await store.records.find(SILENCES, limit=limits.ITEMS, cursor=cursor)
        for record in page.items:
            try:
                found.append(_DECODER.decode(record.value))
            except msgspec.MsgspecError:  # of a newer release
                continue
        cursor = page.cursor
        if cursor is None:
            return found


def silenced(silences: Sequence[Silence], rule: str, finding: AlertFinding | None) -> bool:
    """Whether one of these silences an alert."""
    return finding is not None and any(each.matches(rule, finding) for each in silences)
