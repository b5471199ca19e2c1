"""The app of the demo, like any user's: a module that reads the address of its store from the environment.

The tasks stand in the scenes that show them.
"""

from packhorse import App, Keep
from packhorse.model.clock import SYSTEM
from packhorse.model.duration import Duration, micros

app = App(keep_done=Keep(count=2000, age="1h"))


async def takes(time: Duration) -> None:
    """What work costs in this shop."""
    await SYSTEM.sleep(micros(time))
