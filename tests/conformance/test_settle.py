"""Writing outcomes."""

import pytest

from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.job import Failure, State, failure
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import On
from packhorse.model.reason import DeadReason, WaitReason
from tests.factories import (
    BROKEN,
    DEAD,
    MINUTE,
    OTHER,
    SECOND,
    Again,
    Cancelled,
    Dead,
    Done,
    Held,
    Wait,
    ask,
    end,
    new,
    new_id,
    one,
    put_in,
    run,
    state,
    states,
    take,
)


async def test_write_outcomes_with_their_effects_then_lease_ready_jobs_in_one_atomic_step(store):
    [first, second] = await put_in(store, new(), new())
    [lease] = await take(store, 1)
    child = new("child")
    effects = (Enqueue(child), Publish("news", b'"hello"'), Put("kind", "key", b"1"))

    answer = await store.jobs.exchange([Settlement(lease, Done(b"42"), effects)], ask())

    assert answer.verdicts == (Verdict.WRITTEN,)
    assert [lease.id for lease in answer.leases] == [second, child.id]
    assert (await one(store, first)).result == b"42"
    assert [event.data for event in await store.streams.read("news")] == [b'"hello"']
    [record] = await store.records.get("kind", ["key"])
    assert record.value == b"1"


async def test_each_settlement_is_written_whole_or_not_at_all_and_has_its_own_verdict(store):
    jobs = await put_in(store, *(new() for _ in range(4)))
    good, stale, done, clash = await take(store)
    await store.jobs.drop([stale.id])
    await end(store, done, Done())
    await store.records.put([Put("kind", "key", b"1")])

    answer = await store.jobs.exchange([
        Settlement(stale, Done(), (Publish("news", b'"stale"'),)),
        Settlement(good, Done(), (Publish("news", b'"good"'),)),
        Settlement(done, Done(), (Publish("news", b'"done"'),)),
        Settlement(clash, Done(), (Publish("news", b'"clash"'), Put("kind", "key", b"2", expect=0))),
    ])  # fmt: skip

    assert answer.verdicts == (Verdict.LOST, Verdict.WRITTEN, Verdict.REPEATED, Verdict.CONFLICT)
    assert await states(store, *jobs) == [State.DONE, None, State.DONE, State.RUNNING]
    assert [event.data for event in await store.streams.read("news")] == [b'"good"']


async def test_a_stale_token_changes_nothing_and_comes_back_as_lost(store, clock):
    [job] = await put_in(store, new())
    [first] = await take(store)
    clock.to(first.until + 1)
    await store.jobs.reap(10)
    [second] = await take(store, worker=OTHER)

    verdict = await end(store, first, Done(b"1"), Publish("news", b"1"))

    assert verdict is Verdict.LOST
    still = await one(store, job)
    assert (still.state, still.worker, still.until) == (State.RUNNING, OTHER, second.until)
    assert await store.streams.read("news") == []


async def test_a_lease_of_an_unknown_job_is_lost(store):
    await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.drop([lease.id])

    assert await end(store, lease, Done()) is Verdict.LOST


