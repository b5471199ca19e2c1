"""Which app declares a schedule: named by the place in code where the app is made."""

import sys
from pathlib import Path
from types import FrameType

Makers = tuple[tuple[str, str], ...]


def makers(frame: FrameType | None) -> Makers:
    """The modules and functions that are making an app, innermost first."""
    found: list[tuple[str, str]] = []
    while frame is not None:
        found.append((frame.f_globals.get("__name__", ""), frame.f_code.co_qualname))
        frame = frame.f_back
    return tuple(found)


def owner_name(app: object, made_by: Makers) -> str:
    """``module:name`` if one of the modules that made the app holds it, else the function that made it.

    It is the same in every process and release that makes the app there, and another one for every other app.
    """
    for module, _ in made_by:
        for name, value in tuple(vars(sys.modules[module]).items()) if module in sys.modules else ():
            if value is app:
                return f"{_imported(module)}:{name}"
    module, function = made_by[0]
    return f"{_imported(module)}:{function}"


def _imported(module: str) -> str:
    """The name by which other programs import a module, also if it is the one that was started."""
    if module != "__main__":
        return module
    main = sys.modules[module]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return module if file is None else Path(file).stem
