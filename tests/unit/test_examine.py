"""What is thought of servers and file systems that cannot be had in a test."""

from pathlib import Path

import pytest

from packhorse.model.finding import Grade, size, skew
from packhorse.stores.postgres import diagnostics as postgres
from packhorse.stores.redis.diagnostics import judged
from packhorse.stores.sqlite.disk import file_system

SOUND = {"redis_version": "7.2.4", "used_memory": "10", "maxmemory": "100", "role": "master", "cluster_enabled": "0"}
SERVED = {
    "number": 180001, "version": "18.1", "synchronous_commit": "on", "fsync": "on", "full_page_writes": "on",
    "standbys": "", "recovering": False, "isolation": "read committed", "encoding": "UTF8", "autovacuum": "on", "longest": 0.0,
    "connections": 97, "connected": 5, "role": "ox", "sees_all": True, "age": None, "holder": None,
}  # fmt: skip
SET = {"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "everysec", "save": ""}
MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/srv /mnt/shared nfs4 rw 0 0
/dev/sdb1 /mnt/shared/own\\040disk xfs rw 0 0
"""


def redis(facts: dict[str, str], settings: dict[str, str]) -> dict[str, tuple[Grade, str]]:
    found = list(judged({**SOUND, **facts}, {**SET, **settings}))
    assert all(finding.advice for finding in found if finding.grade in (Grade.WARN, Grade.BAD))
    return {finding.name: (finding.grade, finding.value) for finding in found}


def test_a_sound_server_has_nothing_to_repair():
    assert {grade for grade, _ in redis({}, {}).values()} == {Grade.OK}


@pytest.mark.parametrize(
    ("facts", "settings", "name", "grade"),
    [
        ({"redis_version": "6.0.16"}, {}, "Redis", Grade.BAD),
        ({"valkey_version": "9.1.0"}, {}, "Valkey", Grade.OK),
        ({}, {"maxmemory-policy": "volatile-lru"}, "maxmemory-policy", Grade.BAD),
        ({}, {"appendonly": "no"}, "durability", Grade.WARN),
        ({}, {"appendfsync": "no"}, "durability", Grade.WARN),
        ({}, {"appendfsync": "always"}, "durability", Grade.OK),
        ({"used_memory": "95"}, {}, "memory", Grade.WARN),
        ({"maxmemory": "0"}, {}, "memory", Grade.NOTE),
        ({"role": "slave"}, {}, "role", Grade.BAD),
        ({"cluster_enabled": "1"}, {}, "cluster", Grade.NOTE),
    ],
)
def test_what_is_wrong_with_a_server_is_graded(facts, settings, name, grade):
    assert redis(facts, settings)[name][0] is grade


def test_snapshots_alone_are_reported_from_nothing_at_all():
    assert "after the last snapshot" in redis({}, {"appendonly": "no", "save": "60 1"})["durability"][1]
    assert "loses all jobs" in redis({}, {"appendonly": "no", "save": ""})["durability"][1]


def served(facts: dict[str, object], *, pooled: bool = False) -> dict[str, tuple[Grade, str]]:
    known = {**SERVED, **facts}
    found = [
        postgres._version(known), postgres._durability(known), *postgres._safety(known), *postgres._transactions(known),
        *postgres._connections(known, pooled=pooled),
    ]  # fmt: skip
    assert all(finding.advice for finding in found if finding.grade in (Grade.WARN, Grade.BAD))
    return {finding.name: (finding.grade, finding.value) for finding in found}


def test_a_sound_database_has_nothing_to_repair():
    assert {grade for grade, _ in served({}).values()} == {Grade.OK}


@pytest.mark.parametrize(
    ("facts", "name", "grade"),
    [
        ({"number": 120022}, "PostgreSQL", Grade.BAD),
        ({"synchronous_commit": "off"}, "durability", Grade.WARN),
        ({"fsync": "off"}, "durability", Grade.WARN),
        ({"full_page_writes": "off"}, "full_page_writes", Grade.BAD),
        ({"recovering": True}, "role of the server", Grade.BAD),
        ({"autovacuum": "off"}, "autovacuum", Grade.WARN),
        ({"encoding": "LATIN1"}, "encoding", Grade.BAD),
        ({"longest": 301.0}, "longest transaction", Grade.WARN),
        ({"connected": 90}, "connections", Grade.WARN),
    ],
)
def test_what_is_wrong_with_a_database_is_graded(facts, name, grade):
    assert served(facts)[name][0] is grade


def test_synchronous_standbys_keep_work_through_a_failover():
    assert served({"standbys": "one"})["durability"][1].startswith("replicated")
    assert served({"standbys": "one", "synchronous_commit": "local"})["durability"][1].startswith("os")


def test_a_pooler_in_between_is_worth_a_note():
    assert served({}, pooled=True)["pooler"][0] is Grade.NOTE


def test_dead_rows_matter_when_they_outnumber_the_living():
    assert postgres._dead("ready", 20_001, 100).grade is Grade.WARN
    assert postgres._dead("ready", 20_001, 1_000_000).grade is Grade.OK


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/srv", "ext4"), ("/mnt/shared/jobs", "nfs4"), ("/mnt/shared/own disk", "xfs"), ("/mnt/sharedness", "ext4")],
)
def test_the_nearest_mount_tells_the_file_system(folder, kind):
    assert file_system(Path(folder), MOUNTS) == kind


def test_without_a_table_of_mounts_nothing_is_claimed():
    assert file_system(Path("/srv"), "") == ""


@pytest.mark.parametrize(("apart", "grade"), [(0, Grade.OK), (999_999, Grade.OK), (-2_000_000, Grade.WARN)])
def test_clocks_may_be_less_than_a_second_apart(apart, grade):
    found = skew(10_000_000, 10_000_000 + apart)

    assert found.grade is grade
    assert found.value == f"{apart / 1_000_000:+.3f} s"


def test_sizes_are_shown_in_a_unit_that_fits():
    assert [size(count) for count in (0, 1023, 1536, 5 * 1024**3, 3 * 1024**4)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 GiB", "3.0 TiB",
    ]  # fmt: skip
