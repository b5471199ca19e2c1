"""What a command works on: an app, or only a store; and the options that say which."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from packhorse.app import App
from packhorse.cli import exits
from packhorse.cli.discover import NoApp, find_app
from packhorse.cli.frame import ADDRESS, Trouble
from packhorse.config import FILE
from packhorse.stores import file_of


@dataclass(frozen=True, slots=True)
class Target:
    """What was said about the app and the store, and which of that was typed: it wins over the environment."""

    app: str | None = None
    url: str | None = field(default=None, repr=False)
    namespace: str | None = None
    typed: frozenset[str] = frozenset()

    def load(self) -> App:
        """The app with its tasks: the one that was said, or the one found in the usual places.

        An address or a namespace that was typed is meant for it, and refused if it has another.
        """
        for name in self.typed & {"url", "namespace"}:
            os.environ[f"PACKHORSE_{name.upper()}"] = getattr(self, name)
        app = find_app(self.app)
        for name in self.typed & {"url", "namespace"}:
            if getattr(app, name) != getattr(self, name):
                raise Trouble(f"The app names its own {name}: leave --{name} away, or let App() take it.", exits.USAGE)
        return _noted(app)

    def open(self, *, migrate: bool = False) -> App:
        """An app to reach the store with; it knows no tasks if only an address was said. Use it with ``async with``.

        Without a word it is the app in the usual places, or the SQLite file that apps use by default. The layout of a
        store that was named by its address is left alone, unless it is asked for.
        """
        alone = self.app is None or ("url" in self.typed and "app" not in self.typed)
        if self.url is not None and not migrate and (alone or "url" in self.typed):
            _must_be_there(self.url)
        if self.url is not None and alone:
            return _noted(App(self.url, namespace=self.namespace, migrate=migrate))
        try:
            return self.load()
        except NoApp as error:
            if (Path.cwd() / FILE).is_file():
                return _noted(App(namespace=self.namespace, migrate=migrate))
            raise NoApp(f"{error.message}; or name only its store, with --url", error.exit_code) from None

    def open_with_tasks(self) -> App:
        """The same for commands to which tasks matter, with the layout made: only a typed address means no app.

        One from the environment is also the app's, which is looked for first.
        """
        if self.app is None and self.url is not None and "url" not in self.typed:
            with suppress(NoApp):
                return self.load()
        return self.open(migrate=True)


def with_target(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say what it works on, as ``target``."""

    @click.option(
        "-A", "--app", envvar="PACKHORSE_APP", metavar="MODULE:APP", help="The app, as it is imported: shop:app."
    )
    @click.option(
        "--url", envvar="PACKHORSE_URL", help="The address of the store: sqlite:///file.db, redis://…, postgresql://…"
    )
    @click.option("--namespace", envvar="PACKHORSE_NAMESPACE", help="The namespace in that store, if not `packhorse`.")
    @wraps(function)
    def command(*args: Any, app: str | None, url: str | None, namespace: str | None, **options: Any) -> Any:
        said, typed = {"app": app, "url": url, "namespace": namespace}, click.get_current_context().get_parameter_source
        named = frozenset(name for name in said if typed(name) is ParameterSource.COMMANDLINE)
        return function(*args, target=Target(app, url, namespace, named), **options)

    return command


def _must_be_there(url: str) -> None:
    """A look at a SQLite file must not make it."""
    file = file_of(url)
    if file is not None and not file.is_file():
        raise Trouble(f"There is no file {file}: check --url, or `packhorse migrate up` makes it.", exits.STORE)


def _noted(app: App) -> App:
    """Remember the address for messages."""
    click.get_current_context().meta[ADDRESS] = app.url
    return app
