"""A worker on a terminal: what it draws, and what Ctrl-C does."""

import signal

from tests.cli.shell import Shell

CTRL_C = "\x03"


async def test_a_line_says_what_is_going_on(folder: Shell):
    await folder.enqueue("add", a=1, b=2)
    worker = folder.terminal("worker", "shop")

    seen = await worker.until("· 1 done")

    assert "running 0/10" in seen
    assert "done/s" in seen


async def test_ctrl_c_lets_what_runs_end(folder: Shell):
    await folder.enqueue("linger")
    worker = folder.terminal("worker", "shop")
    await worker.until("running 1/10")

    worker.type(CTRL_C)
    seen = await worker.until("SIGINT: finishing 1 running job within 25 s")
    folder.write("go", "")

    assert await worker.ended() == 0
    assert "stopped: 1 done" in worker.text
    assert "Traceback" not in seen + worker.text


async def test_a_second_ctrl_c_stops_now_and_says_what_was_running(folder: Shell):
    jobs = [
        (await folder.run("enqueue", "-A", "shop", name, "seconds=60", "--json")).json["id"]
        for name in ("sleep", "hold")
    ]
    worker = folder.terminal("worker", "shop")
    await worker.until("running 2/10")

    worker.type(CTRL_C)
    await worker.until("finishing 2 running jobs")
    worker.type(CTRL_C)

    assert await worker.ended() == 128 + signal.SIGINT
    assert all(f"({job})" in worker.text for job in jobs)
    assert "SIGINT again: stopping now. Still running, will be run again: " in worker.text


async def test_a_third_ctrl_c_ends_a_worker_whose_loop_is_blocked(folder: Shell):
    await folder.enqueue("block", seconds=60)
    worker = folder.terminal("worker", "shop", "--log-level", "debug", "--no-live")
    await worker.until("block started")

    pressed = 0
    while (
        worker.process.poll() is None
    ):  # three, or more: one that comes while another is being handled counts as the same
        worker.type(CTRL_C)
        pressed += 1
        await worker.until("^C", pressed)

    assert worker.process.returncode == 128 + signal.SIGINT


async def test_the_line_can_be_switched_off(folder: Shell):
    worker = folder.terminal("worker", "shop", "--no-live")
    await worker.until("is ready on")

    worker.type(CTRL_C)

    assert await worker.ended() == 0
    assert "done/s" not in worker.text
