"""Migrations: forward only, in order, each with a checksum that must not change once it was taken.

A step whose header says ``-- compatible: yes`` leaves a layout that older releases can work with, such as one with a
new table or with new functions beside the old ones. That is recorded with the step, since an older release does not
have its text.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from packhorse.errors import SchemaMismatch
from packhorse.model.layout import MigrationState, MigrationStep
from packhorse.stores.sql.statements import texts

_ADVICE = "run `packhorse migrate up`, or call `await store.migrate()`"
_HEADER = re.compile(r"^-- compatible: (yes|no)$", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True):
    """One step of the layout; releases older than a compatible step work with the layout it leaves."""

    name: str
    sql: str
    checksum: str
    compatible: bool = False


class TakenStep(NamedTuple):
    """What the store records of a step that was taken."""

    checksum: str
    compatible: bool = False


def migrations(package: str, **words: str) -> tuple[Migration, ...]:
    """Read the steps a store ships, in order."""
    filled = texts(package, "migrations", **words)
    return tuple(migration(name, text, filled[name]) for name, text in texts(package, "migrations").items())


def migration(name: str, text: str, filled: str) -> Migration:
    """Make a step from the text of its file; the checksum is that of the text before words are filled in."""
    header = _HEADER.search(text)
    compatible = header is not None and header[1] == "yes"
    return Migration(name, filled, hashlib.sha256(text.encode()).hexdigest()[:16], compatible)


def newer(known: tuple[Migration, ...], taken: Mapping[str, TakenStep]) -> list[str]:
    """Answer the steps that only a newer release knows."""
    return sorted(set(taken) - {step.name for step in known})


def pending(known: tuple[Migration, ...], taken: Mapping[str, TakenStep]) -> tuple[Migration, ...]:
    """Answer the steps still to take; refuse a layout that this release cannot work with."""
    if breaking := [name for name in newer(known, taken) if not taken[name].compatible]:
        raise SchemaMismatch(
            f"The layout has the step {breaking[-1]}, which this release does not know and cannot use: "
            "upgrade Packhorse"
        )
    for step in known:
        if step.name in taken and taken[step.name].checksum != step.checksum:
            raise SchemaMismatch(
                f"The step {step.name} was changed after it was taken: install the release that made this layout"
            )
    return tuple(step for step in known if step.name not in taken)


def status(
    known: tuple[Migration, ...],
    taken: Mapping[str, TakenStep],
    script: Callable[[Migration], str] = lambda step: step.sql,
) -> list[MigrationStep]:
    """Answer every step and its state, those of a newer release last; ``script`` is all that taking a step runs."""
    steps = [MigrationStep(step.name, script(step), _state(step, taken), step.compatible) for step in known]
    others = newer(known, taken)
    return [*steps, *(MigrationStep(name, "", MigrationState.UNKNOWN, taken[name].compatible) for name in others)]


def _state(step: Migration, taken: Mapping[str, TakenStep]) -> MigrationState:
    if step.name not in taken:
        return MigrationState.PENDING
    return MigrationState.TAKEN if taken[step.name].checksum == step.checksum else MigrationState.CHANGED


def check(known: tuple[Migration, ...], taken: Mapping[str, TakenStep]) -> None:
    """Refuse a layout with steps missing."""
    if missing := pending(known, taken):
        what = "is missing" if not taken else f"lacks the step {missing[0].name}"
        raise SchemaMismatch(f"The layout of the store {what}: {_ADVICE}")
