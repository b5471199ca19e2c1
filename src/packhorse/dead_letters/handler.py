"""Handlers of dead letters: each death makes one job per handler, with a policy of its own."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from packhorse.dead_letters.letter import DeadLetter, letter_of
from packhorse.dead_letters.seen import SeenMarks
from packhorse.jobs.job import Job
from packhorse.jobs.task import AsyncTask
from packhorse.model.death import Death
from packhorse.model.effect import Effect, Enqueue
from packhorse.model.ids import id_text, parse_id
from packhorse.model.job import NewJob
from packhorse.stores.contract import Store

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

LetterHandler = Callable[[DeadLetter], Any]
LetterTask = AsyncTask[[str, int], None]


def call_of_letter(
    client: "Client", function: LetterHandler, seen: SeenMarks
) -> Callable[[str, int], Coroutine[Any, Any, None]]:
    """Make the function of a letter's job: read the letter now, and call the handler unless the job is dead no more."""

    async def letter(job: str, died_at: int) -> None:
        [stored] = await client.get([parse_id(job)])
        if stored is None or not Death(stored, died_at).latest:
            return  # it was dropped or replayed meanwhile
        await seen.letter(stored.queue, died_at)
        found = letter_of(client, stored)
        if inspect.iscoroutinefunction(function):
            await function(found)
        else:
            await asyncio.to_thread(function, found)

    return letter


class LetterConsumer:
    """Makes the jobs of one handler: a consumer of deaths."""

    repeatable = True

    def __init__(self, client: "Client", handler: str, task: LetterTask, queue: str | None) -> None:
        self.name, self._handler = f"letter:{handler}", handler
        self._client, self._task, self._queue = client, task, queue

    async def on_deaths(self, store: Store, deaths: Sequence[Death]) -> Sequence[Effect]:  # noqa: ARG002
        """Give the job of each letter; its id is made of the death, so that there is one whatever happens."""
        return [
            Enqueue(self._job(death)) for death in deaths if self._queue in (None, death.job.queue) and death.latest
        ]

    def _job(self, death: Death) -> NewJob:
        job = id_text(death.job.id)
        options = self._task.using(id=f"letter:{job}:{death.at}:{self._handler}", correlation_id=_chain(death, job))
        return self._client.builder.build(options.call(job, death.at))


def _chain(death: Death, job: str) -> str:
    """The chain of work that the dead job belongs to."""
    return Job(death.job).correlation_id or job
