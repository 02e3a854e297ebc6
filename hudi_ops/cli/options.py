"""Options of a command, made from the fields of its request."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import parse_bytes, parse_seconds

if TYPE_CHECKING:
    from pydantic import BaseModel


def with_options(
    model: type[BaseModel], *leave_out: str, **texts: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `request` of a command by an option for each field of a request.

    Args:
        model: the request. Options that are not given keep its defaults; its old names are hidden options.
        leave_out: fields that the command has no option for, or fills in itself.
        texts: for a field the function that reads its text, given all values and the option's name.
    """
    from hudi_ops.config.doors import door_of, schemas

    options: dict[str, Callable[[dict[str, Any]], Any]] = {}
    unset: dict[str, bool | None] = {}
    parameters: list[inspect.Parameter] = []
    renamed = getattr(model, "renamed", {})

    def add(name: str, field: str, *, hidden: bool) -> None:
        schema, door = all_schemas[field], door_of(model.model_fields[field])
        option = f"--{name.replace('_', '-') if hidden or not door.option else door.option}"
        shown: dict[str, Any] = {"help": schema["description"], "hidden": hidden, "show_default": False}
        kind: Any = str | None
        read = _reader(name, option, door.unit, texts.get(field))
        if schema["type"] == "boolean":
            kind = bool if not schema["default"] else bool | None
            option = option if not schema["default"] else f"{option}/--no-{option.removeprefix('--')}"
        elif "array" in schema["type"]:
            kind, shown["metavar"] = list[str] | None, option.removeprefix("--").upper().replace("-", "_")
        elif field in texts or door.unit:
            shown["metavar"] = "AMOUNT" if field in texts else {"bytes": "SIZE", "seconds": "DURATION"}[door.unit]
        elif "integer" in schema["type"]:
            kind = int | None
        if "enum" in schema:
            values = [str(value) for value in schema["enum"]]
            shown |= {"metavar": "|".join(values), "autocompletion": lambda: values}
        options[name], unset[name] = read, False if kind is bool else None
        annotation = Annotated[kind, typer.Option(option, **shown)]
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=unset[name], annotation=annotation)
        )

    all_schemas = schemas(model)
    for field in all_schemas:
        if field not in leave_out:
            add(field, field, hidden=False)
    for old, new in renamed.items():
        add(old, new, hidden=True)

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.name != "request"]
        at = [*signature.parameters].index("request")

        @functools.wraps(command)
        def called(**given: Any) -> None:
            values = {name: given.pop(name) for name in options}
            said = {name: read(values) for name, read in options.items() if values[name] not in (None, [], unset[name])}
            command(**given, request=model(**said))

        placed = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        made = [*placed[:at], *parameters, *placed[at:]]
        called.__signature__ = signature.replace(parameters=made)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in made}
        return called

    return wrap


def _reader(name: str, option: str, unit: str, text: Any) -> Callable[[dict[str, Any]], Any]:
    if text is not None:
        return lambda values: text(values, values[name], option)
    if unit == "bytes":
        return lambda values: parse_bytes(values[name], option)
    if unit == "seconds":
        return lambda values: parse_seconds(values[name], option)
    return lambda values: values[name]
