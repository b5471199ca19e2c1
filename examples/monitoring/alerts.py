"""What wakes a person: too many ready jobs, too many dead ones, and work without a worker."""

from collections.abc import Sequence
from typing import Any

from packhorse import App, Backlog, DeadLetters, NoWorker, log_alerts

READY_MAX = 1000
DEAD_MAX = 100


def watch(app: App, target: Any, queues: Sequence[str]) -> None:
    """Send alerts about these queues to a target, and write them to the log as well."""
    rules = [rule for queue in queues for rule in (Backlog(queue, ready=READY_MAX), DeadLetters(queue, dead=DEAD_MAX))]
    app.alerts(to=[target, log_alerts], rules=[*rules, NoWorker()])
