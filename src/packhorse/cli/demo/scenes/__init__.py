"""The scenes, one module for each part of the shop; a new module is found by itself."""

from importlib import import_module
from pkgutil import iter_modules

from packhorse.cli.demo.scene import Scene


def found() -> list[type[Scene]]:
    """All scenes in the order they are played; to import them registers their tasks."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    there = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    return sorted((kind for kind in there if issubclass(kind, Scene) and kind is not Scene), key=lambda kind: kind.turn)
