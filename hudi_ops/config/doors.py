"""Derive application arguments, Airflow forms and docs tables from a request model.

Each is made from the request's fields and their JSON schema; `cli.options` makes the options of a command likewise.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeVar
from unicodedata import category

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hudi_ops.errors import InvalidRequest
from hudi_ops.redaction import has_credentials

R = TypeVar("R", bound=BaseModel)

REQUESTER = "HUDI_OPS_REQUESTER"
"""Variable of an application's environment that names the user for whom it works."""

TEXT_MAX = 1000
"""Characters that one text of a form may have."""

TEXT: Mapping[str, Any] = {"type": ["null", "string"], "default": "", "maxLength": TEXT_MAX}
"""JSON schema of a text field in a form. It has no pattern: Airflow would show the pattern as the error of a wrong value."""

TEXTS: Mapping[str, Any] = {"items": {"type": "string", "maxLength": TEXT_MAX}, "maxItems": 1000}
"""JSON schema of a field with one text a line."""


@dataclass(frozen=True)
class Door:
    """How interfaces show a field, where its name and type do not tell.

    Attributes:
        option: its option on the command line, without dashes; default: its name.
        unit: the command line takes `200MB` for bytes, and `2h` for seconds.
        form: additions to its JSON schema in a form; None: the form does not offer it.
        separator: between the values of a list in one argument of an application; None: applications lack the field.
        allows: what a text of a form may be; checked by `request_of`.
        takes: regular expression of each name in a list; empty: any. Schedules are checked with it; forms do not use it, since
            Airflow would show the expression as the error of a wrong name.
    """

    option: str = ""
    unit: Literal["", "bytes", "seconds"] = ""
    form: Mapping[str, Any] | None = field(default_factory=dict)
    separator: str | None = ","
    allows: str = ""
    takes: str = ""


def door_of(info: FieldInfo) -> Door:
    """Return how a field is shown."""
    return next((one for one in info.metadata if isinstance(one, Door)), Door())


