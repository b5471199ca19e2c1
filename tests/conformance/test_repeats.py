"""The same request again after a lost answer: it changes nothing, and says so."""

import msgspec
import pytest

from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.ids import new_token
from packhorse.model.job import State
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from tests.factories import (
    BROKEN,
    DEAD,
    MINUTE,
    OTHER,
    Again,
    Cancelled,
    Done,
    Held,
    Wait,
    ask,
    end,
    found,
    lapse,
    new,
    one,
    put_in,
    run,
    state,
    take,
)

SETTLED = [
    Done(b"1"),
    Again(),
    Again(error=BROKEN),
    Again(delay=MINUTE),
    Again(charged=False),
    Wait(WaitReason.INTERVENTION),
    Wait(WaitReason.SIGNAL, On("signal", "go")),
    Wait(WaitReason.CHILDREN, children=1),
    DEAD,
    Cancelled(),
]


def each(*some):
    """A test for each of these outcomes."""
    return pytest.mark.parametrize("outcome", some, ids=lambda outcome: type(outcome).__name__.lower())


async def revive(store, clock, job: bytes) -> None:
    """Make a settled job ready, whatever became of it."""
    clock.turn(MINUTE)
    await store.jobs.replay([job])
    await store.jobs.release(WaitReason.INTERVENTION)
    await store.records.put([Put("signal", "go", b"1")])
    if (await one(store, job)).state is State.WAITING:
        [child] = await put_in(store, new(parent=job, delay=MINUTE))
        await store.jobs.cancel([child])


@each(*SETTLED)
async def test_the_same_token_again_changes_nothing_and_comes_back_as_repeated(store, outcome):
    [job] = await put_in(store, new())
    lease = await run(store, outcome, Publish("news", b"1"))
    before = await one(store, job)

    verdict = await end(store, lease, outcome, Publish("news", b"1"))

    assert verdict is Verdict.REPEATED
    assert await one(store, job) == before
    assert len(await store.streams.read("news")) == 1


@pytest.mark.parametrize("outcome", [*SETTLED[1:8], DEAD, Cancelled()], ids=lambda one: type(one).__name__.lower())
async def test_a_settlement_repeated_after_another_worker_took_the_job_comes_back_as_repeated(store, clock, outcome):
    [job] = await put_in(store, new())
    lease = await run(store, outcome)
    await revive(store, clock, job)
    assert [taken.id for taken in await take(store, worker=OTHER)] == [job]

    verdict = await end(store, lease, outcome)

    assert verdict is Verdict.REPEATED
    running = await one(store, job)
    assert (running.state, running.worker) == (State.RUNNING, OTHER)


@each(*SETTLED)
async def test_a_settlement_repeated_with_another_outcome_comes_back_as_repeated(store, outcome):
    [job] = await put_in(store, new())
    lease = await run(store, outcome)
    before = await one(store, job)

    other = DEAD if isinstance(outcome, Done) else Done(b"2")

    assert await end(store, lease, other) is Verdict.REPEATED
    assert await one(store, job) == before


@each(Again(error=BROKEN), Wait(WaitReason.INTERVENTION))
async def test_a_retry_that_became_a_cancel_is_known_when_repeated(store, outcome):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.cancel([job])
    await end(store, lease, outcome)
    before = await one(store, job)

    assert await end(store, lease, outcome) is Verdict.REPEATED
    assert await one(store, job) == before


async def test_every_earlier_try_is_known_by_its_token(store):
    await put_in(store, new())
    leases = [await run(store, Again(error=BROKEN)) for _ in range(4)]
    await run(store, Done())

    verdicts = [await end(store, lease, Again(error=BROKEN)) for lease in leases]

    assert verdicts == [Verdict.REPEATED] * 4


@each(*SETTLED)
async def test_the_same_settlement_twice_in_one_call_is_written_once(store, outcome):
    await put_in(store, new())
    [lease] = await take(store)
    settlement = Settlement(lease, outcome, (Publish("news", b"1"),))

    answer = await store.jobs.exchange([settlement, settlement])

    assert answer.verdicts == (Verdict.WRITTEN, Verdict.REPEATED)
    assert len(await store.streams.read("news")) == 1


