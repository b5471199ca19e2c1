"""Find the app of a command: by its name, or in the usual modules."""

import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from packhorse.app import App
from packhorse.cli import exit_codes
from packhorse.cli.command import CliError

MODULE_NAMES = ("app", "tasks", "jobs", "main", "worker")  # in this order
HOW_TO_NAME = "name it with -A module:app, or in PACKHORSE_APP"
TRACEBACK_FRAMES = 5


class NoApp(CliError):
    """No app was named, and the usual modules hold none."""


def find_app(given: str | None) -> App:
    """Return the app of ``module:app``, the only app of ``module``, or for None that of a usual module."""
    for folder in (Path.cwd() / "src", Path.cwd()):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    if given is None:
        return _search_usual_modules()
    name, colon, attribute = given.partition(":")
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise CliError(f"{name!r} is a path: write it as it is imported, {dotted}:{attribute or 'app'}", exit_codes.APP)
    module = _imported(name)
    return _found(module, attribute if colon else _only(module))


def _found(module: ModuleType, attribute: str) -> App:
    """Return the app of this name and note the name in it, so that child processes find it too."""
    app = _attribute(module, attribute)
    app.found_at = f"{module.__name__}:{attribute}"
    return app


def _attribute(module: ModuleType, attribute: str) -> App:
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise CliError(f"{module.__name__} has no {attribute!r}: {_held(module)}", exit_codes.APP)
        found = getattr(found, part)
    if isinstance(found, App):
        return found
    kind = type(found).__name__
    raise CliError(f"{module.__name__}:{attribute} is not an App, its type is {kind}: {_held(module)}", exit_codes.APP)


def _only(module: ModuleType) -> str:
    """Return the name of the only app in a module."""
    apps = _apps(module)
    if len(apps) == 1:
        return next(iter(apps))
    many = f"{module.__name__} holds {len(apps)} apps" if apps else f"{module.__name__} holds no App"
    raise CliError(f"{many}: {_held(module)}", exit_codes.APP)


def _held(module: ModuleType) -> str:
    apps = _apps(module)
    if not apps:
        return "make one there, app = App(), or name the module that has it"
    return "use " + " or ".join(f"{module.__name__}:{name}" for name in apps)


def _apps(module: ModuleType) -> dict[str, App]:
    """Return the apps of a module by name, each once."""
    found: dict[int, tuple[str, App]] = {}
    for name, value in vars(module).items():
        if isinstance(value, App):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def _search_usual_modules() -> App:
    searched = []
    for name, file in _candidates(Path.cwd()):
        if "packhorse" not in file.read_text(
            errors="replace"
        ):  # importing runs code: only import files that may hold an app
            continue
        searched.append(name)
        module = _imported(name)
        if _apps(module):
            return _found(module, _only(module))
    seen = f"none in {', '.join(searched)}" if searched else "no module that imports packhorse in the usual places"
    raise NoApp(f"No app found ({seen}): {HOW_TO_NAME}", exit_codes.APP)


def _candidates(here: Path) -> Iterator[tuple[str, Path]]:
    """Yield the usual modules with their files: of the folder, of its package, of packages in src."""
    packages = [here / here.name.replace("-", "_")]
    packages += sorted(folder for folder in (here / "src").glob("*") if folder.is_dir())
    for folder in (here, here / "src"):
        yield from _modules(folder, "")
    for package in packages:
        if (package / "__init__.py").is_file():
            yield package.name, package / "__init__.py"
        yield from _modules(package, f"{package.name}.")


def _modules(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for name in MODULE_NAMES:
        for file in (folder / f"{name}.py", folder / name / "__init__.py"):
            if file.is_file():
                yield prefix + name, file


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            advice = f"check the name, or go to the folder where `import {name}` works"
            raise CliError(f"There is no module {name!r} in {Path.cwd()}: {advice}", exit_codes.APP) from error
        raise _raised(name, error) from error
    except (Exception, SystemExit) as error:
        raise _raised(name, error) from error


def _raised(name: str, error: BaseException) -> CliError:
    """Describe what importing the user's code raised, with the last frames of that code."""
    report = traceback.TracebackException.from_exception(error)
    report.stack = traceback.StackSummary.from_list(
        [frame for frame in report.stack if "importlib" not in frame.filename and frame.filename != __file__][
            -TRACEBACK_FRAMES:
        ]
    )
    report.__cause__ = report.__context__ = None
    lines = "".join(report.format()).rstrip()
    return CliError(f"Importing {name!r} raised {type(error).__name__}: fix it there.\n\n{lines}", exit_codes.APP)
