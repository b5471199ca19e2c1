"""``packhorse worker`` without a terminal: jobs are run, probes answered, systemd notified, lines logged."""

import json
import signal
import socket
from pathlib import Path

from tests.cli import forks
from tests.cli.shell import SHOP, Shell

STUBBORN = """
@app.task(name="stubborn", timeout=0.01)
async def stubborn() -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""
LOOP = """
@app.task(name="loop")
async def loop() -> str:
    return type(asyncio.get_running_loop()).__module__
"""
GARBAGE = """
import gc

@app.task(name="young")
async def young() -> int:
    return gc.get_threshold()[0]
"""
ORDERS = """
import orders
from packhorse import App

if not orders.ready:
    raise RuntimeError("orders is not ready: prepare it before its tasks are imported")

app = App()


@app.task(name="ship", run="process")
def ship() -> bool:
    return orders.ready
"""


async def test_a_worker_runs_jobs_until_it_is_asked_to_stop(shell: Shell):
    before = await shell.run("worker", "shop", "--check")
    worker = shell.start("worker", "shop:app", "-q", "default:3,letters", "-c", "5", "--name", "till")
    await worker.until("Worker till is ready on")
    greet, check = ("enqueue", "-A", "shop", "greet", "name=Ann", "times=2", "--wait"), ("worker", "--check")
    till, counter = (*check, "--name", "till"), (*check, "--name", "counter")
    cases = (greet, check, till, counter, (*till, "--json"), (*counter, "--json"), ("workers", "--json"))
    result, alive, by_name, other, plain, nobody, listed = await forks.run([(shell, case) for case in cases])

    worker.signal(signal.SIGTERM)

    assert await worker.ended() == 0
    assert (result.code, result.out) == (0, '"AnnAnn"\n')
    assert "queues default:3 letters:1, 5 slots" in worker.text
    assert "\x1b" not in worker.text
    assert (before.code, before.out) == (1, "")
    assert before.err.startswith(f"Error: No worker of this host ({socket.gethostname()}) is alive.")
    assert (alive.code, by_name.code, other.code) == (0, 0, 1)
    assert alive.out.startswith("till is alive: last heartbeat ")
    assert other.err == "Error: No worker named counter is alive. The workers that are alive: till.\n"
    assert [worker.keys() for worker in plain.json] == [worker.keys() for worker in listed.json]
    assert (plain.code, plain.json[0]["name"], plain.json[0]["pid"]) == (0, "till", worker.process.pid)
    assert (nobody.code, nobody.json, nobody.err) == (1, [], other.err)
    assert (await shell.run("worker", "shop", "--check")).code == 1


async def test_without_a_word_the_app_is_looked_for(folder: Shell):
    (folder.folder / "shop.py").rename(folder.folder / "app.py")
    worker = folder.start("worker", "--log-format", "json", PACKHORSE_CONCURRENCY="7", PACKHORSE_GRACE="1.5")
    await folder.enqueue("fail", why="no coal")
    await worker.until('"event":"dead"')

    worker.signal(signal.SIGINT)

    assert await worker.ended() == 0
    lines = [json.loads(line) for line in worker.text.splitlines()]
    [dead] = [line for line in lines if line.get("event") == "dead"]
    assert {"time", "level", "logger", "message", "job_id", "task", "queue", "attempt", "worker"} <= dead.keys()
    assert (dead["level"], dead["task"], dead["error_type"]) == ("error", "fail", "ValueError")
    assert dead["time"].endswith("Z")
    assert any("7 slots" in line["message"] for line in lines)


async def test_the_logging_of_an_app_is_left_as_it_is(folder: Shell):
    folder.write("shop.py", SHOP + "\nimport logging\nlogging.basicConfig(format='mine: %(message)s')\n")
    worker = folder.start("worker", "shop")

    await worker.until("mine: worker started")


async def test_a_signal_before_the_start_ends_it(folder: Shell):
    folder.write("shop.py", "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(60)\n")
    worker = folder.start("worker", "shop")
    while not (folder.folder / "begun").exists():
        assert worker.process.poll() is None, worker.text

    worker.signal(signal.SIGTERM)

    assert await worker.ended() == 128 + signal.SIGTERM
    assert worker.text == ""


async def test_a_worker_whose_slots_are_all_stuck_ends_with_an_error(folder: Shell):
    folder.write("shop.py", SHOP + STUBBORN)
    await folder.enqueue("stubborn")
    worker = folder.start("worker", "shop", "-c", "1")

    assert await worker.ended() == 1
    assert "Error: All 1 slots are held by attempts that do not stop: restart the worker" in worker.text
    assert "Traceback" not in worker.text


async def test_systemd_is_reported(folder: Shell, tmp_path: Path):
    address = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(address)
        receiver.settimeout(30)
        worker = folder.start("worker", "shop", NOTIFY_SOCKET=address, WATCHDOG_USEC="20000")
        received = [receiver.recv(100) for _ in range(3)]
        worker.signal(signal.SIGTERM)
        while received[-1] != b"STOPPING=1":
            received.append(receiver.recv(100))

    assert received[:3] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
    assert await worker.ended() == 0


async def test_a_supervisor_tells_systemd_for_all(folder: Shell, tmp_path: Path):
    address = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(address)
        receiver.settimeout(30)
        supervisor = folder.start("worker", "shop", "--processes", "2", NOTIFY_SOCKET=address)
        ready = receiver.recv(100)
        output = supervisor.text
        await supervisor.until("is ready on", 2)
        supervisor.signal(signal.SIGTERM)
        stopping = receiver.recv(100)

    assert (ready, stopping) == (b"READY=1", b"STOPPING=1")
    assert "is ready on" in output
    assert await supervisor.ended() == 0


async def test_each_loop_can_be_chosen(folder: Shell):
    folder.write("shop.py", SHOP + LOOP)
    worker = folder.start("worker", "shop", "--loop", "asyncio")
    await worker.until("is ready on")
    plain = await folder.run("enqueue", "-A", "shop", "loop", "--wait")
    worker.signal(signal.SIGTERM)
    await worker.ended()
    folder.start("worker", "shop")
    quick = await folder.run("enqueue", "-A", "shop", "loop", "--wait")

    assert plain.out.startswith('"asyncio.')
    assert quick.out == '"uvloop"\n'


async def test_a_worker_looks_for_garbage_seldom(folder: Shell):
    folder.write("shop.py", SHOP + GARBAGE)
    folder.start("worker", "shop")
    young = await folder.run("enqueue", "-A", "shop", "young", "--wait")

    assert young.out == "10000\n"


async def test_what_cannot_be_served_is_refused(folder: Shell):
    folder.write("uvloop/__init__.py", "raise ModuleNotFoundError")

    missing = await folder.run("worker", "shop", "--loop", "uvloop")
    unchecked = await folder.run("worker", "shop", "--json")

    assert missing.code == unchecked.code == 2
    assert missing.err == "Error: uvloop needs an optional dependency: pip install 'packhorse[fast]'\n"
    assert "--json is for --check; for log lines as JSON use --log-format json." in unchecked.err


async def test_a_queue_that_the_app_does_not_name_is_warned_of(folder: Shell):
    worker = folder.start(
        "worker", "shop", "-q", "defualt,letters:x,letters:2", "--queue-concurrency", "leters:3,other:2"
    )

    text = await worker.until("is ready on")
    assert "WARNING The app has no queue 'defualt'; did you mean 'default'?" in text
    assert "WARNING The app has no queue 'letters:x'; did you mean 'letters'?" in text
    assert "'letters'; did" not in text
    assert (
        "WARNING --queue-concurrency names 'leters', which this worker does not serve; did you mean 'letters'?" in text
    )
    assert "WARNING --queue-concurrency names 'other', which this worker does not serve: it has no effect" in text


async def test_a_worker_without_a_task_is_warned_of(folder: Shell):
    folder.write("bare.py", "from packhorse import App\napp = App()\n")

    assert "WARNING The app has no task" in await folder.start("worker", "bare").until("is ready on")


async def test_a_child_process_imports_what_the_worker_was_given_before_its_tasks(folder: Shell):
    """As a site of Django does: the tasks cannot be imported before the module of the worker has prepared things."""
    folder.write("orders/__init__.py", "ready = False\n")
    folder.write("orders/tasks.py", ORDERS)
    folder.write("site_jobs.py", "import orders\norders.ready = True\nfrom orders.tasks import app\n")
    worker = folder.start("worker", "site_jobs:app", "--log-level", "debug")

    done = await folder.run("enqueue", "-A", "site_jobs", "ship", "--wait")

    assert (done.code, done.out) == (0, "true\n"), worker.text
