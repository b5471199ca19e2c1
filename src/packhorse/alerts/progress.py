"""How an alert goes on from one look to the next: pending, fired, reminded, resolved. Pure."""

import msgspec

from packhorse.alerts.alert import AlertFinding, AlertState, Phase
from packhorse.alerts.rules import RuleSpec
from packhorse.model import limits

EVALUATE_EVERY_US = 30 * limits.SECOND
PENDING_EVERY_US = 5 * limits.SECOND


class Step(msgspec.Struct, frozen=True):
    """The state after a look, None if nothing holds, and what targets are to be sent."""

    state: AlertState | None
    phase: Phase | None = None


def advance(
    spec: RuleSpec, old: AlertState | None, finding: AlertFinding | None, now: int, *, silenced: bool = False
) -> Step:
    """Give the next state of an alert.

    It fires once it has held for ``for_us``. While it is silenced nothing is sent: it is sent as fired when the silence
    ends, if it still holds then, and only what was sent as fired is sent as resolved.
    """
    if finding is None:
        return Step(None, "resolved" if old is not None and old.notified_at else None)
    state = AlertState(finding=finding, since=now) if old is None else msgspec.structs.replace(old, finding=finding)
    if not state.fired_at:
        if now - state.since < spec.for_us:
            return Step(state)
        state = msgspec.structs.replace(state, fired_at=now)
    if silenced:
        return Step(state)
    if not state.notified_at:
        return Step(msgspec.structs.replace(state, notified_at=now), "fired")
    if spec.remind_us is not None and now - state.notified_at >= spec.remind_us:
        return Step(msgspec.structs.replace(state, notified_at=now, reminders=state.reminders + 1), "reminder")
    return Step(state)


def next_look(states: "list[AlertState]", now: int) -> int:
    """When a rule is to be evaluated again: sooner while an alert of it is pending."""
    pending = any(not state.fired_at for state in states)
    return now + (PENDING_EVERY_US if pending else EVALUATE_EVERY_US)
