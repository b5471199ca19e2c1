"""Alerts about deaths: one for each rule and fingerprint, written in one step with how far deaths were read."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from packhorse.alerts.alert import KIND, MAX_JOB_IDS, AlertFinding, StoredGroup, StoredRule, stored
from packhorse.alerts.declaring import all_records
from packhorse.alerts.deliveries import deliveries_of
from packhorse.alerts.details import error_text, with_details
from packhorse.alerts.groups import put_group
from packhorse.alerts.progress import advance
from packhorse.alerts.rules import RuleKind
from packhorse.alerts.silences import silenced, silences_now
from packhorse.model import limits
from packhorse.model.death import Death
from packhorse.model.effect import Effect
from packhorse.model.ids import id_text
from packhorse.model.record import Record
from packhorse.stores.contract import Store

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

MAX_EFFECTS = 390


class DeathAlerts:
    """Raises alerts about deaths; the rules are those that are stored, whichever app declared them."""

    name = "alerts"
    repeatable = False

    def __init__(self, client: "Client") -> None:
        self._client = client

    async def on_deaths(self, store: Store, deaths: Sequence[Death]) -> Sequence[Effect]:
        """Give the alerts that follow from these deaths, and their deliveries."""
        groups = _grouped(await _rules(store), deaths)
        keys = list(groups)
        records: dict[str, Record | None] = {}
        for start in range(0, len(keys), limits.ITEMS):
            some = keys[start : start + limits.ITEMS]
            records.update(zip(some, await store.records.get(KIND, some), strict=True))
        now, silences, effects = await store.ping(), await silences_now(store), list[Effect]()
        for key, (rule, group) in groups.items():
            record = records[key]
            found = None if record is None else stored(record)
            old = found.state if isinstance(found, StoredGroup) else None
            finding = await self._finding(store, None if old is None else old.finding, group)
            # without room for its deliveries an alert is written as silenced, and sent by the next look at it
            full = len(effects) + 1 + len(rule.to) > MAX_EFFECTS
            step = advance(rule.spec, old, finding, now, silenced=full or silenced(silences, rule.spec.name, finding))
            effects.append(put_group(key, rule.spec, step, now, 0 if record is None else record.version))
            if step.phase is not None and step.state is not None:
                effects += deliveries_of(self._client, rule.spec, key, step.state, step.phase, rule.to, now)
        return effects

    async def _finding(self, store: Store, old: AlertFinding | None, deaths: Sequence[Death]) -> AlertFinding:
        ids = tuple(id_text(death.job.id) for death in deaths)
        last = max(death.at for death in deaths)
        if old is not None:
            kept = (*old.job_ids, *ids)[:MAX_JOB_IDS]
            return replace(old, count=old.count + len(ids), job_ids=kept, moment=max(old.moment, last))
        first = deaths[0]
        [job] = await store.jobs.get([first.job.id])
        finding = with_details(AlertFinding(task=first.job.task, queue=first.job.queue), self._client.builder, job)
        if (failure := first.failure) is not None:  # the job may have been replayed since
            finding = replace(finding, error=error_text(failure), attempts=failure.attempt)
        kept = ids[:MAX_JOB_IDS]
        return replace(finding, count=len(ids), job_ids=kept, moment=last, fingerprint=first.fingerprint)


async def _rules(store: Store) -> list[StoredRule]:
    found = [stored(record) async for record in all_records(store)]
    rules = [rule for rule in found if isinstance(rule, StoredRule) and not rule.disabled]
    return [rule for rule in rules if rule.spec.kind == RuleKind.ANY_DEAD]


def _grouped(rules: Sequence[StoredRule], deaths: Sequence[Death]) -> Mapping[str, tuple[StoredRule, list[Death]]]:
    """Deaths by the key of their alert. Those before a rule was declared are not its business."""
    groups: dict[str, tuple[StoredRule, list[Death]]] = {}
    for rule in rules:
        for death in deaths:
            if death.at >= rule.since and rule.spec.queue in (None, death.job.queue):
                key = f"{rule.spec.name}/{death.fingerprint}"
                groups.setdefault(key, (rule, []))[1].append(death)
    return groups
