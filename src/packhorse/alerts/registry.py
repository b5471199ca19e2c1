"""The alerts of an app: declared in code, looked at, silenced, tested."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.alerts.alert import KIND, Alert, AlertState, StoredGroup, StoredRule, stored
from packhorse.alerts.deaths import DeathAlerts
from packhorse.alerts.declaring import Declaration, all_records, declare
from packhorse.alerts.deliver import Deliverer
from packhorse.alerts.deliveries import DeliveryRecord, delivery_job, find_deliveries
from packhorse.alerts.evaluation import evaluate_due
from packhorse.alerts.messages import message, when
from packhorse.alerts.rules import AlertRule, RuleKind, RuleSpec, usual_rules
from packhorse.alerts.silences import SILENCES, Silence, put_silence, silenced, silences_now
from packhorse.alerts.targets import AnyTarget, Target, targets_by_name
from packhorse.alerts.webhook import Heartbeat
from packhorse.dead_letters.registry import DeadLetterHandlers
from packhorse.engine.caretaker import Duty
from packhorse.errors import InvalidOption
from packhorse.jobs.handle import JobHandle
from packhorse.model import limits
from packhorse.model.clock import Clock, moment
from packhorse.model.duration import Duration, micros
from packhorse.model.ids import id_text, new_id
from packhorse.stores.contract import Store
from packhorse.system_queue import SystemQueue
from packhorse.telemetry.emit import Telemetry

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

EVALUATE_PERIOD_US = 2_500_000  # how often a process looks whether a rule is due


class AlertStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as it stands, or one alert of it that holds."""

    rule: str
    """The name of the rule."""
    state: str
    """``quiet``, ``pending`` (it holds, but not yet for long enough), ``firing``, ``silenced`` or ``disabled``."""
    severity: str
    """``info``, ``warning``, ``error`` or ``critical``."""
    to: tuple[str, ...]
    """The names of its targets."""
    message: str = ""
    """What is wrong."""
    count: int = 0
    """How many jobs it is about, or how many runs."""
    since: datetime | None = None
    """Since when it holds."""
    fired_at: datetime | None = None
    """When it fired."""


