"""What every worker does for the audit now and then: remove entries that are older than they are kept."""

from packhorse.audit.audit import STREAM
from packhorse.engine.caretaker import Duty
from packhorse.model import limits
from packhorse.stores.contract import Store

KEPT_US = 90 * 86_400 * limits.SECOND
TRIM_PERIOD_US = 3600 * limits.SECOND


def trim_audit(store: Store) -> Duty:
    """The duty that removes old entries; harmless however many workers do it at once."""

    async def trim() -> bool:
        return await remove_old_entries(store)

    return Duty("trim the audit", TRIM_PERIOD_US, trim)


async def remove_old_entries(store: Store) -> bool:
    """Remove the oldest entries that are older than 90 days; answer whether there may be more of them."""
    events = await store.streams.read(STREAM, limit=limits.LOOKED_AT)
    if not events:
        return False
    before = await store.ping() - KEPT_US
    old = [event.offset for event in events if event.at < before]
    if not old:
        return False
    await store.streams.trim(STREAM, old[-1] + 1, limits.LOOKED_AT)
    return len(old) == limits.LOOKED_AT
