"""What is measured: the metrics as values, and how each is read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A thing that is measured. ``less`` says that less is better; ``scale`` makes of a value what people read."""

    title: str
    unit: str = "jobs/s"
    less: bool = False
    scale: float = 1
    digits: int = 0

    def shown(self, value: float) -> str:
        """A value as people read it."""
        return f"{value * self.scale:,.{self.digits}f}"

    def ratio(self, ours: float, other: float) -> float:
        """How far ahead ours is of another value; above 1 is ahead, whichever way the metric counts."""
        if self.less:
            return other / ours if ours else float("inf")
        return ours / other if other else float("inf")


def _latency(title: str) -> Metric:
    return Metric(title, "ms", less=True, scale=1000, digits=2)


METRICS = {
    "process": Metric("process, 1 worker"),
    "two": Metric("process, 2 workers"),
    "gain": Metric("process, 2 workers over 1", "x", digits=2),
    "thread": Metric("process, sync functions in threads"),
    "io": Metric("process, handlers that wait for 5 ms, 100 at once"),
    "cpu": Metric("process, handlers that compute for about 1 ms, in 2 processes"),
    "one": Metric("enqueue one by one"),
    "together": Metric("enqueue, 1,000 single calls at once"),
    "bulk": Metric("enqueue in bulk"),
    "p50": _latency("latency p50 at 50 jobs/s"),
    "p99": _latency("latency p99 at 50 jobs/s"),
    "max": _latency("latency max at 50 jobs/s"),
    "half-p50": _latency("latency p50 at half the maximum rate"),
    "half-p99": _latency("latency p99 at half the maximum rate"),
    "half-max": _latency("latency max at half the maximum rate"),
    "rss": Metric("memory of a worker, at most", "MB", less=True, scale=1e-6),
    "idle": Metric("processor time of an idle worker", "% of a core", less=True, scale=100, digits=2),
    "queued": Metric("bytes a queued job", "bytes", less=True),
    "finished": Metric("bytes a finished job", "bytes", less=True),
    "option": Metric("options: process, 1 worker"),
    "option-bulk": Metric("options: enqueue in bulk"),
}
OPTIONS = ("option", "option-bulk")  # each side is held against itself without an option
