"""The scenes, one module for each part of the shop. New modules are found by themselves."""

from importlib import import_module
from pkgutil import iter_modules

from packhorse_demo.scene import Scene


def found() -> list[type[Scene]]:
    """Import all scenes, which registers their tasks, and return them in their order."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    classes = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    return sorted(
        (kind for kind in classes if issubclass(kind, Scene) and kind is not Scene), key=lambda kind: kind.turn
    )
