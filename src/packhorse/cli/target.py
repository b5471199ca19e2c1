"""What a command works on: an app, or only a store; and the options that say which."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from packhorse.app import App
from packhorse.cli import exits
from packhorse.cli.discover import find_app
from packhorse.cli.frame import ADDRESS, Trouble
from packhorse.config import FILE


@dataclass(frozen=True, slots=True)
class Target:
    """What was said about the app and the store."""

    app: str | None = None
    url: str | None = None
    namespace: str | None = None

    def load(self) -> App:
        """The app with its tasks: the one that was said, or the one found in the usual places."""
        return _noted(find_app(self.app))

    def open(self, *, migrate: bool = False) -> App:
        """An app to reach the store with; it knows no tasks if only an address was said. Use it with ``async with``.

        Without a word it is the app in the usual places, or the SQLite file that apps use by default. The layout of a
        store that was named by its address is left alone, unless it is asked for.
        """
        if self.app is None and self.url is not None:
            if not migrate:
                _must_be_there(self.url)
            return _noted(App(self.url, namespace=self.namespace, migrate=migrate))
        if self.app is None and (Path.cwd() / FILE).is_file():
            try:
                return self.load()
            except click.ClickException:
                return _noted(App(namespace=self.namespace, migrate=migrate))
        return self.load()


def with_target(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say what it works on, as ``target``."""

    @click.option("-A", "--app", envvar="PACKHORSE_APP", metavar="MODULE:APP", help="The app, as it is imported.")
    @click.option("--url", envvar="PACKHORSE_URL", help="The address of the store, instead of an app.")
    @click.option("--namespace", envvar="PACKHORSE_NAMESPACE", help="The namespace in that store.")
    @wraps(function)
    def command(*args: Any, app: str | None, url: str | None, namespace: str | None, **options: Any) -> Any:
        return function(*args, target=_target(click.get_current_context(), app, url, namespace), **options)

    return command


def _target(ctx: click.Context, app: str | None, url: str | None, namespace: str | None) -> Target:
    """What is typed wins over what the environment says."""
    typed = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if {"app", "url"} <= typed:
        raise click.UsageError("Say --app or --url, not both: an app knows the address of its store.")
    target = Target(None, url, namespace) if "url" in typed else Target(app, url, namespace)
    if "namespace" in typed and (target.app or not target.url):
        raise click.UsageError("Say --namespace with --url: an app knows its namespace.")
    return target


def _must_be_there(url: str) -> None:
    """A look at a SQLite file must not make it."""
    if not url.startswith("sqlite:"):
        return
    from packhorse.stores.sqlite.store import path_of

    file = path_of(url)
    if file != ":memory:" and not Path(file).is_file():
        raise Trouble(f"There is no file {file}: check --url, or `packhorse migrate up` makes it.", exits.STORE)


def _noted(app: App) -> App:
    """Remember the address for messages."""
    click.get_current_context().meta[ADDRESS] = app.url
    return app