def schemas(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each field; null is one of its types, not an alternative schema."""
    found = {}
    for name, schema in model.model_json_schema()["properties"].items():
        branches = schema.pop("anyOf", [])
        for branch in branches:
            schema |= branch
        if branches or schema.get("type") == "array":
            schema["type"] = [
                "null",
                next(kind for one in branches or [schema] if (kind := one.get("type", "object")) != "null"),
            ]
        found[name] = schema
    return found


def add_arguments(parser: argparse.ArgumentParser, model: type[BaseModel]) -> None:
    """Add an argument for each field of a request.

    Args:
        parser: gets them.
        model: the request.
    """
    for name, schema, _ in of_applications(model):
        kind = schema["type"]
        form: dict[str, Any] = {"metavar": "|".join(schema["enum"])} if "enum" in schema else {}
        if kind == "boolean":
            form = {"nargs": "?", "const": "true", "metavar": "true|false"}
        elif "array" in kind:
            form = {"action": "append"}
        parser.add_argument(_argument(name), default=None, help=schema["description"], **form)


def request_of(model: type[R], options: argparse.Namespace) -> R:
    """Return the request of parsed arguments; an empty argument stands for the default.

    Raises:
        InvalidRequest: a value is not allowed; the message says what is.
    """
    values: dict[str, Any] = {}
    for name, _, door in of_applications(model):
        given = getattr(options, name)
        if isinstance(given, list):
            parts = [part for text in given for part in text.split(door.separator)]
            given = tuple(part.strip(" ") if door.separator == "," else part for part in parts if part.strip())
        values[name] = given
    refuse_unsafe(model, values)
    return model(**{name: value for name, value in values.items() if value not in (None, "", ())})


def request_of_arguments(model: type[R], arguments: Sequence[str]) -> R:
    """Return the request that an application would make of these arguments.

    Raises:
        InvalidRequest: a value is not allowed; the message says what is.
    """
    parser = RaisingParser(add_help=False, allow_abbrev=False)
    add_arguments(parser, model)
    return request_of(model, parser.parse_known_args(list(arguments))[0])


class RaisingParser(argparse.ArgumentParser):
    """Parser that raises an error for a wrong call, and does not end the process."""

    def error(self, message: str) -> NoReturn:
        """Report a wrong call.

        Raises:
            InvalidRequest: always.
        """
        raise InvalidRequest(f"wrong arguments: {message}", next_step="correct the value")


def refuse_unsafe(model: type[BaseModel], values: Mapping[str, Any]) -> None:
    """Refuse texts with credentials, and those that look like an option.

    Raises:
        InvalidRequest: one of them.
    """
    for name, given in values.items():
        if name in model.model_fields and (allows := door_of(model.model_fields[name]).allows):
            _refuse_unsafe_texts(name, given, allows)


def refuse_unoffered(model: type[BaseModel], values: Mapping[str, Any]) -> None:
    """Refuse values that the form of a request could not hold.

    Airflow would drop every DAG of the service for such a default, and name neither file nor table.

    Raises:
        InvalidRequest: a name that the list does not take, or a number that JSON does not have.
    """
    fields = form_fields(model)
    for name, given in values.items():
        takes = door_of(model.model_fields[name]).takes if name in model.model_fields else ""
        offered = fields.get(name, {}).get("examples", ())
        unknown = next((one for one in given or () if not re.search(takes, one)), None) if takes else None
        is_endless = isinstance(given, float) and not math.isfinite(given)
        if unknown is not None or is_endless:
            found = repr(unknown) if unknown is not None else str(given)
            raise InvalidRequest(
                f"{name} cannot be {found}",
                expected=f"some of {', '.join(offered)}" if unknown is not None else "a finite number",
                found=found,
                next_step=f"correct {name}",
                field=name,
            )


def _refuse_unsafe_texts(name: str, given: str | Sequence[str] | None, allows: str) -> None:
    for text in (given,) if isinstance(given, str) else given or ():
        if has_credentials(text):
            raise InvalidRequest(
                f"{name} holds a user and a password",
                expected=f"{allows}, without credentials",
                found=text,  # masked by the error
                next_step="give them in the environment of the application, and change the password: logs may show it",
                field=name,
            )
        if text and (text[0] in "- \t" or any(category(char) == "Cc" for char in text) or len(text) > TEXT_MAX):
            raise InvalidRequest(
                f"{name} cannot be {text[:100]!r}",
                expected=f"{allows}; one line that does not begin with a dash or a space",
                found=repr(text[:100]),
                next_step=f"correct {name}",
                field=name,
            )


def form_fields(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each field that a form offers, its default among it."""
    found = {}
    for name, schema in schemas(model).items():
        door = door_of(model.model_fields[name])
        if door.form is not None:
            found[name] = {**schema, **door.form}
            if "array" not in found[name]["type"]:
                found[name].pop("items", None)
            if "enum" in found[name] and "null" in found[name]["type"]:
                # A cleared field is null, and so may be the default: a value outside of the list is refused.
                found[name] |= {"enum": [None, *found[name]["enum"]], "values_display": {"null": "default"}}
    return found


def form_arguments(model: type[BaseModel]) -> list[str]:
    """Return the arguments of an application as templates over the values of a form."""
    found = []
    for name, schema in form_fields(model).items():
        value = f"params.{name} if params.{name} is not none else ''"
        if schema["type"] == "boolean":
            # An empty argument stands for the default.
            other = "false" if schema.get("default") else "true"
            value = f"'{other}' if params.{name} {'is false' if other == 'false' else ''} else ''"
        elif "array" in schema["type"]:
            separator = door_of(model.model_fields[name]).separator
            value = f"(params.{name} or []) | join({separator!r})"
        found.append(f"{_argument(name)}={{{{ {value} }}}}")
    return found


def service_fields(model: type[BaseModel]) -> set[str]:
    """Return the fields of a request that a schedule may set: those that hold for every run."""
    return {name for name, _, _ in of_applications(model)} - {"instant", "abandoned", "retake", "dry_run"}


def form_values(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a form, with values of a request in place of some of them."""
    values = {}
    for name, schema in form_fields(model).items():
        value = given.get(name, schema["default"])
        is_text = "array" not in schema["type"] and isinstance(value, list | tuple)
        values[name] = (door_of(model.model_fields[name]).separator or ",").join(value) if is_text else value
    return values


def other_arguments(model: type[BaseModel], given: Mapping[str, Any]) -> list[str]:
    """Return arguments of an application for values of a request that its form does not have."""
    names = [name for name in given if name not in form_fields(model)]
    return [f"{_argument(name)}={given[name]}" for name in names]


def docs_table(model: type[BaseModel]) -> str:
    """Return a Markdown table of a request's fields."""
    rows = [f"| {name} | {model.model_fields[name].description} |" for name in form_fields(model)]
    return "\n".join(["| field | value |", "|---|---|", *rows])


def _argument(field_name: str) -> str:
    return f"--{field_name.replace('_', '-')}"


def of_applications(model: type[BaseModel]) -> Iterator[tuple[str, dict[str, Any], Door]]:
    """Yield the fields that applications have, each with its JSON schema and how it is shown."""
    for name, schema in schemas(model).items():
        door = door_of(model.model_fields[name])
        if door.separator is not None:
            yield name, schema, door
