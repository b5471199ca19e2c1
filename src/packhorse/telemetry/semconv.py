"""Names of the OpenTelemetry conventions for messaging, which are still in development: they stand here alone."""

from typing import Final

SCHEMA: Final = "https://opentelemetry.io/schemas/1.40.0"

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
CONVERSATION_ID: Final = "messaging.message.conversation_id"
BODY_SIZE: Final = "messaging.message.body.size"
BATCH_COUNT: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"

EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"

PROCESS_DURATION: Final = "messaging.process.duration"
OPERATION_DURATION: Final = "messaging.client.operation.duration"
SENT_MESSAGES: Final = "messaging.client.sent.messages"
CONSUMED_MESSAGES: Final = "messaging.client.consumed.messages"
DURATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

# Only Sentry has these.
RECEIVE_LATENCY: Final = "messaging.message.receive.latency"
RETRY_COUNT: Final = "messaging.message.retry.count"

# Ours: no convention has them.
TASK: Final = "packhorse.task"
ATTEMPT: Final = "packhorse.attempt"
OUTCOME: Final = "packhorse.outcome"

PACKHORSE: Final = "packhorse"
SEND: Final = "send"
PROCESS: Final = "process"
