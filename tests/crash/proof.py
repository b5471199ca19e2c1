"""What large runs have shown, kept as lines of JSON and written as the table of ``docs/operate/proof.md``.

``PACKHORSE_PROOF`` names the file of lines. As a plugin of pytest (``-p tests.crash.proof``) this notes how the tests named
here ended; ``make crash`` notes its own rows. Run as a program it keeps the line that counts of each test and writes the page.
"""

import json
import os
import re
import sqlite3
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import servers
from tests.crash.tally import Tally

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operate" / "proof.md"
LONG_TIMES = 25  # so many times a small run is a long run of the crash programme
PROGRAMME = "tests/crash/test_programme.py::test_nothing_is_lost_doubled_or_stuck"
VERSIONS = "tests/versions.py"
STORES = {"sqlite": "SQLite", "redis": "Redis", "valkey": "Valkey", "postgres": "PostgreSQL"}
Line = dict[str, Any]


class Shown(NamedTuple):
    """A test of which the page tells, and the names in its module that say how much it did."""

    what: str
    test: str
    sizes: dict[str, str]


INTEGRATION, FEATURES = "tests/integration", "tests/features"
SHOWN = (
    Shown("processes killed inside store calls", "tests/crash/test_kills.py::test_kills_lose_nothing_and_settle_nothing_twice",
          {"kills": "KILLS"}),
    Shown("power cut: the log ends at any byte",
          f"{INTEGRATION}/test_redis_power.py::test_a_log_cut_at_any_byte_gives_the_store_as_it_was_at_some_moment",
          {"cuts": "CUTS"}),
    Shown("power cut: the journal ends or has holes anywhere",
          f"{INTEGRATION}/test_sqlite_power.py::test_a_journal_cut_anywhere_gives_what_was_acknowledged_before_and_nothing_else",
          {"cuts": "CUTS"}),
    Shown("power cut during a checkpoint",
          f"{INTEGRATION}/test_sqlite_power.py::test_a_checkpoint_that_was_cut_off_is_made_good_by_the_journal",
          {"cuts": "BACKFILLS"}),
    Shown("all jobs run to their end after a cut",
          f"{INTEGRATION}/test_sqlite_power.py::test_after_a_cut_every_job_has_one_place_and_can_be_run", {"cuts": "AUDITS"}),
    Shown("processes commit and checkpoint at once",
          f"{INTEGRATION}/test_sqlite_storm.py::test_processes_that_commit_and_checkpoint_at_once_lose_nothing",
          {"processes": "PROCESSES", "seconds": "SECONDS"}),
    Shown("the disk is full, and freed",
          f"{INTEGRATION}/test_sqlite_disk.py::test_a_full_disk_loses_nothing_and_work_goes_on_when_it_is_freed",
          {"times": "ROUNDS"}),
    Shown("sessions ended by the server", f"{INTEGRATION}/test_postgres_outages.py::test_jobs_go_on_while_sessions_are_ended",
          {"terminations": "TERMINATIONS"}),
    Shown("immediate stops under one worker",
          f"{INTEGRATION}/test_postgres_outages.py::test_jobs_go_on_when_the_server_is_stopped_at_once_and_started_again",
          {"stops": "STOPS"}),
    Shown("deadlocks and serialisation failures",
          f"{INTEGRATION}/test_postgres_outages.py::test_what_the_server_refuses_for_the_sake_of_others_is_done_again",
          {"refusals": "REFUSALS"}),
    Shown("failover to a synchronous standby",
          f"{INTEGRATION}/test_postgres_outages.py::test_a_failover_to_a_synchronous_standby_loses_nothing_that_was_acknowledged",
          {"failovers": "FAILOVERS"}),
    Shown("an old snapshot is held: pages of a claim stay within 3x",
          f"{INTEGRATION}/test_postgres_snapshots.py::test_a_claim_costs_about_the_same_while_an_old_snapshot_is_held",
          {"jobs": "JOBS"}),
    Shown("bad wire: refuses, swallows, resets, is mute, is slow",
          f"{INTEGRATION}/test_postgres_network.py::test_work_goes_on_soon_after_a_bad_wire_is_healed",
          {"times each": "ROUNDS"}),
    Shown("bad wire: refuses, swallows, resets, is mute, is slow",
          f"{INTEGRATION}/test_redis_network.py::test_work_goes_on_soon_after_a_bad_wire_is_healed",
          {"times each": "ROUNDS"}),
    Shown("scripts forgotten, clients killed, flips to a replica",
          f"{INTEGRATION}/test_redis_doors.py::test_jobs_go_on_through_forgotten_scripts_killed_clients_and_flips_to_a_replica",
          {"times each": "TIMES"}),
    Shown("failover by sentinels to a replica that lags: **loses**",
          f"{INTEGRATION}/test_redis_fleets.py::test_jobs_go_on_when_sentinels_promote_a_replica_that_lags",
          {"failovers": "ROUNDS"}),
    Shown("failover with `wait_replicas=1`",
          f"{INTEGRATION}/test_redis_fleets.py::test_with_wait_replicas_a_failover_loses_nothing_that_was_acknowledged", {}),
    Shown("a cluster replaces a node",
          f"{INTEGRATION}/test_redis_fleets.py::test_jobs_go_on_when_a_cluster_replaces_the_node_of_their_slot",
          {"failovers": "ROUNDS"}),
    Shown("the layout is brought forward under workers of the release before",
          "tests/conformance/test_rolling_upgrade.py::test_an_older_release_loses_nothing_while_the_layout_is_brought_forward",
          {"jobs a stage": "JOBS"}),
    Shown("writers that enqueue in their own transactions, some rolled back",
          f"{FEATURES}/test_within_writers.py::test_s56_exactly_the_committed_jobs_of_many_writers_exist_and_run",
          {"transactions": "TRANSACTIONS"}),
    Shown("weights of full queues, one worker and four: none starves",
          f"{FEATURES}/test_weights.py::test_s09_picks_of_full_queues_follow_the_weights_and_starve_none",
          {"jobs a queue": "SIZE", "picks": "COUNTED"}),
    Shown("every tick is one job while workers are killed",
          f"{FEATURES}/test_killed_ticks.py::test_i8_each_tick_is_one_job_and_none_is_missing_while_workers_are_killed",
          {"schedules": "SCHEDULES", "seconds": "SECONDS"}),
    Shown("schedules due in the same second",
          f"{FEATURES}/test_many_schedules.py::test_schedules_due_in_the_same_second_are_all_fired",
          {"schedules": "SCHEDULES"}),
    Shown("order in lanes while workers are killed",
          f"{FEATURES}/test_killed_lanes.py::test_per_key_order_is_exact_and_nothing_overlaps_while_workers_are_killed",
          {"lanes": "LANES", "jobs": "JOBS"}),
    Shown("plans with every result while workers are killed",
          f"{FEATURES}/test_killed_plans.py::test_plans_end_with_every_result_while_workers_are_killed",
          {"plans": "PLANS", "calls each": "CALLS"}),
    Shown("waits that leave nothing behind", f"{FEATURES}/test_waiting.py::test_s34_thousands_of_waits_leave_nothing_behind",
          {"waits": "WAITS"}),
    Shown("95 % of answers within 50 ms while others wait",
          f"{FEATURES}/test_waiting.py::test_s34_an_answer_comes_within_50_ms_while_thousands_wait",
          {"waiting": "WAITING", "answers": "ANSWERS"}),
)  # fmt: skip
KNOWN = {shown.test: shown for shown in SHOWN}


