"""Groups of deaths by fingerprint: exact counts, releases, hours."""

import msgspec
import pytest

from packhorse.dead_letters.groups import GROUPS, HOURS, NEWEST, ErrorGroup, GroupCounter, group_of, grown
from packhorse.dead_letters.reader import DeathReader
from packhorse.jobs.search import Search
from packhorse.model.clock import moment
from packhorse.model.death import Death
from packhorse.model.ids import id_text, new_id
from packhorse.model.job import Failure, State, StoredJob
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Dead
from packhorse.model.reason import DeadReason
from packhorse.testing import run_until_idle
from tests.factories import DAY, HOUR, new, put_in, take

AT = 1_700_000_000 * 1_000_000


def death(at: int = AT, **options) -> Death:
    failure = Failure("ValueError", at=at, **{"message": "no", "fingerprint": "f", "release": "1", **options})
    job = StoredJob(
        id=new_id(), task="pay", queue="q", payload=b"{}", headers=b"{}", priority=1, enqueued_at=1, since=at,
        state=State.DEAD, reason=DeadReason.FINAL, failures=(failure,),
    )  # fmt: skip
    return Death(job, at)


def test_a_group_counts_and_knows_the_first_and_the_last():
    deaths = [death(AT + 5, release="2", message="later"), death(AT, release="1")]
    group = grown(grown(None, deaths), [death(AT + 9, release="3", message="last", frame="shop.pay")])

    assert (group.deaths, group.task, group.error_type, group.frame) == (3, "pay", "ValueError", "shop.pay")
    assert (group.first_died_at, group.last_died_at) == (moment(AT), moment(AT + 9))
    assert (group.first_release, group.last_release, group.message) == ("1", "3", "last")
    assert group.newest[1:] == tuple(id_text(each.job.id) for each in deaths)


def test_an_earlier_death_that_comes_later_changes_the_count_and_the_beginning_only():
    group = grown(grown(None, [death(AT, message="shown")]), [death(AT - HOUR, message="earlier", release="0")])

    assert (group.message, group.last_release, group.deaths) == ("shown", "1", 2)
    assert group.first_died_at == moment(AT - HOUR)
    assert group.hourly[:2] == (1, 1)


def test_hours_move_on_and_drop_out():
    group = grown(None, [death(AT), death(AT), death(AT - 2 * HOUR)])
    assert group.hourly == (2, 0, 1, *[0] * (HOURS - 3))
    group = grown(group, [death(AT + 22 * HOUR)])
    assert (group.hourly[0], group.hourly[22], sum(group.hourly)) == (1, 2, 3)
    assert grown(group, [death(AT + 10 * DAY)]).hourly == (1, *[0] * (HOURS - 1))


def test_a_group_keeps_the_newest_ids_once():
    deaths = [death(AT + number) for number in range(20)]
    group = grown(grown(None, deaths[:15]), [*deaths[15:], deaths[19]])

    assert group.newest == tuple(id_text(each.job.id) for each in reversed(deaths))[:NEWEST]


def test_the_message_of_a_group_holds_no_secret():
    assert "hunter2" not in grown(None, [death(message="postgresql://ada:hunter2@db/shop refused")]).message


def test_a_death_without_a_failure_is_known_by_its_reason():
    job = msgspec.structs.replace(death().job, failures=(), reason=DeadReason.POISON)
    group = grown(None, [Death(job, AT)])

    assert (group.error_type, group.message, group.frame) == ("poison", "", "")
    assert group.fingerprint


@pytest.fixture
async def store(app):
    return await app.store()


async def groups(store) -> dict[str, ErrorGroup]:
    page = await store.records.find(GROUPS)
    return {record.key: group_of(record) for record in page.items}


async def test_deaths_are_counted_exactly_by_fingerprint_and_expire(store, clock):
    for number in range(4):
        await put_in(store, *[new() for _ in range(30)])
        failure = Failure("E", "no", fingerprint=f"f{number % 2}", release=str(number))
        leases = await take(store, 30)
        await store.jobs.exchange([Settlement(lease, Dead(DeadReason.FINAL, failure)) for lease in leases])
        reader = DeathReader(store, [GroupCounter()])
        while await reader.look():
            pass
        clock.turn(HOUR)
    found = await groups(store)

    assert {key: group.deaths for key, group in found.items()} == {"f0": 60, "f1": 60}
    assert (found["f0"].first_release, found["f0"].last_release) == ("0", "2")
    assert found["f1"].hourly[:3] == (30, 0, 30)
    clock.turn(31 * DAY)
    assert await groups(store) == {}


async def test_dead_jobs_are_found_by_the_fingerprint_of_their_last_death(app):
    @app.task(attempts=1)
    async def fails(kind: str) -> None:
        raise {"a": ValueError, "b": KeyError}[kind]("no")

    jobs = [await fails.enqueue(kind) for kind in "aab"]
    await run_until_idle(app)
    wanted = (await jobs[0].info()).failures[-1].fingerprint
    found = {job.id async for job in Search(group=wanted).jobs(app.client)}

    assert found == {jobs[0].id, jobs[1].id}
    await jobs[0].replay()
    assert {job.id async for job in Search(group=wanted).jobs(app.client)} == {jobs[1].id}
