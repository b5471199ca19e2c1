"""The same tasks in a module that takes a second to import."""

import time

from tests.engine.process_tasks import registry

time.sleep(1)

__all__ = ["registry"]
