"""A task queue for Python: typed background jobs and schedules on SQLite, Redis or PostgreSQL."""

from packhorse.alerts.alert import Alert
from packhorse.alerts.email import Email
from packhorse.alerts.rules import AnyDead, Backlog, DeadLetters, Missed, NoWorker, Oldest, Stuck
from packhorse.alerts.signature import verify_webhook
from packhorse.alerts.targets import LogTarget, log_alerts
from packhorse.alerts.webhook import Heartbeat, SlackWebhook, Webhook
from packhorse.app import App
from packhorse.app_worker import AppWorker
from packhorse.audit.entry import AuditEntry
from packhorse.bulk.bulk import BulkRun
from packhorse.bulk.order import BulkCounts
from packhorse.dead_letters.edited import EditedReplay
from packhorse.dead_letters.groups import ErrorGroup
from packhorse.dead_letters.letter import DeadLetter, FailedAttempt
from packhorse.engine.context import Context, current
from packhorse.engine.signals import Cancel, Fail, Retry, Snooze
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
from packhorse.events.event import Gap, JobEvent
from packhorse.jobs.batch import Batch, Message
from packhorse.jobs.call import Call
from packhorse.jobs.chunks import Chunk, Position
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.job import Child, Job, JobState, Progress
from packhorse.jobs.job_builder import correlated
from packhorse.jobs.options import Keep, Unique
from packhorse.jobs.plans import Group, Plan, PlanHandle, chain, chord, group
from packhorse.jobs.queue import Queue
from packhorse.jobs.retrying import retrying
from packhorse.jobs.sync import SyncHandle, SyncQueue, SyncTask
from packhorse.jobs.task import Task
from packhorse.model.backoff import Backoff, constant, exponential
from packhorse.model.cron import cron
from packhorse.model.job import Failure
from packhorse.model.rule import every
from packhorse.schedules.schedule import Schedule, Tick
from packhorse.sync import SyncApp

__all__ = [
    "Alert",
    "AnyDead",
    "App",
    "AppWorker",
    "AuditEntry",
    "Backlog",
    "Backoff",
    "Batch",
    "BulkCounts",
    "BulkRun",
    "Call",
    "Cancel",
    "Child",
    "Chunk",
    "ConfigError",
    "Context",
    "DeadLetter",
    "DeadLetters",
    "EditedReplay",
    "Email",
    "ErrorGroup",
    "Fail",
    "FailedAttempt",
    "Failure",
    "Gap",
    "Group",
    "Heartbeat",
    "InvalidArguments",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobError",
    "JobEvent",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobState",
    "Keep",
    "LogTarget",
    "Message",
    "Missed",
    "NoWorker",
    "Oldest",
    "OutcomeUnknown",
    "PackhorseError",
    "Plan",
    "PlanHandle",
    "Position",
    "Progress",
    "Queue",
    "Retry",
    "Schedule",
    "SlackWebhook",
    "Snooze",
    "StoreError",
    "StoreUnavailable",
    "Stuck",
    "SyncApp",
    "SyncHandle",
    "SyncQueue",
    "SyncTask",
    "SyncTx",
    "Task",
    "Tick",
    "Tx",
    "Unique",
    "Webhook",
    "chain",
    "chord",
    "constant",
    "correlated",
    "cron",
    "current",
    "every",
    "exponential",
    "group",
    "log_alerts",
    "retrying",
    "verify_webhook",
]
