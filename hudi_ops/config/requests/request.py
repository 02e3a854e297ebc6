"""Base of the request models, and the errors of wrong keywords and values.

Imports pydantic only, since DAG files import it. A wrong value is an `InvalidRequest` that says what is allowed.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping
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


def listed(value: Any) -> Any:
    """Return a single name as a tuple of one, not as a list of its letters."""
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(listed)]


class Request(BaseModel):
    """Base of the requests: frozen, without unknown fields; wrong values raise `InvalidRequest`.

    Attributes:
        renamed: old names of fields that are accepted for one release, and their new names.
        checks: for some fields a function that returns the value to use, or says better than pydantic what is wrong with it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    renamed: ClassVar[Mapping[str, str]] = {}
    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"engine": checked_engine}

    def __init__(self, **values: Any) -> None:
        found = current_names(values, self.renamed)
        for name, check in self.checks.items():
            if found.get(name) is not None:
                found[name] = check(found[name])
        try:
            super().__init__(**found)
        except ValidationError as error:
            raise invalid_request(error, type(self).model_fields) from None


def merged(model: type[M], given: M | None, keywords: Mapping[str, Any]) -> M:
    """Return the given values, with keywords in place of some of them."""
    if given is not None and not keywords:
        return given
    # Only what was given: a default may stand for a value that `tables.yaml` declares.
    before = {name: getattr(given, name) for name in given.model_fields_set} if given is not None else {}
    return model(**{**before, **current_names(keywords, model.renamed)})


def current_names(values: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return the values under the current names of their fields, with a warning for an old name.

    Raises:
        InvalidRequest: a value is given by its old and its new name, and they differ.
    """
    found = dict(values)
    for old, new in renamed.items():
        if (value := found.pop(old, None)) is None:
            continue
        if (given := found.get(new)) is not None and given != value:
            raise InvalidRequest(
                f"{new} and its old name {old} are both given, and differ",
                expected="one of them",
                found=f"{new}={given!r} and {old}={value!r}",
                next_step=f"leave {old} out",
            )
        warnings.warn(
            f"{old} is now called {new}; the old name goes with the next release", FutureWarning, stacklevel=4
        )
        found[new] = value
    return found


def invalid_request(error: ValidationError, known: Iterable[str]) -> InvalidRequest:
    """Return the first problem that pydantic found, as the error that callers expect.

    Args:
        error: pydantic's.
        known: names of the fields; the nearest is named for an unknown one.
    """
    problem = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in problem["loc"])
    value, limits = problem["input"], problem.get("ctx", {})
    if problem["type"] == "extra_forbidden":
        return unknown_keyword(name, known)
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


def unknown_keyword(name: str, known: Iterable[str]) -> InvalidRequest:
    """Return the error for a keyword that does not exist; it names the nearest one."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return InvalidRequest(
        f"unknown keyword {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""),
        expected=" or ".join(close or names),
        found=name,
        next_step=f"use {close[0]!r}, or leave it out" if close else "leave it out",
    )
