"""A folder with an app in it, for commands to be run in: on each of the three stores, or on a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
