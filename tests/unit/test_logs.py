"""What happened, as lines of the log."""

import json
import logging

import msgspec
import pytest

from packhorse.errors import StoreUnavailable
from packhorse.model.ids import id_text, new_id
from packhorse.model.job import failure
from packhorse.model.lease import Lease
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.telemetry import logs
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

SECOND = 1_000_000
SECRET = "hunter2"
JOB = new_id()
LEASE = Lease(
    id=JOB, token=b"TOKENTOKENTOKEN!", until=0, task="email:send", queue="email", priority=10, attempt=2, lost=1, enqueued_at=0,
    payload=json.dumps({"password": SECRET}).encode(),
    headers=b'{"correlation_id":"c-1","tenant":"t-1","user":"u-1","auth":"hunter2"}',
)  # fmt: skip


@pytest.fixture
def telemetry():
    return Telemetry()


@pytest.fixture
def log(caplog, telemetry):
    """What the logger got; from all levels unless a test says otherwise."""
    caplog.set_level(logging.DEBUG, "packhorse")
    logs.listen(telemetry)
    return caplog


LEVELS = {
    "DEBUG": {EventName.STARTED, EventName.DONE, EventName.PRUNED, EventName.MAINTAINED, EventName.FIRED},
    "INFO": {
        EventName.WAITING, EventName.CANCELLED, EventName.HANDED_BACK,
        EventName.WORKER_STARTED, EventName.WORKER_STOPPING, EventName.WORKER_STOPPED,
        EventName.STORE_RECOVERED, EventName.RELEASED, EventName.CHILD_RECYCLED,
    },
    "WARNING": {
        EventName.RETRYING, EventName.LOST, EventName.LEASE_LOST, EventName.ROLLED_BACK,
        EventName.EXCHANGE_FAILED, EventName.RENEWAL_FAILED, EventName.EVENTS_DROPPED,
        EventName.DUTY_FAILED, EventName.DEAD_UNSEEN, EventName.DECLARATION_IGNORED, EventName.LOOP_BLOCKED, EventName.ATTEMPT_STUCK,
    },
    "ERROR": {
        EventName.DEAD, EventName.SETTLEMENT_REFUSED, EventName.THREAD_STUCK, EventName.CHILD_DIED,
        EventName.RUN_LATE, EventName.RUN_MISSED, EventName.HANDLER_FAILED,
    },
}  # fmt: skip


def test_every_name_has_its_level(telemetry, log):
    for name in EventName:
        telemetry.emit(name, error=OSError("x"))
    assert set.union(*LEVELS.values()) == set(EventName)
    assert {level: {r.event for r in log.records if r.levelname == level} for level in LEVELS} == LEVELS
    assert {record.name for record in log.records} == {"packhorse"}


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_that_is_off_is_not_wanted(telemetry, log, level):
    log.set_level(level, "packhorse")
    order = list(LEVELS)
    wanted = set.union(*(LEVELS[each] for each in order[order.index(level) :]))
    assert {name for name in EventName if telemetry.wants(name)} == wanted


def test_a_level_that_is_off_costs_no_look_at_the_fields(telemetry, log):
    class Costly:
        def __getattribute__(self, name):
            raise AssertionError("it was looked at")

    log.set_level("INFO", "packhorse")
    telemetry.emit(EventName.DONE, lease=Costly())
    assert log.records == []


def test_a_job_put_off_on_purpose_is_no_warning(telemetry, log):
    telemetry.emit(EventName.RETRYING, lease=LEASE, delay=5 * SECOND)
    telemetry.emit(EventName.RETRYING, lease=LEASE, delay=5 * SECOND, error=failure("OSError"))
    assert [record.levelname for record in log.records] == ["INFO", "WARNING"]
    log.set_level("WARNING", "packhorse")
    telemetry.emit(EventName.RETRYING, lease=LEASE, delay=5 * SECOND)
    assert len(log.records) == 2


