"""Events and their subscribers."""

import asyncio
import functools
import logging
import sys
import threading
from collections.abc import Callable

import pytest

from packhorse.errors import InvalidOption
from packhorse.telemetry import logs
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName


@pytest.fixture
def telemetry():
    return Telemetry()


@pytest.fixture
def received(telemetry):
    emitted: list[tuple[EventName, dict]] = []
    telemetry.on(lambda name, fields: emitted.append((name, dict(fields))))
    return emitted


def test_subscribers_hear_what_they_asked_for_in_order(telemetry):
    some, every = [], []
    telemetry.on(lambda name, fields: some.append(name), EventName.DONE, "dead")
    telemetry.on(lambda name, fields: every.append(name))
    for name in EventName:
        telemetry.emit(name)

    assert some == [EventName.DONE, EventName.DEAD]
    assert every == list(EventName)


def test_fields_arrive_as_given(telemetry, received):
    telemetry.emit(EventName.DONE, count=2, name="own", duration=5)
    assert received == [(EventName.DONE, {"count": 2, "name": "own", "duration": 5})]


def test_a_subscriber_cannot_change_what_the_next_one_hears(telemetry):
    def meddle(name, fields):
        fields["duration"] = 0

    received = []
    telemetry.on(meddle)
    telemetry.on(lambda name, fields: received.append(fields["duration"]))
    telemetry.emit(EventName.DONE, duration=5)
    assert received == [5]


def test_off_ends_this_subscription_only(telemetry):
    received: list[EventName] = []

    def listen(name, fields):
        received.append(name)

    first, second = telemetry.on(listen), telemetry.on(listen, EventName.DONE)
    telemetry.emit(EventName.DONE)
    assert len(received) == 2
    first()
    telemetry.emit(EventName.DONE)
    assert len(received) == 3
    second()
    second()
    telemetry.emit(EventName.DONE)
    assert len(received) == 3


def test_wants_says_whether_anyone_would_hear(telemetry):
    assert not any(telemetry.wants(name) for name in EventName)
    off = telemetry.on(print, EventName.DONE)
    assert [name for name in EventName if telemetry.wants(name)] == [EventName.DONE]
    off()
    assert not any(telemetry.wants(name) for name in EventName)


def test_a_subscriber_may_pass_over_a_name_for_now(telemetry):
    wanted = set()
    telemetry.on(print, when=lambda name: name in wanted)
    assert not telemetry.wants(EventName.DONE)
    wanted.add(EventName.DONE)
    assert telemetry.wants(EventName.DONE)
    assert not telemetry.wants(EventName.DEAD)
    telemetry.on(print, EventName.DEAD)
    assert telemetry.wants(EventName.DEAD)


@pytest.mark.parametrize("fault", [ValueError, SystemExit, asyncio.CancelledError, GeneratorExit, RecursionError])
def test_a_failing_subscriber_harms_nobody_and_is_logged_once_a_name(telemetry, caplog, fault):
    def fail(name, fields):
        raise fault("bad subscriber")

    first, last = [], []
    telemetry.on(lambda name, fields: first.append(name))
    telemetry.on(fail)
    telemetry.on(lambda name, fields: last.append(name))
    for name in (EventName.DONE, EventName.DONE, EventName.DEAD, EventName.DONE, EventName.DEAD):
        telemetry.emit(name)

    assert first == last == [EventName.DONE, EventName.DONE, EventName.DEAD, EventName.DONE, EventName.DEAD]
    assert [record.name for record in caplog.records] == ["packhorse.telemetry"] * 2
    assert ["'done'" in caplog.text, "'dead'" in caplog.text, "bad subscriber" in caplog.text] == [True] * 3


def test_each_failing_subscriber_is_logged(telemetry, caplog):
    telemetry.on(lambda name, fields: 1 / 0, EventName.DONE)
    telemetry.on(lambda name, fields: 1 / 0, EventName.DONE)
    telemetry.emit(EventName.DONE)
    telemetry.emit(EventName.DONE)
    assert len(caplog.records) == 2


def test_an_interrupt_of_the_process_goes_through(telemetry):
    def interrupted(name, fields):
        raise KeyboardInterrupt

    telemetry.on(interrupted)
    with pytest.raises(KeyboardInterrupt):
        telemetry.emit(EventName.DONE)


def test_a_failing_question_counts_as_no(telemetry, caplog):
    telemetry.on(print, when=lambda name: 1 / 0)
    assert not telemetry.wants(EventName.DONE)
    assert not telemetry.wants(EventName.DONE)
    assert len(caplog.records) == 1
    telemetry.on(print)
    assert telemetry.wants(EventName.DONE)


def test_failing_handlers_of_the_log_harm_nobody(telemetry, received):
    class Broken(logging.Handler):
        def handle(self, record):
            raise RuntimeError("disk full")

    handler = Broken()
    logging.getLogger("packhorse").addHandler(handler)
    try:
        logs.listen(telemetry)
        telemetry.emit(EventName.DEAD)
    finally:
        logging.getLogger("packhorse").removeHandler(handler)
    assert len(received) == 1


def test_a_subscriber_that_says_the_same_again_comes_to_an_end(telemetry, received):
    telemetry.on(lambda name, fields: telemetry.emit(name), EventName.DONE)
    telemetry.emit(EventName.DONE)
    assert received


async def listen_later(name, fields):
    pass


class ListensLater:
    async def __call__(self, name, fields):
        pass


@pytest.mark.parametrize(
    "subscriber", [None, "print", listen_later, functools.partial(listen_later), ListensLater()], ids=type
)
def test_a_subscriber_that_would_never_run_is_refused(telemetry, subscriber):
    with pytest.raises(InvalidOption, match="plain function"):
        telemetry.on(subscriber)
    assert not telemetry.wants(EventName.DONE)


def test_a_name_that_is_none_is_refused(telemetry):
    with pytest.raises(InvalidOption, match="started, done"):
        telemetry.on(print, EventName.DONE, "finished")
    assert not telemetry.wants(EventName.DONE)


def test_subscribing_and_saying_go_together_on_many_threads(telemetry):
    stays: list[Callable[[], None]] = []
    counts = [0] * 4
    steady: list[int] = []
    faults = []
    telemetry.on(lambda name, fields: steady.append(fields["n"]), EventName.DONE)
    start = threading.Barrier(8)

    def come_and_go(me):
        def listen(name, fields):
            counts[me] += 1

        for _ in range(100):
            stays.append(telemetry.on(listen, EventName.DEAD))
            telemetry.on(listen, EventName.DONE)()

    def say():
        for n in range(500):
            telemetry.emit(EventName.DONE, n=n)

    def guarded(call, *args):
        start.wait()
        try:
            call(*args)
        except BaseException as error:
            faults.append(error)

    jobs = [(come_and_go, me) for me in range(4)] + [(say,)] * 4
    threads = [threading.Thread(target=guarded, args=job) for job in jobs]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert faults == []
    assert sorted(steady) == sorted(list(range(500)) * 4)
    before = list(counts)
    telemetry.emit(EventName.DONE, n=0)
    assert counts == before  # every subscription that ended has ended
    telemetry.emit(EventName.DEAD)
    assert counts == [count + 100 for count in before]  # and every other one stands
    for off in stays:
        off()
    assert not telemetry.wants(EventName.DEAD)
