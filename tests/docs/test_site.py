"""The site is built without a warning, is whole, and needs nothing from elsewhere."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

import packhorse
from docs.gen import command_line
from packhorse import errors
from tests.docs.tables import DOCS, ROOT

pytestmark = pytest.mark.xdist_group("site")  # built once
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src"}


class Resources(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in LOADED:
            self.found.append(given.get(LOADED[tag]) or "")
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.found.append(given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` does."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr + built.stdout
    return folder


def test_every_page_is_there_in_the_list_and_as_plain_text(site: Path):
    listed = set(re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text()))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    pages |= {"index.md", "contributing.md", "changelog.md"}

    assert listed == pages
    assert [page for page in pages if not (site / page).is_file()] == []
    assert [page for page in pages if not (site / page).with_suffix(".html").is_file()] == []


def test_nothing_is_loaded_from_elsewhere(site: Path):
    for page in site.rglob("*.html"):
        resources = Resources()
        resources.feed(page.read_text())
        assert [link for link in resources.found if re.match(r"(https?:)?//", link)] == [], page.name


def test_every_command_and_every_option_is_reported(site: Path):
    text = (site / "reference" / "command-line.md").read_text()

    for names, command in command_line.commands():
        assert f"## {' '.join(names)}\n" in text
        assert command.help
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden and not option.is_eager:
                assert option.opts[-1] in text


def test_every_picture_is_on_a_page():
    pages = "".join(path.read_text() for path in (ROOT / "README.md", *DOCS.rglob("*.md")))

    assert [picture.name for picture in (DOCS / "images").iterdir() if f"images/{picture.name})" not in pages] == []


def test_every_decision_is_in_the_list(site: Path):
    text = (site / "adr" / "index.md").read_text()

    assert [path.name for path in (DOCS / "adr").glob("0*.md") if f"({path.name})" not in text] == []


def test_every_public_name_is_in_the_reference_with_what_its_docstring_says(site: Path):
    names = [name for name in packhorse.__all__ if not hasattr(errors, name)]
    api = (site / "reference" / "api.html").read_text()

    assert [name for name in names if f'id="packhorse.{name}"' not in api] == []
    fields = [
        f"{name}.{field}" for name in names for field in getattr(getattr(packhorse, name), "__struct_fields__", ())
    ]
    assert [field for field in fields if f'id="packhorse.{field}"' not in api] == []
    assert 'id="packhorse.Message.job"' in api
    assert 'id="packhorse.App.worker"' in api
    assert "A worker for these queues" in api
    assert 'id="packhorse.errors.JobFailed"' in (site / "reference" / "errors.html").read_text()


def test_links_to_sources_lead_to_their_text(site: Path):
    shown = site / "source" / "src" / "packhorse" / "engine" / "worker.py.txt"

    assert shown.read_text() == (ROOT / "src/packhorse/engine/worker.py").read_text()
