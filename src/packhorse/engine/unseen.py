"""Dead jobs that are pruned before a person or a handler has looked at them: reported, for they are lost for good."""

from collections.abc import Mapping

from packhorse.model.job import PrunedDead
from packhorse.model.limits import RESERVED
from packhorse.model.record import SEEN, Record
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName


async def report_unseen(store: Store, telemetry: Telemetry, pruned: Mapping[str, PrunedDead]) -> None:
    """Emit an event for each queue whose newest pruned dead job died after its dead jobs were last looked at."""
    queues = [queue for queue in pruned if not queue.startswith(RESERVED)]
    if not queues:
        return
    for queue, seen in zip(queues, await store.records.get(SEEN, queues), strict=True):
        if pruned[queue].newest > _moment(seen):
            telemetry.emit(EventName.DEAD_UNSEEN, count=pruned[queue].jobs, detail=queue)


def _moment(record: Record | None) -> int:
    return int(record.value) if record is not None and record.value.isdigit() else 0
