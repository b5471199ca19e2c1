"""Replay of a dead job with other arguments: a new job in the place of the old one, whose payload is never changed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.errors import InvalidArguments, InvalidOption
from packhorse.model import codec
from packhorse.model.ids import JobId, chosen_id, id_text
from packhorse.model.job import NewJob, StoredJob

if TYPE_CHECKING:
    from packhorse.jobs.client import Client
    from packhorse.jobs.registry import AppRegistry


class EditedReplay(msgspec.Struct, frozen=True, kw_only=True):
    """What became, or would become, of a replay with other arguments."""

    job_id: str
    """The id of the new job."""
    replaces: str
    """The id of the dead job that it replaces."""
    task: str
    """The name of the task."""
    queue: str
    """The queue of both jobs."""
    arguments: dict[str, Any]
    """The arguments of the new job, as plain data."""
    refused: str = ""
    """Why the arguments do not fit the task; only of a dry run, else it is an error."""
    done: bool = False
    """Whether the job was replaced; False for a dry run."""


def replacement_text(job: StoredJob) -> str:
    """The chosen id of the job that replaces a dead one: one for each death, so that repeating a replay is harmless."""
    return f"replay:{id_text(job.id)}:{job.since}"


def replacement_id(client: "Client", job: StoredJob) -> JobId:
    """The id of the job that replaces a dead one."""
    return chosen_id(client.builder.namespace, replacement_text(job))


def replacement(client: "Client", registry: "AppRegistry", job: StoredJob, arguments: Mapping[str, Any]) -> NewJob:
    """Make the job that replaces a dead one; InvalidArguments if its task would not take these arguments."""
    task = registry.task(job.task)
    if task is None:
        raise InvalidOption(
            "arguments", dict(arguments), f"this app does not know the task {job.task!r}, so they cannot be checked"
        )
    if job.parent is not None or job.children:
        raise InvalidOption(
            "arguments", dict(arguments), "the job is part of a plan, which would not get the result of another job"
        )
    made = replacement_id(client, job)
    payload = task.arguments.pack((), dict(arguments))
    return NewJob(
        id=made,
        task=job.task,
        queue=job.queue,
        payload=client.builder.close_payload(payload, made, job.task),
        headers=_headers(job),
        tenant=job.tenant,
        priority=job.priority,
        lane=job.lane,
        lane_limit=job.lane_limit,
    )


def _headers(job: StoredJob) -> bytes:
    """Keep the headers and the chain of work, name the job that is replaced, and leave out what belongs to that job alone."""
    headers: dict[str, Any] = codec.decode(job.headers, dict[str, Any])
    own = headers.get("packhorse", {})
    options = {"options": own["options"]} if "options" in own else {}
    return codec.encode(
        {
            "correlation_id": id_text(job.id),
            **headers,
            "replay_of": id_text(job.id),
            "packhorse": {"id": replacement_text(job), **options},
        }
    )


def preview(client: "Client", registry: "AppRegistry", job: StoredJob, arguments: Mapping[str, Any]) -> EditedReplay:
    """Say what a replay with these arguments would do."""
    try:
        replacement(client, registry, job, arguments)
        refused = ""
    except InvalidArguments as error:
        refused = str(error)
    return EditedReplay(
        job_id=id_text(replacement_id(client, job)),
        replaces=id_text(job.id),
        task=job.task,
        queue=job.queue,
        arguments=dict(arguments),
        refused=refused,
    )
