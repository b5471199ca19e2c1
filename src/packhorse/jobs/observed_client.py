"""Builds and stores jobs within the integrations of an app; an app without any has a plain ``Client``."""

from collections.abc import Sequence
from typing import Any

from packhorse.jobs.client import Client
from packhorse.jobs.job_builder import JobBuilder
from packhorse.jobs.metadata import ResultBinding
from packhorse.jobs.options import CallOptions, OptionLevels
from packhorse.model.codec import Codec
from packhorse.model.ids import JobId
from packhorse.model.job import NewJob, Receipt
from packhorse.model.trace_context import with_context
from packhorse.telemetry.integration import Integrations


def client_for(
    integrations: Integrations, building: tuple[str, Codec, OptionLevels], *place: Any, **options: Any
) -> Client:
    """Make the client of an app."""
    if not integrations:
        return Client(JobBuilder(*building), *place, **options)
    return ObservedClient(integrations, ObservedBuilder(integrations, *building), *place, **options)


class ObservedBuilder(JobBuilder):
    """Builds jobs that continue the trace of the code that enqueues them."""

    def __init__(self, integrations: Integrations, namespace: str, codec: Codec, levels: OptionLevels) -> None:
        super().__init__(namespace, codec, levels)
        self._integrations = integrations

    def trace_headers(self) -> dict[str, Any]:
        """The headers by which jobs continue the trace of the calling code."""
        return self._integrations.carried() or super().trace_headers()

    def _headers(self, options: CallOptions, chain: JobId | None, results: ResultBinding | None) -> bytes:
        return with_context(super()._headers(options, chain, results), self._integrations.carried())


class ObservedClient(Client):
    """Stores jobs within integrations."""

    def __init__(self, integrations: Integrations, *place: Any, **options: Any) -> None:
        super().__init__(*place, **options)
        self._integrations = integrations

    async def send(self, jobs: Sequence[NewJob], within: object | None = None) -> list[Receipt]:
        """Store jobs, all or none; within a transaction of the caller, if given."""
        with self._integrations.sending(jobs) as carrying:
            return await super().send(carrying, within)

    def send_blocking(self, jobs: Sequence[NewJob], within: object | None = None) -> list[Receipt]:
        """Store jobs from code without an event loop; within a transaction, on the calling thread."""
        if within is None:
            return super().send_blocking(jobs)
        with self._integrations.sending(jobs) as carrying:
            return super().send_blocking(carrying, within)
