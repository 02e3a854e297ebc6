"""Schedules of services in `tables.yaml`, and errors of wrong names in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from hudi_ops.config.doors import refuse_unoffered, refuse_unsafe, service_fields
from hudi_ops.config.requests import SERVICES
from hudi_ops.errors import InvalidRequest
from hudi_ops.redaction import has_credentials


class Schedule(BaseModel):
    """Schedule of a service on one table, with fields of the request."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schedule: str = Field(min_length=1, description="A cron expression, or a preset such as @hourly.")
    request: dict[str, Any] = Field(default_factory=dict, description="Fields of the service's request.")


def schedule_of(service: str, given: Any) -> dict[str, Any]:
    """Return the fields of a schedule, as its request understands them; errors name the service.

    Raises:
        ValueError: an unknown service, or a value that its request refuses.
    """
    if service not in SERVICES:
        guess = did_you_mean(service, SERVICES)
        raise ValueError(f"unknown service {service!r}, expected one of {', '.join(SERVICES)}. {guess}".strip())
    values = {"schedule": given} if isinstance(given, str) else given
    if not isinstance(values, Mapping) or not isinstance(values.get("schedule"), str):
        raise ValueError(f"{service}: must be a cron expression, or a mapping with the key schedule")
    request = {name: value for name, value in values.items() if name != "schedule"}
    known = service_fields(SERVICES[service])
    for name in request:
        if name not in known:
            guess = did_you_mean(str(name), known) or f"Expected one of {', '.join(sorted(known))}"
            raise ValueError(f"{service}.{name}: unknown setting. {guess}")
    if isinstance(source := request.get("source"), str):
        refuse_credentials(source, f"{service}.source: ")
    try:
        read = SERVICES[service](**request)
        refuse_unoffered(SERVICES[service], {name: getattr(read, name) for name in request})
        meant = read.model_dump(mode="json", include=set(request))
        refuse_unsafe(SERVICES[service], meant)
    except InvalidRequest as error:
        raise ValueError(f"{service}: {error.what}, expected {error.expected}") from None
    return {"schedule": values["schedule"], "request": meant}


def refuse_credentials(uri: str | None, field: str = "") -> None:
    """Refuse a URI with user and password.

    Args:
        uri: to check.
        field: precedes the message.

    Raises:
        ValueError: it holds them.
    """
    if uri is not None and has_credentials(uri):
        # The URI would be copied into leases, command lines and logs.
        raise ValueError(f"{field}must hold no user and password: give them by `zookeeper`, or in the environment")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question with the nearest known word, or an empty text."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"Did you mean {close[0]!r}?" if close else ""
