"""The app of the demo. Like any app it reads the address of its store from the environment.

Its tasks are in the modules of the scenes that show them.
"""

from packhorse import App, Keep
from packhorse.model.clock import SYSTEM
from packhorse.model.duration import Duration, micros

app = App(keep_done=Keep(count=2000, age="1h"))


async def takes(time: Duration) -> None:
    """Sleep: the time that a piece of work takes in this shop."""
    await SYSTEM.sleep(micros(time))
