"""What tests of alerts share: targets that keep what they get, and time that passes as a living worker sees it."""

from collections.abc import Sequence

from packhorse import Alert, App
from packhorse.alerts.targets import DeliveryAnswer
from packhorse.dead_letters.reader import DeathReader
from packhorse.engine.worker import Settings
from packhorse.errors import DeliveryFailed
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Dead
from packhorse.model.reason import DeadReason
from packhorse.schedules.failure_events import failed
from packhorse.stores.contract import Store
from packhorse.system_queue import SYSTEM_QUEUE
from packhorse.testing import TurnedClock, run_until_idle
from tests.factories import BROKEN, SECOND, ask

STEP = 5 * SECOND


class Inbox:
    """A target that keeps what it gets; while it is down it takes nothing."""

    def __init__(self, name: str = "inbox") -> None:
        self.name, self.alerts, self.ids, self.refused, self.down = name, [], [], 0, False

    async def send(self, delivery):
        if self.down:
            self.refused += 1
            raise DeliveryFailed("it is down", status=500)
        self.alerts.append(delivery.alert)
        self.ids.append(delivery.id)
        return DeliveryAnswer("thanks", 200)

    @property
    def seen(self) -> list[tuple[str, str]]:
        """The rules and phases of what it got, in order."""
        return [(alert.rule, alert.phase) for alert in self.alerts]

    @property
    def last(self) -> Alert:
        return self.alerts[-1]


async def deliver(app: App) -> None:
    """Run what is ready in the system queue."""
    settings = Settings(queues={SYSTEM_QUEUE: 1})
    await run_until_idle(await app.store(), app.system.registry, settings, clock=app._clock, telemetry=app.telemetry)


async def look(app: App) -> None:
    """Read deaths, evaluate what is due, and deliver, as a worker does all the time."""
    store = await app.store()
    reader = DeathReader(store, tuple(app.dead_letters._consumers.values()))
    while await reader.look():
        continue
    await app.alerts.evaluate()
    await deliver(app)


async def fire(app: App, clock: TurnedClock) -> None:
    """Let one job be ready in the queue email, and look."""
    await app.alerts.declare()
    await fill(app, 1)
    clock.turn(SECOND)
    await look(app)


async def pass_time(app: App, clock: TurnedClock, duration: int, step: int = STEP) -> None:
    """Let time pass in steps, with a look after each."""
    for _ in range(max(1, duration // step)):
        clock.turn(min(step, duration))
        await look(app)


async def fill(app: App, count: int, queue: str = "email", task: str = "send") -> None:
    """Enqueue so many jobs of a task that this app does not have."""
    for begin in range(0, count, 500):
        calls = [app.queue(queue).call(task, {}) for _ in range(min(500, count - begin))]
        await app.enqueue(*calls)


async def take_away(app: App, count: int, queue: str = "email") -> None:
    """Remove so many ready jobs of a queue."""
    store = await app.store()
    jobs = [job async for job in app.jobs(queue=queue, state="ready")]
    await store.jobs.drop([app.client.job_id(job.id) for job in jobs[:count]])


async def kill(store: Store, count: int, queue: str = "email", outcome: Dead | None = None) -> None:
    """Let so many ready jobs die, some at a time, as workers settle them."""
    while count > 0:
        leases = (await store.jobs.exchange((), ask(min(count, 100), queue))).leases
        assert leases
        dead: Sequence[Settlement] = [
            Settlement(lease, outcome or Dead(DeadReason.EXHAUSTED, BROKEN), failed(lease.id, lease.headers))
            for lease in leases
        ]
        await store.jobs.exchange(dead)
        count -= len(leases)
