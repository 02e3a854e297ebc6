"""Derive application arguments, Airflow forms and docs tables from a request model.

Each is made from the request's fields and their JSON schema; `cli.options` makes the options of a command likewise.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hudi_ops.redaction import CREDENTIALS

R = TypeVar("R", bound=BaseModel)

_ARGUMENT = rf"(?![\s\S]*{CREDENTIALS})[^\s\-][^\r\n\t]*"
"""One line that is not an option of an application, without user and password, which Airflow would keep and show."""

TEXT: Mapping[str, Any] = {
    "type": ["null", "string"],
    "default": "",
    "pattern": rf"^({_ARGUMENT})?$",
    "maxLength": 1000,
}
"""JSON schema of a text field in a form."""
TEXTS: Mapping[str, Any] = {
    "items": {"type": "string", "pattern": f"^{_ARGUMENT}$", "maxLength": 1000},
    "maxItems": 1000,
}
"""JSON schema of a field with one text a line."""


@dataclass(frozen=True)
class Door:
    """How a field is shown where its name and type do not say it.

    Attributes:
        option: its option on the command line, without dashes; default: its name.
        unit: the command line takes `200MB` for bytes, and `2h` for seconds.
        form: what its JSON schema has besides in a form; None: the form does not offer it.
        separator: between the values of a list in one argument of an application; None: applications do not have it.
    """

    option: str = ""
    unit: Literal["", "bytes", "seconds"] = ""
    form: Mapping[str, Any] | None = field(default_factory=dict)
    separator: str | None = ","


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
    """Add an argument for each field of a request, and a hidden one for each old name."""
    old_names = {new: old for old, new in getattr(model, "renamed", {}).items()}
    for name, schema, _ in _of_applications(model):
        kind = schema["type"]
        form: dict[str, Any] = {"metavar": "|".join(schema["enum"])} if "enum" in schema else {}
        if kind == "boolean":
            form = {"nargs": "?", "const": "true", "metavar": "true|false"}
        elif "array" in kind:
            form = {"action": "append"}
        parser.add_argument(_argument(name), default=None, help=schema["description"], **form)
        if name in old_names:
            parser.add_argument(_argument(old_names[name]), default=None, help=argparse.SUPPRESS, **form)


def request_of(model: type[R], options: argparse.Namespace) -> R:
    """Return the request of parsed arguments; an empty argument stands for the default."""
    values = {old: getattr(options, old) for old in getattr(model, "renamed", {})}
    for name, _, door in _of_applications(model):
        given = getattr(options, name)
        if isinstance(given, list):
            parts = [part for text in given for part in text.split(door.separator)]
            given = tuple(part.strip(" ") if door.separator == "," else part for part in parts if part.strip())
        values[name] = given
    return model(**{name: value for name, value in values.items() if value not in (None, "", ())})


def form_fields(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each field that a form offers, its default among it."""
    found = {}
    for name, schema in schemas(model).items():
        door = door_of(model.model_fields[name])
        if door.form is not None:
            found[name] = {**schema, **door.form}
            if "array" not in found[name]["type"]:
                found[name].pop("items", None)
    return found


def form_arguments(model: type[BaseModel]) -> list[str]:
    """Return the arguments of an application as templates over the values of a form."""
    found = []
    fields = form_fields(model)
    for name, schema in fields.items():
        value = f"params.{name} if params.{name} is not none else ''"
        if schema["type"] == "boolean":
            # An empty argument leaves the default, false, to an old name of the field.
            value = f"'true' if params.{name} else ''"
        elif "array" in schema["type"]:
            separator = door_of(model.model_fields[name]).separator
            value = f"(params.{name} or []) | join({separator!r})"
        found.append(f"{_argument(name)}={{{{ {value} }}}}")
    # Runs that are triggered with a field's old name still work.
    for old, new in getattr(model, "renamed", {}).items():
        value = f"params.get('{old}') if params.get('{old}') is not none else ''"
        if fields[new]["type"] == "boolean":
            # No schema checks an old name, so the request reads the text.
            value = f"(params.get('{old}') | string | lower) if params.get('{old}') not in (none, false) else ''"
        found.append(f"{_argument(old)}={{{{ {value} }}}}")
    return found


def docs_table(model: type[BaseModel], *, form_only: bool = True) -> str:
    """Return a Markdown table of a request's fields."""
    names = form_fields(model) if form_only else model.model_fields
    rows = [f"| {name} | {model.model_fields[name].description} |" for name in names]
    return "\n".join(["| field | value |", "|---|---|", *rows])


def _argument(field_name: str) -> str:
    return f"--{field_name.replace('_', '-')}"


def _of_applications(model: type[BaseModel]) -> Iterator[tuple[str, dict[str, Any], Door]]:
    for name, schema in schemas(model).items():
        door = door_of(model.model_fields[name])
        if door.separator is not None:
            yield name, schema, door
