"""The schedules as they run: ``packhorse worker examples.nightly.service:app``."""

from pathlib import Path

from examples.nightly.site import Site
from examples.nightly.tasks import aggregation, cleanup, count, health_check
from packhorse import App, Missed, log_alerts

app = App()  # PACKHORSE_URL, or packhorse.db in the working directory
site = Site(Path("site.db"))
for schedule in (cleanup, aggregation, health_check, count):
    schedule(app, site)
app.alerts(to=[log_alerts], rules=[Missed()])  # a run that fails, is late or was missed
