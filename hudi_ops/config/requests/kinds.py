"""Requests of several services that share one application and one form.

The argument and the form field `service` choose one of them. Fields of the same name are shared; the others belong to one service.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel

from hudi_ops.config.doors import (
    RaisingParser,
    add_arguments,
    form_arguments,
    form_fields,
    form_values,
    of_applications,
    request_of,
)
from hudi_ops.errors import InvalidRequest

Kinds: TypeAlias = Mapping[str, type[BaseModel]]
"""Requests by the name of their service, the default first."""


def add_kinds(parser: argparse.ArgumentParser, kinds: Kinds) -> None:
    """Add an argument for each field of the requests, and one that chooses the service."""
    parser.add_argument("--service", default=next(iter(kinds)), choices=[*kinds], help="what is done")
    known: set[str] = set()
    for model in kinds.values():
        add_arguments(parser, model, known)
        known |= model.model_fields.keys()


def request_of_kind(kinds: Kinds, options: argparse.Namespace) -> BaseModel:
    """Return the request of the service that parsed arguments choose.

    Raises:
        InvalidRequest: a value is not allowed, or it is one of another service.
    """
    chosen = kinds[options.service]
    for kind, model in kinds.items():
        for name, schema, door in of_applications(model):
            given = getattr(options, name)
            text = (door.separator or "").join(given) if isinstance(given, list) else given
            # A form sends the default of each field.
            is_default = not text or text.lower() == str(schema.get("default")).lower()
            if name not in chosen.model_fields and not is_default:
                raise InvalidRequest(
                    f"{name} is a field of {kind}, and the service is {options.service}",
                    expected=f"service {kind}, or {name} as it is by default",
                    found=f"{name} {text}",
                    next_step=f"choose the service {kind}, or clear {name}",
                    field=name,
                )
    return request_of(chosen, options)


def request_of_kind_arguments(kinds: Kinds, arguments: Sequence[str]) -> BaseModel:
    """Return the request that an application makes of arguments; see `request_of_kind`."""
    parser = RaisingParser(add_help=False, allow_abbrev=False)
    add_kinds(parser, kinds)
    return request_of_kind(kinds, parser.parse_known_args(list(arguments))[0])


def kind_fields(kinds: Kinds, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of a form for several services, with some values; shared ones first.

    Where the defaults of a shared field differ, it is empty, which stands for the default of the service that is chosen. The other
    fields have the section of their service.
    """
    schemas = {kind: form_fields(model) for kind, model in kinds.items()}
    values = {kind: form_values(model, given) for kind, model in kinds.items()}
    first, *others = kinds
    shared = [name for name in schemas[first] if all(name in schemas[kind] for kind in others)]
    found: dict[str, dict[str, Any]] = {}
    for name in shared:
        found[name] = {**schemas[first][name], "default": values[first][name]}
        if any(values[kind][name] != values[first][name] for kind in others):
            found[name]["default"] = None
        texts = {kind: schemas[kind][name]["description"] for kind in kinds}
        if len({*texts.values()}) > 1:
            found[name]["description"] = " ".join(f"{kind}: {text}" for kind, text in texts.items())
    for kind in kinds if others else ():
        section = kind.capitalize()
        own = {name: one for name, one in schemas[kind].items() if name not in shared}
        found |= {name: {**one, "default": values[kind][name], "section": section} for name, one in own.items()}
    return found


def kind_arguments(kinds: Kinds) -> list[str]:
    """Return the arguments of an application as templates over the values of that form."""
    arguments = dict.fromkeys(text for model in kinds.values() for text in form_arguments(model))
    return ["--service={{ params.service }}", *arguments]
