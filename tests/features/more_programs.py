"""A task of the same app in another module: child processes have to find both."""

import os

from packhorse import current
from tests.features.programs import app


@app.task(name="counts", queue="counts", run="process")
def counts(to: int) -> int:
    """Tells how far it is and what it has so far, from a child process."""
    for number in current().track(range(to)):
        current().emit({"number": number, "process": os.getpid()})
    return os.getpid()