JOB_TAGS = f"[job {id_text(JOB)}, queue email, attempt 2]"
LINES = [
    (EventName.STARTED, {"lease": LEASE}, f"email:send started {JOB_TAGS}"),
    (EventName.DONE, {"lease": LEASE, "duration": 1_234_567}, f"email:send done, took 1.235 s {JOB_TAGS}"),
    (
        EventName.RETRYING,
        {"lease": LEASE, "duration": 0, "delay": 2 * SECOND, "error": failure("OSError", "no route\nto host")},
        f"email:send will run again in 2.000 s, took 0.000 s: OSError: no route to host {JOB_TAGS}",
    ),
    (
        EventName.DEAD,
        {"lease": LEASE, "reason": DeadReason.EXHAUSTED, "error": failure("shop.Broken")},
        f"email:send dead: exhausted: shop.Broken {JOB_TAGS}",
    ),
    (EventName.WAITING, {"lease": LEASE, "reason": WaitReason.SIGNAL}, f"email:send waiting: signal {JOB_TAGS}"),
    (EventName.LOST, {"job": JOB, "count": 2}, f"job lost, its lease expired (count 2) [job {id_text(JOB)}]"),
    (EventName.WORKER_STARTED, {"worker": "w-1", "detail": "a, b"}, "worker started: a, b [worker w-1]"),
    (EventName.RELEASED, {"count": 3}, "waiting jobs released (count 3)"),
    (
        EventName.DUTY_FAILED,
        {"detail": "prune", "count": 2, "error": StoreUnavailable("gone")},
        "duty failed (count 2): prune: packhorse.errors.StoreUnavailable: gone",
    ),
    (EventName.LOOP_BLOCKED, {"lease": None, "duration": SECOND}, "blocked the event loop, took 1.000 s"),
]


@pytest.mark.parametrize(("name", "fields", "line"), LINES, ids=[name.value for name, _, _ in LINES])
def test_a_line_can_be_read_without_its_fields(telemetry, log, name, fields, line):
    telemetry.emit(name, **fields)
    assert log.messages == [line]


def test_lines_of_a_kind_share_their_template(telemetry, log):
    for text in ("one", "two"):
        telemetry.emit(EventName.DEAD, lease=LEASE, error=failure("OSError", text))
    assert len({record.msg for record in log.records}) == 1


def own(record):
    plain = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime", "taskName"}
    return {key: value for key, value in record.__dict__.items() if key not in plain}


def test_a_record_carries_fields_that_are_all_its_own(telemetry, log):
    telemetry.emit(
        EventName.DEAD, lease=LEASE, duration=1_500_000, delay=500_000, reason=DeadReason.FINAL, error=OSError("x"),
        worker="w-1", count=3, detail="d",
    )  # fmt: skip
    [record] = log.records
    assert own(record) == {
        "event": "dead", "job_id": id_text(JOB), "task": "email:send", "queue": "email", "attempt": 2,
        "correlation_id": "c-1", "tenant": "t-1", "user": "u-1",
        "duration": 1.5, "delay": 0.5, "reason": "final", "error_type": "OSError",
        "worker": "w-1", "count": 3, "detail": "d",
    }  # fmt: skip


def test_a_chain_of_work_that_nobody_named_is_called_like_the_job_it_begins_with(telemetry, log):
    telemetry.emit(EventName.DONE, lease=msgspec.structs.replace(LEASE, headers=b"{}"))
    assert own(log.records[0])["correlation_id"] == id_text(JOB)


@pytest.mark.parametrize("headers", [b"[]", b"~1s:x", b'{"correlation_id":5}', b"\xff", b""])
def test_headers_that_cannot_be_read_are_no_trouble(telemetry, log, headers):
    telemetry.emit(EventName.DONE, lease=msgspec.structs.replace(LEASE, headers=headers))
    assert own(log.records[0])["event"] == "done"
    assert "correlation_id" not in own(log.records[0])


def test_fields_of_the_users_own_record_factory_do_not_get_in_the_way(telemetry, log):
    usual = logging.getLogRecordFactory()

    def factory(*args, **kwargs):
        record = usual(*args, **kwargs)
        record.correlation_id = record.task = "of the web request"
        return record

    logging.setLogRecordFactory(factory)
    try:
        telemetry.emit(EventName.DEAD, lease=LEASE)
    finally:
        logging.setLogRecordFactory(usual)
    assert (log.records[0].correlation_id, log.records[0].task) == ("c-1", "email:send")