class Alerts:
    """The alerts of an app: ``app.alerts(to=[…])`` declares them."""

    def __init__(
        self,
        client: "Client",
        system: SystemQueue,
        dead_letters: DeadLetterHandlers,
        release: str | None,
        telemetry: Telemetry,
        clock: Clock,
        owner: Callable[[], str],
    ) -> None:
        self._client, self._system, self._dead_letters = client, system, dead_letters
        self._release, self._telemetry, self._clock, self._owner = release, telemetry, clock, owner
        self._rules: dict[str, tuple[RuleSpec, tuple[str, ...]]] = {}
        self._targets: dict[str, Target] = {}

    # -- declaring

    def __call__(self, to: Sequence[AnyTarget], rules: Sequence[AlertRule] | None = None) -> None:
        """Send alerts of these rules to these targets, from when a worker of the app starts.

        Without rules: any dead job, more than 1,000 ready or 100 dead jobs in a queue, and scheduled runs that fail, are
        late or are missed.
        """
        if self._rules:
            raise InvalidOption(
                "alerts", "app.alerts(…)", "it was called before: give all targets and rules in one call"
            )
        if not to:
            raise InvalidOption("to", to, "give a list of targets: [Webhook(…), log_alerts]")
        chosen = usual_rules() if rules is None else tuple(rules)
        for rule in chosen:
            _check_rule(rule)
        own = [target for rule in chosen for target in rule.to or () if not isinstance(target, str)]
        self._targets.update(targets_by_name([*to, *own]))
        usual = tuple(name for name, target in targets_by_name(to).items() if not isinstance(target, Heartbeat))
        for rule in chosen:
            self._add(rule.spec(), usual if rule.to is None else self._names(rule.to))
        for name, target in self._targets.items():
            if isinstance(target, Heartbeat):
                self._add(_heartbeat_spec(name, target), (name,))
        Deliverer(self._client, self._targets, self._clock).register(self._system)
        self._system.add_duty(self._duty)
        self._system.require()
        if any(spec.kind == RuleKind.ANY_DEAD for spec, _ in self._rules.values()):
            self._dead_letters.add_consumer(DeathAlerts(self._client))

    def _add(self, spec: RuleSpec, to: tuple[str, ...]) -> None:
        if spec.name in self._rules:
            raise InvalidOption("rules", spec.name, "two rules have this name: give one of them another with name=")
        if not to:
            raise InvalidOption("to", spec.name, "this rule has no target")
        self._rules[spec.name] = (spec, to)

    def _names(self, given: Sequence[Any]) -> tuple[str, ...]:
        names = [one if isinstance(one, str) else next(iter(targets_by_name([one]))) for one in given]
        if unknown := [name for name in names if name not in self._targets]:
            raise InvalidOption("to", unknown[0], f"there is no such target: {', '.join(self._targets)}")
        return tuple(dict.fromkeys(names))

    def _duty(self, store: Store) -> Duty:
        declared = False

        async def evaluate() -> bool:
            nonlocal declared
            if not declared:
                await self.declare()
                declared = True
            return await evaluate_due(self._client, store, self._telemetry)

        return Duty("evaluate alerts", EVALUATE_PERIOD_US, evaluate)

    async def declare(self) -> list[str]:
        """Store the rules that are declared in code, as every worker does when it starts, and name those that changed.

        What a higher release declared stays as it is. With a release, what a lower one of this app declared and this one
        does not is disabled.
        """
        declared = Declaration(self._owner(), self._release, self._rules)
        return await declare(await self._store(), declared, self._telemetry)

    async def evaluate(self) -> None:
        """Evaluate the rules whose moment has come, as every worker of the app does all the time."""
        while await evaluate_due(self._client, await self._store(), self._telemetry):
            continue

    # -- looking

    async def find(self) -> list[AlertStatus]:
        """Give every rule as it stands now: one line for each alert that holds, or one for a rule without any."""
        store = await self._store()
        silences, found, rules = await silences_now(store), list[AlertStatus](), dict[str, StoredRule]()
        holding = set[str]()
        async for record in all_records(store):
            one = stored(record)
            if isinstance(one, StoredRule) and one.spec.kind in frozenset(RuleKind):
                rules[record.key] = one
                states = list(one.alerts.values())
            elif isinstance(one, StoredGroup) and one.rule in rules:
                states = [one.state]
            else:
                continue
            rule = rules[one.rule if isinstance(one, StoredGroup) else record.key]
            holding |= {rule.spec.name} if states else set()
            found += [_status(rule, state, silences) for state in states]
        quiet = [_quiet(rule) for name, rule in rules.items() if name not in holding]
        return sorted([*found, *quiet], key=lambda status: (status.rule, status.since or moment(0)))

    async def deliveries(self, limit: int = 100) -> list[DeliveryRecord]:
        """Give the latest deliveries with their failed attempts, the newest first."""
        limits.within("limit", limit, 1, limits.LOOKED_AT)
        return await find_deliveries(self._client, limit)

    # -- acting

    async def silence(
        self,
        *,
        rule: str | None = None,
        queue: str | None = None,
        task: str | None = None,
        fingerprint: str | None = None,
        for_: Duration,
        why: str = "",
    ) -> Silence:
        """Send no alerts that match all that is given here, for a time. What still holds then is sent then."""
        matcher = {"rule": rule, "queue": queue, "task": task, "fingerprint": fingerprint}
        given = {name: text for name, text in matcher.items() if text is not None}
        async with self._client.audit.recorded("alert silence", target=why or None, filter=given):
            duration = micros(for_, "for_", low=limits.SECOND)
            return await put_silence(await self._store(), duration, self._client.audit.actor.who, why, **matcher)

    async def silences(self) -> list[Silence]:
        """Give the silences in force."""
        return await silences_now(await self._store())

    async def end_silence(self, id: str) -> bool:
        """End a silence before its time, and say whether it was in force."""
        async with self._client.audit.recorded("alert silence end", target=id) as operation:
            operation.count = await (await self._store()).records.drop(SILENCES, [id])
        return bool(operation.count)

    async def remove(self, rule: str) -> bool:
        """Forget a rule and its alerts, and say whether it was there; one declared in code comes back with the next worker."""
        async with self._client.audit.recorded("alert remove", target=rule) as operation:
            operation.count = await (await self._store()).records.drop(KIND, [rule])
        return bool(operation.count)

    async def test(self, target: str | AnyTarget) -> JobHandle[Any]:
        """Send a test through the same path as an alert, once, and give the handle of its delivery.

        A target that was disabled because it answered 410 takes alerts again after a test that it accepts.
        """
        name = target if isinstance(target, str) else next(iter(targets_by_name([target])))
        if self._targets and name not in self._targets:
            raise InvalidOption("target", name, f"there is no such target: {', '.join(self._targets)}")
        async with self._client.audit.recorded("alert test", target=name):
            now = await (await self._store()).ping()
            alert = Alert(
                type="test", phase="test", severity="info", message="This is a test", rule="test", fired_at=when(now)
            )
            id = f"alert:test:{now}:{id_text(new_id())}:{name}"  # noqa: A001
            job = delivery_job(self._client, name, alert, id=id, lane=None, attempts=1)
            [receipt] = await self._client.send([job])
        return JobHandle(self._client, receipt.id, created=receipt.created)

    async def _store(self) -> Store:
        return await self._client.store()


def _check_rule(given: object) -> None:
    if not isinstance(given, AlertRule):
        raise InvalidOption("rules", given, "give rules such as Backlog(…) and AnyDead()")


def _heartbeat_spec(name: str, target: Heartbeat) -> RuleSpec:
    return RuleSpec(name=f"heartbeat/{name}", kind=RuleKind.HEARTBEAT.value, severity="info", above=target.every)


def _status(rule: StoredRule, state: AlertState, silences: Sequence[Silence]) -> AlertStatus:
    word = "firing" if state.fired_at else "pending"
    return AlertStatus(
        rule=rule.spec.name,
        state="silenced" if silenced(silences, rule.spec.name, state.finding) else word,
        severity=rule.spec.severity,
        to=rule.to,
        message=message(rule.spec, state.finding, "fired"),
        count=state.finding.count,
        since=moment(state.since),
        fired_at=moment(state.fired_at) if state.fired_at else None,
    )


def _quiet(rule: StoredRule) -> AlertStatus:
    state = "disabled" if rule.disabled else "quiet"
    return AlertStatus(rule=rule.spec.name, state=state, severity=rule.spec.severity, to=rule.to)
