"""Base of the request models, and the errors of wrong keywords and values.

Imports pydantic only, since DAG files import it. A wrong value is an `InvalidRequest` that says what is allowed.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from hudi_ops.errors import InvalidRequest

EngineName: TypeAlias = Literal["auto", "local", "spark"]

M = TypeVar("M", bound="Request")


def checked_engine(name: str) -> str:
    """Return the engine name.

    Raises:
        InvalidRequest: there is no such engine.
    """
    if name not in get_args(EngineName):
        raise InvalidRequest(f"unknown engine {name!r}", expected="auto, local or spark", found=str(name))
    return name


def checked_name(what: str, names: Collection[str], name: str, **details: str) -> str:
    """Return a name in lower case.

    Args:
        what: the error calls the name so.
        names: known ones.
        name: to check.
        details: of the error.

    Raises:
        InvalidRequest: the name is not known.
    """
    if str(name).lower() not in names:
        raise InvalidRequest(f"unknown {what} {name!r}", expected=" or ".join(names), found=str(name), **details)
    return str(name).lower()


def listed(value: Any) -> Any:
    """Return a single name as a tuple of one, not as a list of its letters."""
    return (value,) if isinstance(value, str) else value


def path_text(value: Any) -> Any:
    """Return a path object, such as one of `pathlib`, as text; anything else as it is."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def listed_paths(value: Any) -> Any:
    """Return one path or several as texts, one as a tuple of one."""
    one = path_text(value)
    is_several = isinstance(one, Iterable) and not isinstance(one, str | bytes)
    return tuple(map(path_text, one)) if is_several else listed(one)


Names = Annotated[tuple[str, ...], BeforeValidator(listed)]
Paths = Annotated[tuple[str, ...], BeforeValidator(listed_paths)]
PathText = Annotated[str, BeforeValidator(path_text)]
"""A path or URI, which Python may give as a path object."""


class Request(BaseModel):
    """Base of the requests: frozen, without unknown fields; wrong values raise `InvalidRequest`.

    Attributes:
        checks: for some fields a function that returns the value to use, or raises a clearer error than pydantic would.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"engine": checked_engine}

    def __init__(self, **values: Any) -> None:
        for name, check in self.checks.items():
            if values.get(name) is not None:
                values[name] = check(values[name])
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise invalid_request(error, type(self)) from None


def merged(model: type[M], given: M | None, keywords: Mapping[str, Any]) -> M:
    """Return the given values, with keywords in place of some of them.

    Raises:
        InvalidRequest: what is given is no such request, or a keyword or its value is wrong.
    """
    if given is not None and not isinstance(given, model):
        raise InvalidRequest(
            f"{given!r} is no {model.__name__}",
            expected=f"{model.__name__}, or its fields as keywords",
            found=type(given).__name__,
            next_step=f"pass the fields as keywords: {', '.join(f'{name}=…' for name in list(model.model_fields)[:3])}",
        )
    if given is not None and not keywords:
        return given
    # Only what was given: a default may stand for a value that `tables.yaml` declares.
    before = {name: getattr(given, name) for name in given.model_fields_set} if given is not None else {}
    return model(**{**before, **keywords})


def invalid_request(error: ValidationError, model: type[BaseModel]) -> InvalidRequest:
    """Return the first problem that pydantic found, as the error that callers expect.

    Args:
        error: pydantic's.
        model: that refused the values; for an unknown name it names the nearest one of the same map.
    """
    problem = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in problem["loc"])
    value, limits = problem["input"], problem.get("ctx", {})
    if problem["type"] == "extra_forbidden":
        *maps, unknown = map(str, problem["loc"])
        return unknown_keyword(unknown, known_fields(model, maps), within="".join(f"{part}." for part in maps))
    if problem["type"] == "missing":
        return InvalidRequest(f"{name} is missing", expected=f"a value for {name}", next_step=f"pass {name}")
    if "ge" in limits:
        least = limits["ge"]
        return InvalidRequest(
            f"{name} is below {least}", expected=f"at least {least}, or nothing", found=str(value), field=name
        )
    expected = problem["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return InvalidRequest(f"{name} cannot be {value!r}", expected=expected, found=repr(value), field=name)


def refuse_unknown(keywords: Iterable[str], known: Iterable[str], *others: str) -> None:
    """Refuse the first unknown keyword, and name the nearest known one.

    Raises:
        InvalidRequest: there is one.
    """
    names = set(known)
    for keyword in keywords:
        if keyword not in names:
            error: InvalidRequest = unknown_keyword(keyword, [*names, *others])
            raise error


def known_fields(model: type[BaseModel], maps: Iterable[int | str]) -> list[str]:
    """Return the names of a model's fields, or of those of a map in it."""
    for part in maps:
        field = model.model_fields.get(str(part))
        model = (_model_in(field.annotation) if field is not None else None) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def unknown_keyword(name: str, known: Iterable[str], *, within: str = "") -> InvalidRequest:
    """Return the error for a keyword that does not exist; it names the nearest one.

    Args:
        name: of the keyword.
        known: names that it could be.
        within: precedes the names in the message, such as `clean.` for the keys of that map.
    """
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    names = [within + one for one in close or sorted(known)]
    return InvalidRequest(
        f"unknown keyword {within + name!r}" + (f"; did you mean {names[0]!r}?" if close else ""),
        expected=" or ".join(names),
        found=within + name,
        next_step=f"use {names[0]!r}, or leave it out" if close else "leave it out",
    )
