"""Rules declared in code, stored as records: a higher release decides, and every process may store them."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from packhorse.alerts.alert import KIND, StoredRule, stored
from packhorse.alerts.rules import RuleKind, RuleSpec
from packhorse.errors import InvalidOption
from packhorse.model import limits
from packhorse.model.effect import Put
from packhorse.model.record import Record
from packhorse.schedules.failure_events import STREAM
from packhorse.schedules.release import rank
from packhorse.stores.contract import Store
from packhorse.telemetry.names import EventName

if TYPE_CHECKING:
    from packhorse.telemetry.emit import Telemetry

TRIES = 100


class Declaration(msgspec.Struct, frozen=True):
    """The rules of an app in one release, with the names of their targets."""

    app: str
    release: str | None
    rules: Mapping[str, tuple[RuleSpec, tuple[str, ...]]]


async def declare(store: Store, declared: Declaration, telemetry: "Telemetry") -> list[str]:
    """Store what is declared, disable what lower releases of the app declared besides, and name what was changed.

    What a higher release declared stays as it is. Without a release, nothing is disabled.
    """
    changed: list[str] = []
    for name, (spec, to) in declared.rules.items():
        now = await store.ping()
        new = StoredRule(spec=spec, to=to, app=declared.app, since=now, release=declared.release)
        if await _change(store, name, lambda old, new=new: _merged(old, new, telemetry), now):  # type: ignore[misc]
            changed.append(name)
    if declared.release is not None:
        changed += [
            name
            for name in await _left_out(store, declared)
            if await _change(store, name, lambda old: _disabled(old, declared), await store.ping())
        ]
    return changed


def _merged(old: StoredRule | None, new: StoredRule, telemetry: "Telemetry") -> StoredRule | None:
    """What is to be stored over a rule of the same name; None to leave it. Alerts that hold go on."""
    if old is None:
        return new
    if rank(old.release) > rank(new.release):
        if old.disabled or not old.same(new):
            detail = f"alert rule {new.spec.name} of {old.release} over {new.release}"
            telemetry.emit(EventName.DECLARATION_IGNORED, detail=detail)
        return None
    if old.same(new) and not old.disabled and old.release == new.release:
        return None
    same_scope = not old.disabled and (old.spec.kind, old.spec.queue, old.spec.schedule) == (
        new.spec.kind, new.spec.queue, new.spec.schedule,
    )  # fmt: skip
    return replace(new, since=old.since, cursor=old.cursor, alerts=old.alerts) if same_scope else new


def _disabled(old: StoredRule | None, by: Declaration) -> StoredRule | None:
    """A rule that is declared no more, in the name of this release, so that a lower one does not bring it back."""
    if old is None or old.disabled or old.app != by.app or rank(old.release) >= rank(by.release):
        return None
    return replace(old, disabled=True, release=by.release, alerts={})


async def _left_out(store: Store, declared: Declaration) -> list[str]:
    names: list[str] = []
    async for record in all_records(store):
        rule = stored(record)
        if isinstance(rule, StoredRule) and record.key not in declared.rules and _disabled(rule, declared) is not None:
            names.append(record.key)
    return names


async def all_records(store: Store) -> AsyncIterator[Record]:
    """Read all records of rules and of groups, page by page."""
    cursor: str | None = None
    while True:
        page = await store.records.find(KIND, limit=limits.ITEMS, cursor=cursor)
        for record in page.items:
            yield record
        cursor = page.cursor
        if cursor is None:
            return


async def _change(store: Store, name: str, change: Callable[[StoredRule | None], StoredRule | None], now: int) -> bool:
    """Write what a function makes of a rule, again if another process was faster; None leaves it."""
    for _ in range(TRIES):
        [record] = await store.records.get(KIND, [name])
        old = None if record is None else stored(record)
        if old is not None and not isinstance(old, StoredRule):
            return False
        if old is None and record is not None:  # of a newer release
            return False
        new = change(old)
        if new is None:
            return False
        if new.cursor is None and new.spec.kind == RuleKind.MISSED:
            new = replace(new, cursor=(await store.streams.bounds(STREAM)).last)
        expect = 0 if record is None else record.version
        [version] = await store.records.put([put_rule(name, new, due=0 if new.disabled else now, expect=expect)])
        if version is not None:
            return True
    raise InvalidOption("alert rule", name, "other processes keep changing it: try again later")


def put_rule(name: str, rule: StoredRule, *, due: int, expect: int) -> Put:
    """Write a rule."""
    return Put(KIND, name, msgspec.json.encode(rule), expect=expect, due=due)
