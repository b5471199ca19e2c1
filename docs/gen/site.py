"""Hooks of mkdocs: generated pages, links that leave the docs, plain text beside the pages."""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # mkdocs runs a hook by its path

from docs.gen import command_line, decisions, names  # noqa: E402

# Pages outside of the folder docs.
OUTSIDE = {
    "index.md": ROOT / "README.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "changelog.md": ROOT / "CHANGELOG.md",
}
# Pages of which a part is generated.
MADE = {
    "adr/index.md": decisions.table,
    "reference/api.md": names.rest,
    "reference/command-line.md": command_line.sections,
}
TEXTS: dict[str, str] = {}  # of one build
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace ``folder/*`` in the navigation by the pages of the folder."""
    named = set(_leaves(config.nav or []))
    config.nav = list(_spread(config.nav or [], named))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of the docs, and the sources that pages link to."""
    for uri, path in OUTSIDE.items():
        files.append(File.generated(config, uri, content=path.read_text()))
    linked = {source for file in files.documentation_pages() for source in _sources(file)}
    for source in sorted(linked):
        files.append(File.generated(config, _shown(source), content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Append generated parts, and turn links of the repository into links of the site."""
    uri = page.file.src_uri
    whole = f"{markdown}\n{MADE[uri]()}" if uri in MADE else markdown
    TEXTS[uri] = LINK.sub(lambda link: _moved(link, uri), whole)
    return TEXTS[uri]


def on_post_build(config: MkDocsConfig) -> None:
    """Write the text of every page beside it, and a list of all pages for programs."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for uri in _leaves(config.nav or []):
        (site / uri).write_text(TEXTS[uri])
        lines.append(f"- [{title(TEXTS[uri])}]({uri})")
    (site / "llms.txt").write_text("\n".join(lines) + "\n")


def title(text: str) -> str:
    """Return the first heading of a page."""
    return next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))


def _leaves(entries: Iterable[Any]) -> Iterator[str]:
    for entry in entries:
        match entry:
            case str():
                yield entry
            case dict():
                for value in entry.values():
                    yield from _leaves(value if isinstance(value, list) else [value])


def _spread(entries: Iterable[Any], named: set[str]) -> Iterator[Any]:
    for entry in entries:
        match entry:
            case str() if entry.endswith("/*"):
                folder = ROOT / "docs" / entry.removesuffix("/*")
                pages = (path.relative_to(ROOT / "docs").as_posix() for path in sorted(folder.glob("*.md")))
                yield from (uri for uri in pages if uri not in named)
            case dict():
                [(name, value)] = entry.items()
                yield {name: list(_spread(value, named)) if isinstance(value, list) else value}
            case _:
                yield entry


def _target(path: str, uri: str) -> PurePosixPath:
    """Return the target of a link, from the root of the repository."""
    home = "" if uri in OUTSIDE else f"docs/{PurePosixPath(uri).parent}"
    return PurePosixPath(normpath(f"{home}/{path}".lstrip("/")))


def _sources(file: File) -> Iterator[str]:
    for link in LINK.finditer(file.content_string):
        target = _target(link["path"], file.src_uri)
        if target.parts[0] != "docs" and target.as_posix() not in _PLACES and (ROOT / target).is_file():
            yield target.as_posix()


def _shown(source: str) -> str:
    """Return the path of a source on the site: as text, because browsers download other types."""
    return f"source/{source}.txt"


_PLACES = {path.relative_to(ROOT).as_posix(): uri for uri, path in OUTSIDE.items()}


def _moved(link: re.Match[str], uri: str) -> str:
    target = _target(link["path"], uri)
    anchor = link["anchor"] or ""
    if target.parts[0] == "docs":
        place = target.relative_to("docs").as_posix()
        place += "/index.md" if (ROOT / target).is_dir() else ""
    elif target.as_posix() in _PLACES:
        place = _PLACES[target.as_posix()]
    elif (ROOT / target).is_file():
        place = _shown(target.as_posix())
    else:
        return link[0]  # mkdocs reports that it leads nowhere
    return relpath(place, str(PurePosixPath(uri).parent)) + anchor
