"""A folder with an app in it, for commands to be run in: on each of the three stores, or on a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.scene import Scene, seeded
from tests.cli.shell import SHOP, Shell
from tests.conftest import kinds, namespace

STORES = ("sqlite", "redis", "postgres")


@pytest.fixture(params=[kind for kind in kinds() if kind in STORES])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shell(kind: str, url: str, tmp_path: Path) -> Iterator[Shell]:
    """A folder with the app ``shop:app``, whose store is an empty one of each kind; nothing runs on afterwards."""
    made = Shell(tmp_path, PACKHORSE_URL=url, PACKHORSE_NAMESPACE=namespace(kind))
    made.write("shop.py", SHOP)
    yield made
    made.end()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Shell]:
    """The same, with the file that apps use by default: for what does not depend on the store."""
    made = Shell(tmp_path)
    made.write("shop.py", SHOP)
    yield made
    made.end()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A store on a file with a job in every state, for all tests of a module that only look."""
    with seeded("sqlite", tmp_path_factory.mktemp("scene")) as made:
        yield made


@pytest.fixture(scope="module", params=[kind for kind in kinds() if kind in STORES])
def scenes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The same on each of the three stores."""
    with seeded(request.param, tmp_path_factory.mktemp("scene")) as made:
        yield made


@pytest.fixture
def own_scene(tmp_path: Path) -> Iterator[Scene]:
    """The same on a file, for one test that changes it."""
    with seeded("sqlite", tmp_path) as made:
        yield made


@pytest.fixture
def own_scenes(kind: str, tmp_path: Path) -> Iterator[Scene]:
    """The same on each of the three stores, for one test that changes it."""
    with seeded(kind, tmp_path) as made:
        yield made
