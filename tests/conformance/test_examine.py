"""Looking at the layout of a store, and at what is in force below it."""

from urllib.parse import urlsplit

import pytest

from packhorse.errors import ConfigError, StoreUnavailable
from packhorse.model.finding import Durability, Grade
from packhorse.model.layout import MigrationState
from packhorse.stores import open_store
from tests.conformance.releases import Release
from tests.factories import HOUR, new, put_in


@pytest.fixture
def nowhere(url, tmp_path) -> str:
    """An address at which no store can be."""
    if url.startswith("sqlite:"):
        return f"sqlite:///{tmp_path}"
    return urlsplit(url)._replace(netloc="127.0.0.1:1").geturl()


async def standings(store) -> list[MigrationState]:
    return [step.state for step in await store.steps()]


async def test_answer_the_steps_of_the_layout_in_order_each_with_its_text_and_how_it_stands(made):
    store = made()
    before = await store.steps()

    taken = await store.migrate()

    assert [step.name for step in before] == taken
    assert all(step.text.strip() for step in before)
    assert {step.state for step in before} == {MigrationState.PENDING}
    assert set(await standings(store)) == {MigrationState.TAKEN}


async def test_looking_at_the_steps_changes_nothing_and_needs_no_open_store(made, store):
    shut = made()

    assert await shut.steps() == await shut.steps()
    assert len(await shut.migrate()) == len(await shut.steps())

    await put_in(store, new(), new(delay=HOUR))
    before = await store.jobs.count()
    assert set(await standings(store)) == {MigrationState.TAKEN}
    assert await store.jobs.count() == before


async def test_a_step_that_was_changed_after_it_was_taken_is_shown_as_changed(made, place, tmp_path):
    other = Release(tmp_path / "other")
    other.change_a_step()
    assert (await other.run("migrate", *place)).startswith("ok")

    found = await standings(made())

    assert found[0] is MigrationState.CHANGED
    assert MigrationState.PENDING not in found


async def test_a_step_that_only_a_newer_release_knows_is_shown_as_unknown(made, place, tmp_path):
    later = Release(tmp_path / "later")
    later.add_a_step()
    assert (await later.run("migrate", *place)).startswith("ok")

    *known, last = await made().steps()

    assert (last.name, last.state, last.text) == ("9999_other", MigrationState.UNKNOWN, "")
    assert {step.state for step in known} == {MigrationState.TAKEN}


async def test_each_step_says_whether_older_releases_work_with_it_also_one_that_only_a_newer_release_knows(
    made, place, tmp_path
):
    later = Release(tmp_path / "later")
    later.add_a_step(compatible=True)
    later.add_a_step(compatible=False)
    assert (await later.run("migrate", *place)).startswith("ok")

    first, *_, compatible, other = await made().steps()

    assert not first.compatible
    assert (compatible.name, compatible.compatible, compatible.usable) == ("9999_later", True, True)
    assert (other.name, other.compatible, other.usable) == ("9999_other", False, False)


async def test_answer_what_is_in_force_below_the_store_each_with_a_grade_and_with_advice_where_something_should_change(
    store,
):
    found = await store.examine()

    names = [finding.name for finding in found]
    [durability] = [finding for finding in found if finding.name == "durability"]
    assert len(set(names)) == len(names)
    assert all(finding.value for finding in found)
    assert all(finding.advice for finding in found if finding.grade in (Grade.WARN, Grade.BAD))
    assert durability.value.split(":")[0] in list(Durability)


async def test_looking_at_what_is_in_force_changes_nothing_and_needs_no_open_store(made, store):
    shut = made()

    names = [finding.name for finding in await shut.examine()]

    assert names == [finding.name for finding in await shut.examine()]
    assert set(await standings(shut)) == {MigrationState.PENDING}
    await put_in(store, new(), new(delay=HOUR))
    before = await store.jobs.count()
    assert await store.examine()
    assert await store.jobs.count() == before


async def test_a_place_that_is_not_reached_cannot_be_looked_at(nowhere):
    store = open_store(nowhere)

    for look in (store.steps, store.examine):
        with pytest.raises((StoreUnavailable, ConfigError)):
            await look()
    await store.close()
