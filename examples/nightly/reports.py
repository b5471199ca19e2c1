"""A weekly report for each tenant that wants one, at nine on Monday by the tenant's own clocks."""

from packhorse import App, Task, cron


class Reports:
    """Schedules by tenant."""

    def __init__(self, app: App, report: Task[[str], None]) -> None:
        self._schedules, self._report = app.schedules, report

    async def subscribe(self, tenant: str, zone: str) -> None:
        """Send reports from now on; asked again, by other clocks."""
        rule = cron("0 9 * * MON", tz=zone)
        await self._schedules.put(f"report:{tenant}", rule, self._report.using(tenant=tenant).call(tenant), jitter="5m")

    async def unsubscribe(self, tenant: str) -> bool:
        """Send no more; says whether there was a subscription."""
        return await self._schedules.remove(f"report:{tenant}")
