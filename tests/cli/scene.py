"""A store with a job in every state, for commands to read and to change."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packhorse.model.clock import SYSTEM
from packhorse.model.ids import chosen_id, id_text, new_id
from packhorse.model.job import failure
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.model.worker import WorkerInfo
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from tests.cli.shell import PATIENCE, Ended, Shell
from tests.conftest import address, namespace, wipe
from tests.factories import DEAD, HOUR, WORKER, Again, Dead, Done, Wait, end, new, put_in, take

ROOT = Path(__file__).parents[2]
REFUSED = Dead(
    DeadReason.EXHAUSTED, failure("ConnectionError", "the till is closed", "Traceback …\nConnectionError: closed\n")
)
BROKE = failure("Broken", "it broke")


class Scene(Shell):
    """A shell beside a seeded store; ``ids`` are its jobs by name."""

    ids: dict[str, str]
    url: str
    namespace: str

    async def each(self, *lines: str) -> list[Ended]:
        """Run commands to their ends, one after the other, in one process."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.cli.many",
            cwd=self.folder,
            env={**self.environment, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(2 * PATIENCE):
            out, _ = await process.communicate(json.dumps(lines).encode())
        assert process.returncode == 0
        return [Ended(*ended) for ended in json.loads(out)]

    def open(self) -> Store:
        """The store, not open yet."""
        return open_store(self.url, namespace=self.namespace)


@contextmanager
def seeded(kind: str, folder: Path) -> Iterator[Scene]:
    """A fresh scene on a store of a kind."""
    url, name = address(kind, folder), namespace(kind)
    scene = Scene(folder, PACKHORSE_URL=url, PACKHORSE_NAMESPACE=name)
    scene.url, scene.namespace = url, name

    async def prepare() -> None:
        await wipe(kind, url, name)
        store = scene.open()
        await store.migrate()
        await store.open()
        scene.ids = {word: id_text(job) for word, job in (await seed(store, name)).items()}
        await store.close()

    asyncio.run(prepare())
    yield scene
    scene.end()


async def seed(store: Store, name: str) -> dict[str, bytes]:
    """A job in every state, and a worker that lives."""
    worker = WorkerInfo(
        id=WORKER, name="ox", host="stable", pid=os.getpid(), slots=10, release="7", queues=("default", "email"),
        tasks=("mail", "pay"), started=SYSTEM.now() - HOUR,
    )  # fmt: skip
    await store.fleet.beat(worker, HOUR)
    ids: dict[str, bytes] = {}

    async def run(word: str, outcome: object, task: str = "mail", **options: object) -> None:
        [ids[word]] = await put_in(store, new(task, queue="email", **options))
        [lease] = await take(store, 1, "email")
        await end(store, lease, outcome)  # type: ignore[arg-type]

    await run("done", Done(b'{"sent":true}'), payload=b'{"to":"ann"}')
    await run("dead", DEAD, tenant="acme")
    await run("dead too", DEAD)
    await run("unpaid", REFUSED, "pay", headers=b'{"order":"o-1"}')
    await run("stranger", Wait(WaitReason.UNROUTABLE), "mial")
    await run("retried", Again(HOUR, BROKE))
    for word, job in {
        "scheduled": new("mail", queue="email", delay=HOUR),
        "ready": new("mail", queue="email", payload=b'{"to":"bob"}'),
        "first": new("pay", lane="till"),
        "behind": new("pay", lane="till"),
        "chosen": new("mail", queue="email", id=chosen_id(name, "llm:42"), payload=b'{"secret":1}'),
        "paused": new("mail", queue="held"),
        "alone": new("mail", queue="nobody's"),
        "cancelled": new("mail", queue="email", id=new_id()),
    }.items():
        [ids[word]] = await put_in(store, job)
    await store.jobs.cancel([ids["cancelled"]])
    await store.queues.pause(["held"])
    [lease] = await take(store, 1)
    await store.jobs.note([(lease, b'{"percent":50,"message":"half"}')])
    return ids
