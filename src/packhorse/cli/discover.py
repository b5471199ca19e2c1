"""Finding the app that a command is about, by what was said or by looking around."""

import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from packhorse.app import App
from packhorse.cli import exits
from packhorse.cli.frame import Trouble

NAMES = ("app", "tasks", "jobs", "main", "worker")  # in this order
SAY = "name it with -A module:app, or in PACKHORSE_APP"
FRAMES = 5


class NoApp(Trouble):
    """Nothing was said, and there is no app in the usual places."""


def find_app(said: str | None) -> App:
    """The app of ``module:app``, the only one in ``module``, or without a word the first found in usual places."""
    for folder in (Path.cwd() / "src", Path.cwd()):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    if said is None:
        return _look_around()
    name, colon, attribute = said.partition(":")
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise Trouble(f"{name!r} is a path: say it as it is imported, {dotted}:{attribute or 'app'}", exits.APP)
    module = _imported(name)
    return _found(module, attribute if colon else _only(module))


def _found(module: ModuleType, attribute: str) -> App:
    """The app of this name, which remembers it: child processes find it there too."""
    app = _attribute(module, attribute)
    app.found_at = f"{module.__name__}:{attribute}"
    return app


def _attribute(module: ModuleType, attribute: str) -> App:
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise Trouble(f"{module.__name__} has no {attribute!r}: {_held(module)}", exits.APP)
        found = getattr(found, part)
    if isinstance(found, App):
        return found
    kind = type(found).__name__
    raise Trouble(f"{module.__name__}:{attribute} is not an App, its type is {kind}: {_held(module)}", exits.APP)


def _only(module: ModuleType) -> str:
    """The name of the only app in a module."""
    apps = _apps(module)
    if len(apps) == 1:
        return next(iter(apps))
    many = f"{module.__name__} holds {len(apps)} apps" if apps else f"{module.__name__} holds no App"
    raise Trouble(f"{many}: {_held(module)}", exits.APP)


def _held(module: ModuleType) -> str:
    apps = _apps(module)
    if not apps:
        return "make one there, app = App(), or name the module that has it"
    return "say " + " or ".join(f"{module.__name__}:{name}" for name in apps)


def _apps(module: ModuleType) -> dict[str, App]:
    """Its apps by name, each once."""
    found: dict[int, tuple[str, App]] = {}
    for name, value in vars(module).items():
        if isinstance(value, App):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def _look_around() -> App:
    looked = []
    for name, file in _candidates(Path.cwd()):
        if "packhorse" not in file.read_text(errors="replace"):  # importing runs code: only what may hold an app
            continue
        looked.append(name)
        module = _imported(name)
        if _apps(module):
            return _found(module, _only(module))
    seen = f"none in {', '.join(looked)}" if looked else "no module that imports packhorse in the usual places"
    raise NoApp(f"No app found ({seen}): {SAY}", exits.APP)


def _candidates(here: Path) -> Iterator[tuple[str, Path]]:
    """Modules where apps are usually kept, with their files: of the folder, of its package, of packages in src."""
    packages = [here / here.name.replace("-", "_")]
    packages += sorted(folder for folder in (here / "src").glob("*") if folder.is_dir())
    for folder in (here, here / "src"):
        yield from _modules(folder, "")
    for package in packages:
        if (package / "__init__.py").is_file():
            yield package.name, package / "__init__.py"
        yield from _modules(package, f"{package.name}.")


def _modules(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for name in NAMES:
        for file in (folder / f"{name}.py", folder / name / "__init__.py"):
            if file.is_file():
                yield prefix + name, file


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            advice = f"check the name, or go to the folder where `import {name}` works"
            raise Trouble(f"There is no module {name!r} in {Path.cwd()}: {advice}", exits.APP) from error
        raise _raised(name, error) from error
    except (Exception, SystemExit) as error:
        raise _raised(name, error) from error


def _raised(name: str, error: BaseException) -> Trouble:
    """What the user's own code raised, with the last of the user's own frames."""
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list(
        [frame for frame in told.stack if "importlib" not in frame.filename and frame.filename != __file__][-FRAMES:]
    )
    told.__cause__ = told.__context__ = None
    lines = "".join(told.format()).rstrip()
    return Trouble(f"Importing {name!r} raised {type(error).__name__}: fix it there.\n\n{lines}", exits.APP)
