"""A worker process that kills itself at the n-th page of a bulk job: before it is written, or after.

Run as a program with the words ``before`` or ``after`` and n; ``never`` is no kill.
"""

import asyncio
import os
import signal
import sys
from itertools import count
from typing import Any

from packhorse import App

LEASE_SECONDS = 1.0


async def main(when: str, page: int) -> None:
    app = App()
    app.system.require()
    async with app:
        jobs = (await app.store()).jobs
        calls = {"replay": count(1), "cancel": count(1), "drop": count(1)}

        def killing(name: str) -> Any:
            write = getattr(jobs, name)

            async def call(ids: Any, **options: Any) -> Any:
                here = next(calls[name]) == page
                if here and when == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                answer = await write(ids, **options)
                if here and when == "after":
                    os.kill(os.getpid(), signal.SIGKILL)
                return answer

            return call

        for name in calls:
            setattr(jobs, name, killing(name))
        async with app.worker("nothing", lease=LEASE_SECONDS):
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
