"""What an alert shows of a job: its error and its arguments, without secrets and not at length."""

from typing import Any

import msgspec

from packhorse.alerts.alert import AlertFinding
from packhorse.errors import PackhorseError
from packhorse.jobs.job_builder import JobBuilder
from packhorse.model.ids import id_text
from packhorse.model.job import Failure, StoredJob
from packhorse.telemetry.redact import redacted

MAX_ERROR = 1000
MAX_DATA_BYTES = 8 << 10


def details_of(builder: JobBuilder, job: StoredJob) -> dict[str, Any]:
    """Give the fields of a finding that one job fills."""
    failure = job.failures[-1] if job.failures else None
    reason = None if job.reason is None else job.reason.value
    return {
        "queue": job.queue,
        "task": job.task,
        "job_ids": (id_text(job.id),),
        "attempts": job.attempt,
        "error": reason if failure is None else error_text(failure),
        "data": _arguments(builder, job),
    }


def with_details(finding: AlertFinding, builder: JobBuilder, job: StoredJob | None) -> AlertFinding:
    """Complete a finding by what its first job says."""
    if job is None:
        return finding
    return msgspec.structs.replace(finding, **{**details_of(builder, job), "job_ids": finding.job_ids})


def error_text(failure: Failure) -> str:
    """Give the class of an error with its text; of validation errors the class alone, because their texts quote arguments."""
    if not failure.message or failure.type.endswith("ValidationError"):
        return failure.type
    return redacted(f"{failure.type}: {failure.message}")[:MAX_ERROR]


def _arguments(builder: JobBuilder, job: StoredJob) -> Any:
    try:
        shown = redacted(builder.open_payload(job, dict[str, Any]))
    except (PackhorseError, msgspec.MsgspecError):
        return None
    return shown if shown and len(msgspec.json.encode(shown)) <= MAX_DATA_BYTES else None
