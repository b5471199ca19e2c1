"""Lines of trials that nobody made, for tests of what comes of them."""

from dataclasses import asdict
from typing import Any

from benchmarks.contest import ALL, LIMITS, Contestant
from benchmarks.exercises import BASE, MORE, ONE, OPTIONS, Exercise
from benchmarks.trial import spread


def side(name: str, store: str) -> Contestant:
    return next(side for side in (*ALL, *LIMITS) if (side.name, side.store) == (name, store))


def line(name: str, store: str, rate: float, *, number: int = 1, exercise: Exercise = BASE, **metrics: Any) -> dict:
    described = metrics or {
        "python": "CPython",
        "process": {"value": rate},
        "bulk": {"value": rate * 2},
        **spread([1 / rate]),
    }
    about = {"plan": "full, 5 s", "exercise": exercise.name, "round": number, "load": 1.0}
    return {**about, "side": asdict(side(name, store)), "metrics": described}


def exercise(name: str) -> Exercise:
    return next(exercise for exercise in (BASE, ONE, *MORE, *OPTIONS) if exercise.name == name)
