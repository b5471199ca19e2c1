"""The schedules as they run: ``packhorse worker examples.nightly.service:app``."""

from pathlib import Path

from examples.nightly.site import Site
from examples.nightly.tasks import aggregation, cleanup, count, health_check
from packhorse import App

app = App()  # PACKHORSE_URL, or packhorse.db in the working directory
site = Site(Path("site.db"))
for schedule in (cleanup, aggregation, health_check, count):
    schedule(app, site)
