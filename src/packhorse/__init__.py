"""Background jobs and schedules: typed tasks, retries, flows and exactly-once transactions; on SQLite, Redis or PostgreSQL."""

from packhorse.app import App
from packhorse.engine.context import Context, current
from packhorse.engine.signals import Cancel, Retry, Snooze
from packhorse.engine.tx import SyncTx, Tx
from packhorse.errors import (
    ConfigError,
    InvalidArguments,
    InvalidInput,
    JobCancelled,
    JobError,
    JobFailed,
    JobNotFound,
    OutcomeUnknown,
    PackhorseError,
    StoreError,
    StoreUnavailable,
)
from packhorse.jobs.batch import Batch, Message
from packhorse.jobs.call import Call
from packhorse.jobs.chunks import Chunk, Position
from packhorse.jobs.envelope import correlated
from packhorse.jobs.flows import Flow, FlowHandle, Group, chain, chord, group
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.options import Keep, Unique
from packhorse.jobs.queue import Queue
from packhorse.jobs.retrying import retrying
from packhorse.jobs.sync import SyncHandle, SyncQueue, SyncTask
from packhorse.jobs.task import Task
from packhorse.jobs.view import Job, Progress, Status
from packhorse.model.backoff import Backoff, constant, exponential
from packhorse.model.cron import cron
from packhorse.model.job import Failure
from packhorse.model.rule import every
from packhorse.schedules.schedule import Schedule, Tick
from packhorse.sync import SyncApp

__all__ = [
    "App",
    "Backoff",
    "Batch",
    "Call",
    "Cancel",
    "Chunk",
    "ConfigError",
    "Context",
    "Failure",
    "Flow",
    "FlowHandle",
    "Group",
    "InvalidArguments",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "Keep",
    "Message",
    "OutcomeUnknown",
    "PackhorseError",
    "Position",
    "Progress",
    "Queue",
    "Retry",
    "Schedule",
    "Snooze",
    "Status",
    "StoreError",
    "StoreUnavailable",
    "SyncApp",
    "SyncHandle",
    "SyncQueue",
    "SyncTask",
    "SyncTx",
    "Task",
    "Tick",
    "Tx",
    "Unique",
    "chain",
    "chord",
    "constant",
    "correlated",
    "cron",
    "current",
    "every",
    "exponential",
    "group",
    "retrying",
]