@pytest.mark.parametrize("name", EventName)
def test_nothing_of_what_a_job_carries_leaks(telemetry, log, name):
    quoting = type("ValidationError", (ValueError,), {})(f"bad value {SECRET}")
    telemetry.emit(name, lease=LEASE, error=quoting, payload=SECRET, result=SECRET, args=(SECRET,))
    telemetry.emit(name, lease=LEASE, error=failure("pydantic_core.ValidationError", SECRET, SECRET))
    telemetry.emit(name, lease=LEASE, error=failure("OSError", "x", f"line with {SECRET}"))

    assert len(log.records) == 3
    for record in log.records:
        assert SECRET not in record.getMessage()
        assert SECRET not in repr(record.__dict__)
        assert "TOKEN" not in repr(record.__dict__)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:hunter2@host:6379/0 refused", "redis://***@host:6379/0 refused"),
        ("postgresql://me:hunter2@host/db", "postgresql://***@host/db"),
        ("https://hunter2@github.com", "https://***@github.com"),
        ("amqp://me:hun@ter/2@host", "amqp://***@host"),
        ("postgresql://me:hun ter2@host/db", "postgresql://***@host/db"),
        ("postgresql:me:hunter2@host/db", "postgresql:***@host/db"),
        ("redis:me:hun ter2@host", "redis:***@host"),
        ("postgresql://host:5432/db is away (a@b)", "postgresql://host:5432/db is away (a@b)"),
        ("see https://[::1]:80/x: a@b", "see https://[::1]:80/x: a@b"),
        ("host=db password=hunter2 user=me", "host=db password=*** user=me"),
        ("GET https://api/x?api_key=hunter2", "GET https://api/x?api_key=***"),
        ("PASSWORD=hunter2", "PASSWORD=***"),
        ("see https://host:80/page", "see https://host:80/page"),
        ("mail a@b.c", "mail a@b.c"),
    ],
)
def test_secrets_in_messages_are_covered(telemetry, log, text, shown):
    telemetry.emit(EventName.DEAD, lease=LEASE, error=OSError(text))
    telemetry.emit(EventName.CANCELLED, lease=LEASE, reason=text)
    assert f"OSError: {shown} [" in log.messages[0]
    assert f"cancelled: {shown} [" in log.messages[1]


def test_long_messages_are_cut_and_hide_their_secrets_too(telemetry, log):
    telemetry.emit(EventName.DEAD, error=OSError("word " * 5000))
    telemetry.emit(EventName.DEAD, error=OSError("x redis://:" + "p" * 5000 + "@host"))
    telemetry.emit(EventName.DEAD, error=OSError("://" * 100_000))
    assert all(len(message) < 600 for message in log.messages)
    assert "ppp" not in log.messages[1]


def test_an_error_that_cannot_be_read_is_logged_all_the_same(telemetry, log):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    telemetry.emit(EventName.EXCHANGE_FAILED, error=Mute())
    assert "Mute: (its text cannot be read: RuntimeError)" in log.messages[0]


def test_the_library_adds_no_handlers():
    assert logging.getLogger("packhorse").handlers == []
    assert logging.getLogger("packhorse").level == logging.NOTSET
    assert logging.getLogger("packhorse").propagate


def test_what_a_terminal_would_take_for_a_command_is_quoted(log, telemetry):
    error = failure("Broken\x1b[2J", "no user \x1b]0;title\x07\x9b31m")
    telemetry.emit(EventName.DEAD, lease=LEASE, reason=DeadReason.FINAL, error=error, detail="a\x1bb", worker="w\x1b")

    [record] = log.records
    assert record.getMessage().isprintable()
    assert r"no user \x1b]0;title\x07\x9b31m" in record.getMessage()
    assert record.error_type == r"Broken\x1b[2J"


def test_names_that_other_programs_gave_a_job_are_quoted_too(log, telemetry):
    lease = msgspec.structs.replace(LEASE, task="send\x9b2J", queue="email\u202e")
    telemetry.emit(EventName.STARTED, lease=lease)

    [record] = log.records
    assert record.getMessage().isprintable()
    assert (record.task, record.queue) == (r"send\x9b2J", r"email\u202e")