# -- noting


def note(**facts: int) -> None:
    """Note what a test has counted; more of the same is added up."""
    if test := os.environ.get("PYTEST_CURRENT_TEST"):
        _append({"test": test.rpartition(" ")[0], "facts": facts})


def note_tally(tally: Tally, name: str, kind: str, version: str, seed: int, long: bool, sizes: dict[str, int]) -> None:
    """Note what a scenario of the crash programme has shown."""
    facts = {"jobs ended": tally.jobs, "lost": tally.lost, "doubled": tally.doubled, "stuck": tally.stuck}
    if tally.fenced is not None:
        facts["zombies fenced"] = tally.fenced
    _append(
        {"test": f"{PROGRAMME}[{kind}-{name}]", "what": tally.scenario, "facts": facts, "seed": seed, "sizes": sizes}
        | {"held": not tally.wrong, "seconds": tally.seconds, "stores": {kind: version}, "long": long}
    )


def note_version(kind: str, version: str, source: str, counts: dict[str, int], seconds: float) -> None:
    """Note how the tests ended on a release of a server."""
    _append({"test": f"{VERSIONS}[{kind}-{version}]", "what": source, "held": set(counts) == {"passed"}, "sizes": {}}
            | {"facts": counts, "seconds": seconds, "stores": {kind: version}, "long": True})  # fmt: skip


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note how a test of which the page tells has ended."""
    shown = KNOWN.get(item.nodeid.partition("[")[0])
    if shown is None or call.when != "call":
        return
    module = getattr(item, "module", None)
    sizes = {word: getattr(module, name, None) for word, name in shown.sizes.items()}
    _append(
        {"test": item.nodeid, "what": shown.what, "sizes": sizes, "held": call.excinfo is None}
        | {"seconds": call.duration, "stores": _stores(item.nodeid), "long": "PACKHORSE_TEST_LONG" in os.environ}
    )


def _stores(test: str) -> dict[str, str]:
    """The store that a test is about, with its version: by its parameters, else by its file."""
    words = re.findall(r"[a-z]+", test.partition("[")[2]) or re.findall(r"[a-z]+", test.partition("::")[0])
    found = [kind for kind in STORES if kind in words] or [kind for kind in STORES if f"test_{kind}" in test]
    return {
        kind: sqlite3.sqlite_version if kind == "sqlite" else servers.find(kind).version.split()[0] for kind in found
    }


def _append(line: Line) -> None:
    if path := os.environ.get("PACKHORSE_PROOF"):
        with Path(path).open("a") as lines:
            lines.write(
                json.dumps(line | {"commit": _commit(), "day": time.strftime("%Y-%m-%d", time.gmtime())}) + "\n"
            )


def _commit() -> str:
    """The commit that runs, and whether code was changed since; pages may have been."""
    changed = _git("status", "--porcelain", "--", "src", "tests")
    return (_git("describe", "--always") or "unknown") + ("-dirty" if changed else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


# -- the page


def counted(lines: Iterable[Line]) -> list[Line]:
    """Of each test the last line, rather of a long run than of a short one, with what was counted in that run."""
    best: dict[str, Line] = {}
    facts: dict[str, dict[str, int]] = {}
    for line in lines:
        known, test = facts.setdefault(line["test"], {}), line["test"]
        for word, number in line.get("facts", {}).items():
            known[word] = known.get(word, 0) + number
        if "held" in line:
            if line["long"] or not best.get(test, line)["long"]:
                best[test] = line | {"facts": known}
            facts[test] = {}
    return list(best.values())


def row(line: Line) -> str:
    """A row of the table."""
    sizes = ", ".join(f"{word}: {number:,}" for word, number in line["sizes"].items() if number)
    odd = [word for word in re.findall(r"\w+", line["test"].partition("[")[2]) if word not in STORES]
    what = line["what"] + (f" ({', '.join(odd)})" if odd and _of(line) != PROGRAMME else "")
    facts = ", ".join(f"{number:,} {word}" for word, number in line["facts"].items())
    ended = (facts or "holds") if line["held"] else f"**FAILED** {facts}".strip()
    where = ", ".join(f"{STORES[kind]} {version}" for kind, version in line["stores"].items())
    size = ("long, " if line["long"] else "short, ") if sizes else ""  # the same in every run
    seed = f", seed {line['seed']}" if line.get("seed") is not None else ""
    cells = (what, where, sizes, ended, f"{line['seconds']:,.0f}", f"{size}{line['commit']}{seed}")
    return f"| {' | '.join(cells)} | `{line['test'].partition('[')[0]}` |"


def written(page: str, lines: Iterable[Line]) -> str:
    """The page with these rows."""
    best = counted(lines)
    order = [PROGRAMME, *KNOWN]
    rows = sorted(
        (line for line in best if _of(line) != VERSIONS),
        key=lambda line: (order.index(_of(line)), line["what"], [*STORES].index(next(iter(line["stores"])))),
    )
    sized = [line for line in rows if any(line["sizes"].values())]
    long = f"Of {len(sized)} rows that have a size {sum(line['long'] for line in sized)} are of a long run."
    heads = ["what happens", "store", "how much", "counted", "seconds", "run", "test"]
    page = _between(page, "rows", heads, map(row, rows), long)
    releases = sorted((line for line in best if _of(line) == VERSIONS), key=lambda line: str(line["stores"]))
    kept = "" if releases else "No run is kept here yet."
    return _between(page, "versions", ["server", "from", "tests", "seconds", "run"], map(version_row, releases), kept)


def version_row(line: Line) -> str:
    """A row of the table of releases."""
    [(kind, version)] = line["stores"].items()
    counts = ", ".join(f"{number:,} {word}" for word, number in line["facts"].items())
    return f"| {STORES[kind]} {version} | `{line['what']}` | {counts} | {line['seconds']:,.0f} | {line['commit']} |"


def _of(line: Line) -> str:
    return str(line["test"].partition("[")[0])


def _between(page: str, name: str, heads: list[str], rows: Iterable[str], words: str = "") -> str:
    """The page with a table between two marks, and perhaps a word before it."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, after = page.partition(begin)[0], page.partition(end)[2]
    table = words + "\n\n" * bool(words) + "\n".join((f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *rows))
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def main() -> None:
    """Write the page, and keep of the lines those that are on it."""
    path = Path(os.environ["PACKHORSE_PROOF"])
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    kept = [line for line in lines if _of(line) in {PROGRAMME, VERSIONS, *KNOWN}]
    path.write_text("".join(json.dumps(line) + "\n" for line in counted(kept)))
    PAGE.write_text(written(PAGE.read_text(), kept))


if __name__ == "__main__":
    main()
