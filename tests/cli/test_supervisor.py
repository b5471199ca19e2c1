"""Several workers under a supervisor: it starts them, starts them again, stops them, and they end with it."""

import asyncio
import os
import re
import signal

from tests.cli.shell import PATIENCE, Program, Shell


def pids(text: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"Worker \d has pid (\d+)", text)]


async def gone(pid: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while alive(pid):
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def two(folder: Shell, *options: str) -> tuple[Program, list[int]]:
    supervisor = folder.start("worker", "shop", "--processes", "2", *options)
    return supervisor, pids(await supervisor.until("is ready on", 2))


async def test_a_killed_worker_is_started_again(folder: Shell):
    supervisor, before = await two(folder)

    os.kill(before[0], signal.SIGKILL)
    output = await supervisor.until("is ready on", 3)

    assert re.search(r"Worker 1 was killed by SIGKILL after \d+\.\d s: starting it again in 0\.\d s", output)
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended() == 0
    assert not any(alive(pid) for pid in pids(output))


async def test_pauses_before_a_new_start_grow(folder: Shell):
    supervisor = folder.start("worker", "shop", "--processes", "2", PACKHORSE_URL="redis://localhost:1")

    output = await supervisor.until("starting it again", 2)

    pauses = [float(pause) for pause in re.findall(r"exit code 4 after .* again in (\S+) s", output)]
    assert pauses[0] < pauses[1]
    assert "The store at redis://localhost:1 cannot be used" in output


async def test_workers_end_with_their_supervisor(folder: Shell):
    supervisor, workers = await two(folder)

    supervisor.signal(signal.SIGKILL)
    await asyncio.gather(*map(gone, workers))

    assert supervisor.text.count("The supervisor is gone: stopping") == 2


async def test_a_signal_is_handed_on_and_what_runs_may_end(folder: Shell):
    await folder.enqueue("linger")
    supervisor, _ = await two(folder, "--log-level", "debug")
    await supervisor.until("linger started")

    supervisor.signal(signal.SIGTERM)
    await supervisor.until("SIGTERM: finishing 1 running job")
    folder.write("go", "")

    assert await supervisor.ended() == 0
    assert "SIGTERM: stopping the workers within 25 s" in supervisor.text
    assert "linger done" in supervisor.text


async def test_a_second_signal_is_handed_on_too(folder: Shell):
    await folder.enqueue("sleep", seconds=60)
    supervisor, _ = await two(folder, "--log-level", "debug")
    await supervisor.until("sleep started")

    supervisor.signal(signal.SIGINT)
    await supervisor.until("finishing 1 running job")
    supervisor.signal(signal.SIGINT)

    assert await supervisor.ended() == 128 + signal.SIGINT
    assert "Still running, will be run again: sleep" in supervisor.text


async def test_ctrl_c_on_a_terminal_reaches_each_worker_once(folder: Shell):
    await folder.enqueue("linger")
    supervisor = folder.terminal("worker", "shop", "--processes", "2", "--log-level", "debug")
    await supervisor.until("is ready on", 2)
    await supervisor.until("linger started")

    supervisor.type("\x03")
    await supervisor.until("finishing 1 running job")
    folder.write("go", "")

    assert await supervisor.ended() == 0
    assert "again: stopping" not in supervisor.text
    assert "linger done" in supervisor.text


async def test_a_worker_that_does_not_end_is_killed_after_the_grace(folder: Shell):
    await folder.enqueue("block", seconds=60)
    supervisor, _ = await two(folder, "--grace", "100ms", "--log-level", "debug")
    await supervisor.until("block started")

    supervisor.signal(signal.SIGTERM)

    assert await supervisor.ended() == 1
    assert "did not end in time: killing pid" in supervisor.text
    assert not any(alive(pid) for pid in pids(supervisor.text))


async def test_after_a_second_signal_a_worker_that_does_not_end_is_killed_soon(folder: Shell):
    await folder.enqueue("block", seconds=600)
    supervisor, workers = await two(folder, "--grace", "10m", "--log-level", "debug")
    await supervisor.until("block started")

    supervisor.signal(signal.SIGTERM)
    await supervisor.until("stopping the workers within")
    supervisor.signal(signal.SIGTERM)

    assert await supervisor.ended() == 128 + signal.SIGTERM
    assert supervisor.text.count("did not end in time: killing pid") == 1
    assert not any(map(alive, workers))


async def test_a_third_signal_ends_all_at_once(folder: Shell):
    await folder.enqueue("block", seconds=600)
    supervisor, workers = await two(folder, "--grace", "10m", "--log-level", "debug")
    await supervisor.until("block started")

    for line in ("stopping the workers within", "again: stopping the workers now"):
        supervisor.signal(signal.SIGINT)
        await supervisor.until(line)
    supervisor.signal(signal.SIGINT)

    assert await supervisor.ended() == 128 + signal.SIGINT
    await asyncio.gather(*map(gone, workers))
    assert "does not end" not in supervisor.text


async def test_what_is_wrong_with_all_is_printed_once(folder: Shell):
    supervisor = folder.start("worker", "nowhere:app", "--processes", "3")

    assert await supervisor.ended() == 3
    assert supervisor.text.count("There is no module 'nowhere'") == 1


async def test_workers_are_numbered_behind_their_name(folder: Shell):
    supervisor, _ = await two(folder, "--name", "till")

    check = await folder.run("worker", "shop", "--check", "--name", "till")

    assert check.code == 0
    assert [line.split()[0] for line in check.out.splitlines()] == ["till:1", "till:2"]
    assert supervisor.process.poll() is None
