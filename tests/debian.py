"""Programs from Debian's packages, unpacked without root into a folder that is kept for the next run."""

import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path


class NoPackage(Exception):
    """A package that cannot be had here."""


def unpacked(package: str, *needed: str, suite: str = "") -> Path:
    """The root of an unpacked package, with those it depends on whose names begin so, and theirs.

    ``suite`` is a release of Debian, if not the one that this machine has. Whoever is first
    makes the folder; it appears whole or not at all.
    """
    kept = Path(tempfile.gettempdir()) / f"packhorse-{package}{suite}-{os.getuid()}"
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(prefix="packhorse-deb-") as made:
        folder, root = Path(made), Path(made) / "root"
        root.mkdir(mode=0o755)
        wanted, done = {package}, set[str]()
        try:
            while fresh := wanted - done:
                done |= fresh
                for file in _download(folder, suite, *sorted(fresh)):
                    subprocess.run(["dpkg-deb", "-x", file, root], check=True)
                    depends = subprocess.run(
                        ["dpkg-deb", "-f", file, "Depends"], capture_output=True, check=True
                    ).stdout
                    named = re.findall(r"[a-z][\w.+-]+", depends.decode())
                    wanted |= {name for name in named if name.startswith(needed)}
        except (OSError, subprocess.CalledProcessError) as error:
            raise NoPackage(f"{package} cannot be unpacked from Debian's packages: {error}") from error
        with contextlib.suppress(OSError):
            root.rename(kept)
    return kept


def libraries(root: Path) -> dict[str, str]:
    """What the environment of an unpacked program must have."""
    return {"LD_LIBRARY_PATH": ":".join(str(folder) for folder in root.glob("usr/lib/*-linux-*"))}


def _mirror() -> str:
    """Where this machine gets its own packages; older releases lie beside them."""
    result = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, check=True)
    for mirror in result.stdout.decode().split():
        if mirror.rstrip("/").endswith("/debian"):
            return mirror
    raise OSError("this machine has no mirror of Debian")


def _download(folder: Path, suite: str, *packages: str) -> list[Path]:
    own = [f"-oDir::{place}={folder / name}" for place, name in (("State::lists", "lists"), ("Cache", "cache"))]
    if suite:
        (folder / "sources").write_text(f"deb {_mirror()} {suite} main\n")
        (folder / "status").touch()  # nothing is installed: what is here would be preferred
        own += [f"-oDir::Etc::sourcelist={folder / 'sources'}", "-oDir::Etc::sourceparts=-"]
        own.append(f"-oDir::State::status={folder / 'status'}")
    known = set(folder.glob("*.deb"))
    for options in [own] if suite else [[], own]:  # a machine may have no lists, or old ones
        if options and not (folder / "lists").exists():
            for name in ("lists/partial", "cache/archives/partial"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            subprocess.run(["apt-get", *options, "update"], capture_output=True, check=True)
        done = subprocess.run(
            ["apt-get", *options, "download", *packages], cwd=folder, capture_output=True, check=False
        )
        if done.returncode == 0:
            return sorted(set(folder.glob("*.deb")) - known)
    raise OSError(done.stderr.decode())
