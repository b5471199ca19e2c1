"""Evaluating rules: whichever process comes first writes the state, the next moment and the deliveries as one step."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from packhorse.alerts.alert import KIND, Alert, AlertFinding, AlertState, StoredGroup, StoredRule, stored
from packhorse.alerts.declaring import all_records, put_rule
from packhorse.alerts.deliveries import deliveries_of, delivery_job
from packhorse.alerts.groups import QUIET_US, put_group
from packhorse.alerts.messages import when
from packhorse.alerts.progress import advance, next_look
from packhorse.alerts.queue_findings import Look, queue_findings, take_look
from packhorse.alerts.rules import RuleKind
from packhorse.alerts.schedule_findings import schedule_findings
from packhorse.alerts.silences import silenced
from packhorse.model import limits
from packhorse.model.effect import Effect, Enqueue, Put
from packhorse.model.record import Record
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

MAX_EFFECTS = 400  # of one rule in one step
MAX_ALERTS = 500  # of one rule at a time: they are kept in its record
_KINDS = frozenset(RuleKind)


async def evaluate_due(client: "Client", store: Store, telemetry: Telemetry) -> bool:
    """Evaluate every rule and alert whose moment has come; answer whether there may be more."""
    records = await store.records.due(KIND, limits.ITEMS)
    if not records:
        return False
    look, written = await take_look(store), False
    rules = await _rules_of_groups(store, records)
    for record in records:
        try:
            if move := await _move(client, look, record, rules):
                await store.jobs.fire([move])  # a conflict says that another process was first
                written = True
        except Exception as error:  # noqa: BLE001 - one rule's failure is its own
            telemetry.emit(EventName.DUTY_FAILED, detail=f"evaluate alert {record.key}", error=error)
    return len(records) == limits.ITEMS and written


async def _rules_of_groups(store: Store, records: Sequence[Record]) -> Mapping[str, StoredRule]:
    names = {found.rule for record in records if isinstance(found := stored(record), StoredGroup)}
    rules = await store.records.get(KIND, sorted(names)) if names else []
    by_name = {record.key: stored(record) for record in rules if record is not None}
    return {name: rule for name, rule in by_name.items() if isinstance(rule, StoredRule) and not rule.disabled}


async def _move(client: "Client", look: Look, record: Record, rules: Mapping[str, StoredRule]) -> list[Effect] | None:
    """What follows from a record that is due; None if it is of a newer release, whose processes see to it."""
    found = stored(record)
    if isinstance(found, StoredGroup):
        return _group_move(client, look, record, found, rules.get(found.rule))
    if found is None or found.spec.kind not in _KINDS:
        return None
    if found.disabled:
        return [put_rule(record.key, found, due=0, expect=record.version)]
    if found.spec.kind == RuleKind.ANY_DEAD:  # its alerts are records of their own
        return [put_rule(record.key, found, due=0, expect=record.version)]
    if found.spec.kind == RuleKind.HEARTBEAT:
        return await _heartbeat_move(client, look, record, found)
    return await _rule_move(client, look, record, found)


async def _rule_move(client: "Client", look: Look, record: Record, rule: StoredRule) -> list[Effect]:
    more, found = False, dict[str, AlertFinding]()
    if rule.spec.kind == RuleKind.MISSED:
        scheduled = await schedule_findings(client, look.store, rule)
        found, more, rule = dict(scheduled.found), scheduled.more, replace(rule, cursor=scheduled.cursor)
    else:
        found = await queue_findings(rule.spec, look)
    effects, alerts = list[Effect](), dict[str, AlertState]()
    for subject in sorted({*rule.alerts, *found}):
        old, finding = rule.alerts.get(subject), found.get(subject)
        if old is None and len(alerts.keys() | rule.alerts.keys()) >= MAX_ALERTS:
            continue
        if len(effects) + len(rule.to) > MAX_EFFECTS:  # the others have their turn at the next look, at once
            more = True
            if old is not None:
                alerts[subject] = old
            continue
        step = advance(rule.spec, old, finding, look.now, silenced=silenced(look.silences, rule.spec.name, finding))
        if step.state is not None:
            alerts[subject] = step.state
        state = step.state or old
        if step.phase is not None and state is not None:
            key = rule.spec.name if rule.spec.queue or rule.spec.schedule else f"{rule.spec.name}/{subject}"
            effects += deliveries_of(client, rule.spec, key, state, step.phase, rule.to, look.now)
    due = look.now if more else next_look(list(alerts.values()), look.now)
    return [put_rule(record.key, replace(rule, alerts=alerts), due=due, expect=record.version), *effects]


def _group_move(
    client: "Client", look: Look, record: Record, group: StoredGroup, rule: StoredRule | None
) -> list[Effect]:
    """An alert about deaths goes on until there was none for a while; one whose rule is gone is removed."""
    if rule is None:
        return [Put(KIND, record.key, None, expect=record.version)]
    old = group.state
    finding = old.finding if look.now - old.finding.moment < QUIET_US else None
    step = advance(rule.spec, old, finding, look.now, silenced=silenced(look.silences, rule.spec.name, finding))
    put: Effect = put_group(record.key, rule.spec, step, look.now, record.version)
    if step.phase is None:
        return [put]
    sent = deliveries_of(client, rule.spec, record.key, step.state or old, step.phase, rule.to, look.now)
    return [put, *sent]


async def _heartbeat_move(client: "Client", look: Look, record: Record, rule: StoredRule) -> list[Effect]:
    """Call the monitor if the fleet is well: every queue with jobs has a worker, and no critical alert fires."""
    put: Effect = put_rule(record.key, rule, due=look.now + rule.spec.above, expect=record.version)
    if look.without_worker() or await _any_critical(look.store):
        return [put]
    alert = Alert(
        type="heartbeat", phase="test", severity="info", message="The fleet is well", rule=rule.spec.name,
        fired_at=when(look.now),
    )  # fmt: skip
    return [
        put,
        *(
            Enqueue(delivery_job(client, name, alert, id=f"heartbeat:{name}:{look.now}", lane=None, attempts=1))
            for name in rule.to
        ),
    ]


async def _any_critical(store: Store) -> bool:
    critical = set[str]()
    async for record in all_records(store):  # a rule comes before its groups
        found = stored(record)
        if isinstance(found, StoredGroup):
            if found.rule in critical and found.state.fired_at:
                return True
        elif found is not None and not found.disabled and found.spec.severity == "critical":
            critical.add(record.key)
            if any(state.fired_at for state in found.alerts.values()):
                return True
    return False
