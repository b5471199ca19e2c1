"""Types that JSON and msgspec do not know by themselves; pydantic's models, where pydantic is installed."""

from typing import Any


def plain(value: object) -> Any:
    """A value of such a type as plain data."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, (range, frozenset)):
        return list(value)
    raise NotImplementedError(f"Objects of type {type(value).__name__} are not supported")


def build(kind: type, data: object) -> Any:
    """A value of such a type from plain data; ValueError if it does not fit."""
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return validate(data)
    if isinstance(data, kind):
        return data
    raise NotImplementedError(f"the type {kind.__name__} is not supported; use dataclasses, msgspec or pydantic")