async def test_a_lease_that_ran_out_but_was_not_taken_back_can_be_settled(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    clock.to(lease.until + MINUTE)

    verdict = await end(store, lease, Done(b"1"))

    assert verdict is Verdict.WRITTEN
    assert await state(store, job) is State.DONE


async def test_a_done_job_keeps_its_result(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    clock.turn(SECOND)

    await end(store, lease, Done(b'{"n": 1}'))

    done = await one(store, job)
    assert (done.state, done.result, done.since) == (State.DONE, b'{"n": 1}', clock.now())
    assert (done.attempt, done.worker, done.reason) == (1, None, None)


@pytest.mark.parametrize("result", [None, b"", b"null", b'""'])
async def test_no_result_is_not_an_empty_result(store, result):
    [job] = await put_in(store, new())

    await run(store, Done(result))

    assert (await one(store, job)).result == result


async def test_a_job_to_be_run_again_is_ready_or_scheduled_if_there_is_a_delay_and_keeps_its_last_ten_failures(
    store, clock
):
    [job] = await put_in(store, new())
    await run(store, Again(error=failure("E", "0")))
    assert await state(store, job) is State.READY

    for number in range(1, 12):
        await run(store, Again(delay=MINUTE, error=failure("E", str(number))))
        assert await state(store, job) is State.SCHEDULED
        clock.turn(MINUTE)

    failed = await one(store, job)
    assert [failure.message for failure in failed.failures] == [str(number) for number in range(2, 12)]
    assert [failure.attempt for failure in failed.failures] == list(range(3, 13))
    assert failed.attempt == 12


async def test_a_failure_is_stamped_with_its_attempt_and_moment(store, clock):
    [job] = await put_in(store, new())
    await run(store, Again())
    [lease] = await take(store)
    clock.turn(SECOND)

    await end(store, lease, Again(error=Failure("E", "it broke", traceback="File x", attempt=99, at=1)))

    assert (await one(store, job)).failures == (
        Failure("E", "it broke", traceback="File x", attempt=2, at=clock.now()),
    )


async def test_a_job_to_be_run_again_at_once_is_ready_from_now_on(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    clock.turn(SECOND)

    await end(store, lease, Again())

    again = await one(store, job)
    assert (again.state, again.since, again.worker) == (State.READY, clock.now(), None)


async def test_a_job_to_be_run_again_later_is_due_after_its_delay(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    clock.turn(SECOND)

    await end(store, lease, Again(delay=MINUTE))

    later = await one(store, job)
    assert (later.state, later.since) == (State.SCHEDULED, clock.now() + MINUTE)
    assert await take(store) == []


async def test_an_uncharged_try_does_not_count(store):
    [job] = await put_in(store, new())
    await run(store, Again())

    await run(store, Again(charged=False))

    assert (await one(store, job)).attempt == 1
    assert (await take(store))[0].attempt == 2


async def test_failures_of_uncharged_tries_are_kept_apart(store):
    [job] = await put_in(store, new())

    for message in ("one", "two", "three"):
        await run(store, Again(error=failure("E", message), charged=False))

    assert [failure.message for failure in (await one(store, job)).failures] == ["one", "two", "three"]


async def test_a_waiting_job_shows_its_reason_and_detail_and_its_try_does_not_count(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    clock.turn(SECOND)

    await end(store, lease, Wait(WaitReason.CIRCUIT, detail="payments are down"))

    waiting = await one(store, job)
    assert (waiting.state, waiting.reason) == (State.WAITING, WaitReason.CIRCUIT)
    assert (waiting.detail, waiting.attempt, waiting.since) == ("payments are down", 0, clock.now())
    assert await take(store) == []


async def test_the_detail_of_a_wait_goes_when_the_wait_is_over(store):
    [job] = await put_in(store, new())
    await run(store, Wait(WaitReason.LIMIT, detail="too many"))

    await store.jobs.release(WaitReason.LIMIT)

    ready = await one(store, job)
    assert (ready.state, ready.reason, ready.detail) == (State.READY, None, "")


async def test_a_settlement_that_waits_for_something_already_there_makes_the_job_ready_instead(store):
    [job] = await put_in(store, new())
    await store.records.put([Put("signal", "go", b"1")])

    await run(store, Wait(WaitReason.SIGNAL, On("signal", "go")))

    ready = await one(store, job)
    assert (ready.state, ready.reason, ready.attempt) == (State.READY, None, 0)


async def test_a_dead_job_keeps_its_reason_and_its_failure(store, clock):
    [job] = await put_in(store, new())
    await run(store, Again(error=failure("First")))
    [lease] = await take(store)
    clock.turn(SECOND)

    await end(store, lease, Dead(DeadReason.EXHAUSTED, failure("Last", "for good")))

    dead = await one(store, job)
    assert (dead.state, dead.reason, dead.since) == (State.DEAD, DeadReason.EXHAUSTED, clock.now())
    assert [failure.type for failure in dead.failures] == ["First", "Last"]
    assert dead.failures[-1] == Failure("Last", "for good", attempt=2, at=clock.now())


async def test_a_cancelled_job_keeps_its_failure_if_it_has_one(store, clock):
    [reported, plain] = await put_in(store, new(), new())
    leases = await take(store)
    clock.turn(SECOND)

    await end(store, leases[0], Cancelled(error=failure("Cancel", "nobody wants it")))
    repeated = await end(store, leases[0], Cancelled(error=failure("Cancel", "nobody wants it")))
    await end(store, leases[1], Cancelled())

    found = await one(store, reported)
    assert (found.state, found.since, repeated) == (State.CANCELLED, clock.now(), Verdict.REPEATED)
    assert found.failures == (Failure("Cancel", "nobody wants it", attempt=1, at=clock.now()),)
    assert (await one(store, plain)).failures == ()


@pytest.mark.parametrize("reason", list(DeadReason))
async def test_a_dead_job_shows_each_reason(store, reason):
    [job] = await put_in(store, new())

    await run(store, Dead(reason, BROKEN))

    assert (await one(store, job)).reason is reason


async def test_a_job_that_called_itself_off_is_cancelled(store, clock):
    [job] = await put_in(store, new())

    await run(store, Cancelled())

    off = await one(store, job)
    assert (off.state, off.since, off.reason, off.attempt) == (State.CANCELLED, clock.now(), None, 1)


async def test_a_retry_or_a_wait_of_a_job_that_is_to_be_cancelled_ends_it_as_cancelled(store):
    jobs = await put_in(store, new(), new())
    retry, wait = await take(store)
    await store.jobs.cancel(jobs)

    verdicts = (await store.jobs.exchange([
        Settlement(retry, Again(delay=MINUTE, error=BROKEN)),
        Settlement(wait, Wait(WaitReason.INTERVENTION)),
    ])).verdicts  # fmt: skip

    assert verdicts == (Verdict.WRITTEN, Verdict.WRITTEN)
    assert await states(store, *jobs) == [State.CANCELLED, State.CANCELLED]
    assert [failure.type for failure in (await one(store, jobs[0])).failures] == ["Broken"]


@pytest.mark.parametrize(
    "outcome",
    [
        Again(error=BROKEN),
        Again(delay=MINUTE),
        Wait(WaitReason.INTERVENTION),
        Wait(WaitReason.CHILDREN, children=1),
        Wait(WaitReason.SIGNAL, On("kind", "key")),
    ],
)
async def test_effects_of_a_retry_or_a_wait_that_ends_as_cancelled_are_dropped(store, outcome):
    [job, other] = await put_in(store, new(), new())
    lease, neighbour = await take(store)
    await store.jobs.cancel([job])
    child = new("child", parent=job)
    effects = (Enqueue(child), Publish("news", b"1"), Put("kind", "key", b"1"))
    kept = (Enqueue(new("kept")), Publish("news", b"2"), Put("kind", "kept", b"2"))

    answer = await store.jobs.exchange([Settlement(lease, outcome, effects), Settlement(neighbour, Again(), kept)])

    assert answer.verdicts == (Verdict.WRITTEN, Verdict.WRITTEN)
    assert await states(store, job, other, child.id) == [State.CANCELLED, State.READY, None]
    assert [event.data for event in await store.streams.read("news")] == [b"2"]
    assert [record and record.value for record in await store.records.get("kind", ["key", "kept"])] == [None, b"2"]
    assert (await store.jobs.count())["default"][State.READY] == 2


@pytest.mark.parametrize(
    ("outcome", "end_state"),
    [(Done(b"1"), State.DONE), (DEAD, State.DEAD), (Cancelled(), State.CANCELLED), (Held(1), State.RUNNING)],
)
async def test_other_outcomes_of_a_job_that_is_to_be_cancelled_stand(store, outcome, end_state):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.cancel([job])

    verdict = await end(store, lease, outcome)

    assert verdict is Verdict.WRITTEN
    assert await state(store, job) is end_state


async def test_an_exchange_without_anything_answers_with_the_time(store, clock):
    answer = await store.jobs.exchange([])

    assert (answer.verdicts, answer.leases, answer.more, answer.next_due) == ((), (), False, None)
    assert answer.now == clock.now()


async def test_five_hundred_settlements_go_in_one_call(store):
    ids = await put_in(store, *(new() for _ in range(500)))
    leases = await take(store, 500)

    answer = await store.jobs.exchange([Settlement(lease, Done(b"1")) for lease in leases])

    assert answer.verdicts == (Verdict.WRITTEN,) * 500
    assert await states(store, *ids) == [State.DONE] * 500


async def test_a_job_can_be_its_own_successor(store):
    await put_in(store, new("count", payload=b"0"))
    for number in range(1, 4):
        await run(store, Done(), Enqueue(new("count", payload=b"%d" % number)))

    [lease] = await take(store)

    assert lease.payload == b"3"


async def test_an_effect_that_enqueues_a_taken_id_creates_nothing(store):
    taken = new("taken")
    await put_in(store, new(priority=0), taken)

    await run(store, Done(), Enqueue(new("twin", id=taken.id)), Enqueue(new("other", id=new_id())))

    assert [lease.task for lease in await take(store)] == ["taken", "other"]
