"""Records of alerts about deaths: when each is looked at next."""

import msgspec

from packhorse.alerts.alert import KIND, StoredGroup
from packhorse.alerts.progress import PENDING_EVERY_US, Step
from packhorse.alerts.rules import RuleSpec
from packhorse.model import limits
from packhorse.model.effect import Put

QUIET_US = 300 * limits.SECOND  # without a further death; then the alert is resolved


def put_group(key: str, spec: RuleSpec, step: Step, now: int, expect: int) -> Put:
    """Write an alert about deaths with its next look, or remove it."""
    if step.state is None:
        return Put(KIND, key, None, expect=expect)
    state = step.state
    moments = [state.finding.moment + QUIET_US]
    if not state.fired_at:
        moments.append(state.since + spec.for_us)
    elif not state.notified_at:
        moments.append(now + PENDING_EVERY_US)
    elif spec.remind_us is not None:
        moments.append(state.notified_at + spec.remind_us)
    value = msgspec.json.encode(StoredGroup(rule=spec.name, state=state))
    return Put(KIND, key, value, expect=expect, due=max(now + 1, min(moments)))
