"""Options of a command, made from the fields of its request."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import parse_bytes, parse_seconds
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from pydantic import BaseModel


def with_options(
    model: type[BaseModel], *leave_out: str, make: Callable[..., Any] | None = None, **texts: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `request` of a command by an option for each field of a request.

    Args:
        model: the request. Options that are not given keep its defaults.
        leave_out: fields that the command has no option for, or fills in itself.
        make: makes the request of the values that are given; default: the model.
        texts: for a field the function that reads its text, given all values and the option's name.
    """
    from hudi_ops.config.doors import door_of, schemas

    readers: dict[str, Callable[[dict[str, Any]], Any]] = {}
    parameters: list[inspect.Parameter] = []
    options: dict[str, str] = {}
    for name, shape in schemas(model).items():
        if name in leave_out:
            continue
        door = door_of(model.model_fields[name])
        option = f"--{door.option or name.replace('_', '-')}"
        readers[name] = _reader(name, option, door.unit, texts.get(name), shape)
        metavar = {"bytes": "SIZE", "seconds": "DURATION"}.get(door.unit)
        if name in texts:
            metavar = texts[name].__name__.strip("_").upper()
        annotation = _annotation(option, shape, metavar)
        default = False if annotation.__origin__ is bool else None
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
        options[name] = option
    unset = {one.name: one.default for one in parameters}

    def made_of(values: dict[str, Any]) -> Any:
        said = {name: read(values) for name, read in readers.items() if values[name] not in (None, [], unset[name])}
        return _request(make or model, said, options)

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.name != "request"]
        at = [*signature.parameters].index("request")

        @functools.wraps(command)
        def called(**given: Any) -> None:
            values = {name: given.pop(name) for name in readers}
            command(**given, request=made_of(values))

        placed = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        made = [*placed[:at], *parameters, *placed[at:]]
        called.__signature__ = signature.replace(parameters=made)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in made}
        called.request_of = made_of  # type: ignore[attr-defined]
        return called

    return wrap


def request_of(command: Callable[..., None], values: Mapping[str, Any]) -> Any:
    """Return the request that a command makes of its parameters.

    Args:
        command: that `with_options` wrapped.
        values: of its parameters, by name; further ones are left alone.

    Raises:
        InvalidRequest: a wrong value.
    """
    return command.request_of(dict(values))  # type: ignore[attr-defined]


def _request(make: Callable[..., Any], said: Mapping[str, Any], options: Mapping[str, str]) -> Any:
    """Return the request of the given values; an error names options, not fields.

    Raises:
        InvalidRequest: a wrong value.
    """
    try:
        return make(**said)
    except InvalidRequest as error:
        # Names of one word may be words of the sentence.
        fields = "|".join(sorted((name for name in options if "_" in name), key=len, reverse=True))
        if fields:
            for part in ("what", "expected", "next_step"):
                text = re.sub(rf"\b({fields})\b", lambda found: options[found[0]], getattr(error, part))
                setattr(error, part, text)
        raise


def _annotation(option: str, schema: dict[str, Any], metavar: str | None) -> Any:
    """Return the type of an option and its help; `metavar` names a text with its own reader."""
    kind: Any = int | None if "integer" in schema["type"] and metavar is None else str | None
    default = schema.get("default")
    if default is True:
        kind, option = bool | None, f"{option}/--no-{option.removeprefix('--')}"
    elif default is False:
        kind = bool
    elif "array" in schema["type"] and metavar is None:
        kind, metavar = list[str] | None, option.removeprefix("--").upper()
    text = schema["description"]
    if isinstance(default, (str, int)) and not isinstance(default, bool):
        text += f" Default: {default}."
    shown: dict[str, Any] = {"help": text, "show_default": False, "metavar": metavar}
    if "enum" in schema:
        values = [str(value) for value in schema["enum"]]
        shown |= {"metavar": "|".join(values), "autocompletion": lambda: values}
    return Annotated[kind, typer.Option(option, **shown)]


def _reader(name: str, option: str, unit: str, text: Any, schema: Mapping[str, Any]) -> Callable[[dict[str, Any]], Any]:
    if text is not None:
        return lambda values: text(values, values[name], option)
    if unit == "bytes":
        return lambda values: parse_bytes(values[name], option, schema.get("minimum", 1))
    if unit == "seconds":
        return lambda values: parse_seconds(values[name], option)
    return lambda values: values[name]
