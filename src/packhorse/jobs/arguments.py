"""The arguments of a function as stored text, checked against its annotations on the way in and on the way out."""

import inspect
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any, NotRequired, TypedDict, get_type_hints

import msgspec

from packhorse.errors import ConfigError, InvalidArguments, InvalidResult, UndecodablePayload, WrongArguments
from packhorse.jobs import json_hooks
from packhorse.model import codec

Bound = tuple[tuple[Any, ...], dict[str, Any]]
_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Arguments:
    """What a function takes and gives, as ``inspect.signature`` shows it: a wrapper may hide parameters that it supplies.

    Annotations are looked at when they are first needed.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function, self._name = function, name
        self._signature = inspect.signature(function)
        kinds = [parameter.kind for parameter in self._signature.parameters.values()]
        # Arguments travel by name; only these two kinds have to be put back in their places.
        self._by_place = inspect.Parameter.POSITIONAL_ONLY in kinds or inspect.Parameter.VAR_POSITIONAL in kinds
        self._starred = any(kind in _STARRED for kind in kinds)
        simple = all(kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)
        self._count = len(kinds) if simple else None
        self._named = msgspec.defstruct("Arguments", list(self._signature.parameters), gc=False)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self._function, include_extras=True)
        except Exception as error:
            raise ConfigError(
                f"The annotations of the task {self._name!r} cannot be read ({error}): "
                "names in them must exist in the module of the function"
            ) from error

    @cached_property
    def _decoder(self) -> "msgspec.json.Decoder[dict[str, Any]]":
        fields: dict[str, Any] = {}
        for name, parameter in self._signature.parameters.items():
            kind = self._hints.get(name, Any)
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                kind = list.__class_getitem__(kind)
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                kind = dict.__class_getitem__((str, kind))
            required = parameter.default is inspect.Parameter.empty and parameter.kind not in _STARRED
            fields[name] = kind if required else NotRequired[kind]
        return self._typed(TypedDict("Arguments", fields), "argument")  # type: ignore[operator]

    @cached_property
    def _results(self) -> "msgspec.json.Decoder[Any]":
        return self._typed(self._hints.get("return", Any), "result")

    def _typed(self, kind: Any, what: str) -> "msgspec.json.Decoder[Any]":
        try:
            return msgspec.json.Decoder(kind, dec_hook=json_hooks.build)
        except (TypeError, RuntimeError) as error:
            raise ConfigError(f"An annotation of the task {self._name!r} cannot be an {what} ({error})") from error

    @property
    def names(self) -> list[str]:
        """The names of all parameters."""
        return list(self._signature.parameters)

    @property
    def first(self) -> str:
        """The name of the first parameter."""
        for parameter in self._signature.parameters.values():
            if parameter.kind not in (*_STARRED, inspect.Parameter.KEYWORD_ONLY):
                return parameter.name
        raise ConfigError(
            f"The task {self._name!r} takes no argument, so it cannot take the result before it in a plan"
        )

    def check(self) -> None:
        """Find out now whether the annotations can be served."""
        assert self._decoder is not None
        assert self._results is not None

    def pack(self, args: tuple[Any, ...], options: dict[str, Any]) -> bytes:
        """The stored text of a call; refused if the function would not take it."""
        payload = codec.encode(self._bound(args, options), hook=json_hooks.plain)
        try:
            self._decoder.decode(payload)
        except msgspec.ValidationError as error:
            raise WrongArguments(self._name, error) from error
        return payload

    def _bound(self, args: tuple[Any, ...], options: dict[str, Any]) -> object:
        """The arguments by the names of their parameters; where all are given in order that is plain to see."""
        if not options and len(args) == self._count:
            return self._named(*args)
        try:
            return self._signature.bind(*args, **options).arguments
        except TypeError as error:
            raise WrongArguments(self._name, error) from error

    def unpack(self, payload: bytes) -> Bound:
        """The arguments of a stored call; ValidationError if they do not fit the function (any more)."""
        try:
            given = self._decoder.decode(payload)
        except msgspec.ValidationError:
            if not isinstance(codec.decode(payload), dict):  # what is damaged further on is refused here too
                raise UndecodablePayload("Stored text is no JSON object of arguments") from None
            raise
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UndecodablePayload(f"Stored text is not what was expected: {error}") from error
        if not self._starred and not self._by_place:
            return (), given
        bound = inspect.BoundArguments(self._signature, OrderedDict(given))
        return bound.args, bound.kwargs

    def pack_result(self, value: object) -> bytes | None:
        """The stored text of a result; nothing for no value."""
        try:
            return None if value is None else codec.encode(value, hook=json_hooks.plain)
        except InvalidArguments as error:
            raise InvalidResult(self._name, error.why) from error

    def unpack_result(self, result: bytes | None) -> Any:
        """The value that a result means."""
        if result is None:
            return None
        try:
            return self._results.decode(result)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UndecodablePayload(
                f"The result of {self._name!r} is not what its annotation says: {error}"
            ) from error
