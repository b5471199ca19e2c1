"""Every store follows the rules of the model, whatever is done to it in whatever order."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import kinds
from tests.properties.ground import Ground
from tests.properties.machine import Machine

EXAMPLES = {"memory": 100, "sqlite": 40, "redis": 50, "valkey": 50, "postgres": 30}
STEPS = 40
MORE = "PACKHORSE_PROPERTY_EXAMPLES"  # so many examples in memory, and in proportion elsewhere
SEED = "PACKHORSE_PROPERTY_SEED"  # another number explores other histories; without it every run is the same


@pytest.mark.parametrize("kind", kinds())
def test_a_store_follows_the_rules(kind: str, tmp_path: Path) -> None:
    number = int(os.environ.get(SEED, "1"))
    usual = EXAMPLES["memory"] * (20 if os.environ.get("PACKHORSE_TEST_LONG") else 1)
    more = int(os.environ.get(MORE, usual)) / EXAMPLES["memory"]
    ground = Ground(kind, tmp_path)

    factory: Any = seed(number)(lambda: Machine(ground))
    try:
        run_state_machine_as_test(factory, settings=chosen(max(1, round(EXAMPLES[kind] * more))))
    except BaseException as error:
        error.add_note(f"The same again: {SEED}={number} {MORE}={round(more * EXAMPLES['memory'])}")
        raise
    finally:
        ground.leave()


def chosen(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        print_blob=True,
        database=None,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much),
    )