async def test_a_token_that_never_held_the_job_is_lost_also_after_its_end(store):
    await put_in(store, new())
    lease = await run(store, Done())

    stranger = msgspec.structs.replace(lease, token=new_token())

    assert await end(store, stranger, Done()) is Verdict.LOST


async def test_a_lease_taken_back_and_settled_by_another_is_lost_not_repeated(store, clock):
    await put_in(store, new())
    [first] = await take(store)
    clock.to(first.until + 1)
    await store.jobs.reap(10)
    await run(store, Done(b"2"))

    assert await end(store, first, Done(b"1")) is Verdict.LOST


@pytest.mark.parametrize("cancelling", [True, False])
async def test_a_lease_whose_loss_ended_the_job_is_lost_not_repeated(store, clock, cancelling):
    [job] = await put_in(store, new())
    lease = await run(store, Held(1))
    if cancelling:
        await store.jobs.cancel([job])
    await lapse(store, clock, max_lost=1)

    assert await end(store, lease, Done(b"1")) is Verdict.LOST


async def test_a_held_step_that_was_written_already_comes_back_as_repeated(store):
    await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Held(1), Publish("news", b"1"))
    await end(store, lease, Held(3), Publish("news", b"3"))

    verdicts = [await end(store, lease, Held(step), Publish("news", b"0")) for step in (1, 2, 3, 4)]

    assert verdicts == [Verdict.REPEATED] * 3 + [Verdict.WRITTEN]
    assert [event.data for event in await store.streams.read("news")] == [b"1", b"3", b"0"]


async def test_held_steps_in_one_call_are_judged_one_after_the_other(store):
    await put_in(store, new())
    [lease] = await take(store)

    answer = await store.jobs.exchange([
        Settlement(lease, Held(2), (Publish("news", b"2"),)),
        Settlement(lease, Held(1), (Publish("news", b"1"),)),
        Settlement(lease, Held(3), (Publish("news", b"3"),)),
        Settlement(lease, Done()),
        Settlement(lease, Held(4), (Publish("news", b"4"),)),
    ])  # fmt: skip

    written, repeated = Verdict.WRITTEN, Verdict.REPEATED
    assert answer.verdicts == (written, repeated, written, written, repeated)
    assert [event.data for event in await store.streams.read("news")] == [b"2", b"3"]


async def test_steps_begin_anew_with_each_lease(store):
    await put_in(store, new())
    [first] = await take(store)
    await end(store, first, Held(5))
    await end(store, first, Again())
    [second] = await take(store)

    assert await end(store, second, Held(1)) is Verdict.WRITTEN


@each(Again(), Wait(WaitReason.INTERVENTION), Done(), DEAD, Cancelled())
async def test_a_held_step_repeated_after_its_job_was_settled_comes_back_as_repeated(store, outcome):
    await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Held(1), Publish("news", b"1"))
    await end(store, lease, outcome)

    assert await end(store, lease, Held(1), Publish("news", b"1")) is Verdict.REPEATED
    assert len(await store.streams.read("news")) == 1


async def test_a_held_step_whose_lease_was_taken_back_is_lost(store, clock):
    await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Held(1))
    clock.to(lease.until + 1)
    await store.jobs.reap(10)
    await take(store, worker=OTHER)

    assert await end(store, lease, Held(2), Publish("news", b"2")) is Verdict.LOST
    assert await store.streams.read("news") == []


async def test_the_same_ask_again_gives_the_same_leases(store):
    await put_in(store, *(new() for _ in range(5)))
    request = ask(3)
    first = await store.jobs.exchange([], request)

    again = await store.jobs.exchange([], request)

    assert again.leases == first.leases
    assert len({lease.id for lease in first.leases}) == 3
    assert sum(job.state is State.RUNNING for job in await found(store)) == 3


async def test_the_same_ask_again_counts_no_attempt_and_extends_no_lease(store, clock):
    [job] = await put_in(store, new())
    request = ask()
    [lease] = (await store.jobs.exchange([], request)).leases
    clock.turn(1000)

    [again] = (await store.jobs.exchange([], request)).leases

    running = await one(store, job)
    assert (running.attempt, running.until) == (1, lease.until)
    assert (again.attempt, again.until) == (1, lease.until)


