"""The app or store that a command works on, and the options that name it."""

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
from packhorse.cli import exit_codes
from packhorse.cli.command import ADDRESS, CliError
from packhorse.cli.discover import NoApp, find_app
from packhorse.config import FILE
from packhorse.stores import anchored, file_of


@dataclass(frozen=True, slots=True)
class CliTarget:
    """The named app and store; ``typed`` holds what was typed, which wins over the environment."""

    app: str | None = None
    url: str | None = field(default=None, repr=False)
    namespace: str | None = None
    typed: frozenset[str] = frozenset()

    def load(self) -> App:
        """Return the app with its tasks: the named one, or the first in the usual modules.

        A typed address or namespace must be that of the app; otherwise it is refused.
        """
        for name in self.typed & {"url", "namespace"}:
            os.environ[f"PACKHORSE_{name.upper()}"] = getattr(self, name)
        app = find_app(self.app)
        asked = {"url": None if self.url is None else anchored(self.url), "namespace": self.namespace}
        for name in self.typed & {"url", "namespace"}:
            if getattr(app, name) != asked[name]:
                raise CliError(
                    f"The app names its own {name}: leave out --{name}, or make the app without {name}=.",
                    exit_codes.USAGE,
                )
        return _remember_address(app)

    def open(self, *, migrate: bool = False) -> App:
        """Return an app to reach the store with; without tasks if only an address was given.

        If nothing was given it is the app in the usual modules, or the SQLite file that apps use by default. The layout
        of a store that was named by its address is changed only with ``migrate``. Use the app with ``async with``.
        """
        alone = self.app is None or ("url" in self.typed and "app" not in self.typed)
        if self.url is not None and not migrate and (alone or "url" in self.typed):
            _require_file(self.url)
        if self.url is not None and alone:
            return _remember_address(App(self.url, namespace=self.namespace, migrate=migrate))
        try:
            return self.load()
        except NoApp as error:
            if (Path.cwd() / FILE).is_file():
                return _remember_address(App(namespace=self.namespace, migrate=migrate))
            raise NoApp(f"{error.message}; or name only its store, with --url", error.exit_code) from None

    def open_with_tasks(self) -> App:
        """Like ``open`` for commands that need the tasks; it also makes the layout.

        Only a typed address means no app: for an address of the environment, the app is searched first.
        """
        if self.app is None and self.url is not None and "url" not in self.typed:
            with suppress(NoApp):
                return self.load()
        return self.open(migrate=True)


def with_target(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the app and the store to a command, as ``target``."""

    @click.option(
        "-A",
        "--app",
        envvar="PACKHORSE_APP",
        metavar="MODULE:APP",
        help="The app as module:name, for example shop:app.",
    )
    @click.option(
        "--url", envvar="PACKHORSE_URL", help="The address of the store: sqlite:///file.db, redis://…, postgresql://…"
    )
    @click.option(
        "--namespace", envvar="PACKHORSE_NAMESPACE", help="The namespace in the store; `packhorse` by default."
    )
    @wraps(function)
    def command(*args: Any, app: str | None, url: str | None, namespace: str | None, **options: Any) -> Any:
        source = click.get_current_context().get_parameter_source
        typed = frozenset(name for name in ("app", "url", "namespace") if source(name) is ParameterSource.COMMANDLINE)
        return function(*args, target=CliTarget(app, url, namespace, typed), **options)

    return command


def _require_file(url: str) -> None:
    """Refuse a SQLite file that does not exist: a command that only reads must not create it."""
    file = file_of(url)
    if file is not None and not file.is_file():
        raise CliError(f"There is no file {file}: check --url, or `packhorse migrate up` creates it.", exit_codes.STORE)


def _remember_address(app: App) -> App:
    """Keep the address of the store for error messages."""
    click.get_current_context().meta[ADDRESS] = app.url
    return app
