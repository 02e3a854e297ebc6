"""Check the types of the arguments of the public API.

A wrong type would else come up as an error of Python somewhere inside, or not at all. Values are checked where they are used.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from itertools import chain, repeat
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from hudi_ops.errors import InvalidRequest

C = TypeVar("C")
_SHOWN_MAX = 60
_MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")
_NUMBERS: Mapping[Any, Any] = {bool: (bool, np.bool_), int: Integral, float: Real}


def checks_types(cls: type[C]) -> type[C]:
    """Let the public methods of a class refuse arguments of types that they do not name.

    A class method is one, too; so is `__call__`.
    """
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(member, classmethod):
            setattr(cls, name, classmethod(_checked(member.__func__)))
        elif isinstance(member, types.FunctionType):
            setattr(cls, name, _checked(member))
    return cls


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def checked(*given: Any, **keywords: Any) -> Any:
        hints, places = _hints(method)
        # Too many or unknown ones are refused by the call itself.
        for name, value in (*zip(chain(places, repeat(places[-1])), given, strict=False), *keywords.items()):
            if name in hints and not _fits(value, hints[name]):
                raise InvalidRequest(
                    f"{method.__name__}: {name} cannot be {_short(value)}",
                    expected=_words(hints[name]),
                    found=type(value).__name__,
                    next_step=f"pass a value of this type, or see help(hudi_ops.{method.__qualname__})",
                    field=name,
                )
        return method(*given, **keywords)

    return checked


@cache
def _hints(method: Callable[..., Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the types of the parameters, and the names of those given by place."""
    named = signature(method).parameters.values()
    by_place = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
    keywords = {one.name for one in named if one.kind is Parameter.VAR_KEYWORD}
    hints = {name: hint for name, hint in get_type_hints(method).items() if name not in keywords}
    return hints, tuple(one.name for one in named if one.kind in by_place)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type; what cannot be told is taken."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:  # which of them is meant is told where the value is used
        return isinstance(value, tuple({type(one) for one in inner}))
    if origin is Callable:
        return callable(value)
    if origin is Sequence:  # any other iterable does, too, but not the letters of a text
        is_several = isinstance(value, Iterable) and not isinstance(value, str | bytes)
        return is_several and (not isinstance(value, Sequence) or all(_fits(one, inner[0]) for one in value))
    kind = origin or hint
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and (kind is bool or not isinstance(value, bool))
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    return isinstance(value, kind)


def _words(hint: Any) -> str:
    """Return a type as it is written in a signature."""
    return str(hint.__name__ if isinstance(hint, type) and not get_args(hint) else _MODULES.sub("", str(hint)))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