async def test_the_same_exchange_again_gives_the_same_leases_and_says_repeated(store):
    await put_in(store, new(), new())
    [lease] = await take(store, 1)
    settlement, request = Settlement(lease, Done(), (Enqueue(new("next")),)), ask(1)
    first = await store.jobs.exchange([settlement], request)

    again = await store.jobs.exchange([settlement], request)

    assert (first.verdicts, again.verdicts) == ((Verdict.WRITTEN,), (Verdict.REPEATED,))
    assert again.leases == first.leases
    assert len(await found(store)) == 3


async def test_the_same_ask_after_some_leases_were_settled_gives_the_others_and_nothing_new(store):
    await put_in(store, *(new() for _ in range(5)))
    request = ask(3)
    first, *others = (await store.jobs.exchange([], request)).leases
    await end(store, first, Done())

    again = (await store.jobs.exchange([], request)).leases

    assert list(again) == others


async def test_the_same_ask_after_some_leases_were_taken_back_gives_the_others_and_nothing_new(store, clock):
    await put_in(store, new(), new(), new())
    request = ask(2)
    kept, gone = (await store.jobs.exchange([], request)).leases
    clock.to(kept.until - 1000)
    await store.jobs.renew([kept], MINUTE)
    clock.to(gone.until + 1)
    await store.jobs.reap(10)

    again = (await store.jobs.exchange([], request)).leases

    assert [(lease.id, lease.token, lease.attempt) for lease in again] == [(kept.id, kept.token, 1)]
    assert again[0].until == clock.now() - 1001 + MINUTE
    assert await state(store, gone.id) is State.READY


async def test_the_same_ask_never_gives_a_job_that_was_taken_back_under_its_old_token(store, clock):
    [job] = await put_in(store, new())
    request = ask()
    [lease] = (await store.jobs.exchange([], request)).leases
    clock.to(lease.until + 1)
    await store.jobs.reap(10)

    again = (await store.jobs.exchange([], request)).leases

    assert again == ()
    assert await state(store, job) is State.READY


async def test_a_token_of_another_worker_does_not_give_its_leases(store):
    await put_in(store, new(), new())
    request = ask(1)
    [lease] = (await store.jobs.exchange([], request)).leases

    other = (await store.jobs.exchange([], msgspec.structs.replace(request, worker=OTHER))).leases

    assert lease.id not in [taken.id for taken in other]
    assert (await one(store, lease.id)).worker == request.worker


async def test_the_same_ask_that_got_nothing_may_get_something_later(store):
    request = ask()
    assert (await store.jobs.exchange([], request)).leases == ()
    [job] = await put_in(store, new())

    again = (await store.jobs.exchange([], request)).leases

    assert [lease.id for lease in again] == [job]


async def test_asks_of_several_workers_are_repeated_apart(store):
    await put_in(store, *(new() for _ in range(4)))
    requests = [ask(2), ask(2, worker=OTHER)]
    first = [(await store.jobs.exchange([], request)).leases for request in requests]

    again = [(await store.jobs.exchange([], request)).leases for request in requests]

    assert again == first


async def test_an_ask_below_the_last_one_of_its_worker_gets_nothing(store):
    await put_in(store, new(), new())
    [first] = (await store.jobs.exchange((), ask(1, number=2))).leases

    late = await store.jobs.exchange((), ask(1, number=1))

    assert late.leases == ()
    assert late.more
    assert [lease.id for lease in await take(store, worker=OTHER)] != [first.id]


async def test_an_ask_that_got_nothing_when_it_was_made_again_gets_nothing_later(store):
    wanted = ask(1, number=1)
    assert (await store.jobs.exchange((), msgspec.structs.replace(wanted, again=True))).leases == ()
    [job] = await put_in(store, new())

    assert (await store.jobs.exchange((), wanted)).leases == ()
    [lease] = (await store.jobs.exchange((), ask(1, number=2))).leases
    assert lease.id == job
    assert (await store.jobs.exchange((), wanted)).leases == ()


async def test_an_ask_made_again_before_its_first_copy_gets_what_is_there(store):
    [job] = await put_in(store, new())
    wanted = ask(1, number=1)

    [lease] = (await store.jobs.exchange((), msgspec.structs.replace(wanted, again=True))).leases
    [same] = (await store.jobs.exchange((), wanted)).leases

    assert (lease.id, same) == (job, lease)
