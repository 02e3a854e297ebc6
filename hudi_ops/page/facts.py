"""Turn what the registry has of a table into what its page shows."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hudi_ops.config.places import PROGRAM
from hudi_ops.health.verdict import ms_of
from hudi_ops.page.formats import is_name, run_address, shown_setting
from hudi_ops.page.lanes import Drawing, drawn
from hudi_ops.page.rights import Reader
from hudi_ops.page.services import SERVICES, Service, dag_ids, menu, service_of, words_of
from hudi_ops.registry.rows import TableDetails, TableRow

STALE_MS = 3 * 3_600_000
"""Age from which on a verdict is said to be stale."""

AHEAD_MS = 300_000
"""How far a verdict may lie in the future: clocks differ. One beyond that is stale, since its age is unknown."""

TROUBLE = ("missed", "unknown")
"""Statuses that ask for something."""

_COMMAND = re.compile(r"`hudi-ops ([^`]+)`")
_ABOUT_FIRST = (
    "type",
    "version",
    "index",
    "partitions",
    "file_groups",
    "base_files",
    "log_files",
    "rows",
    "total_bytes",
)
_ABOUT_ELSEWHERE = {"name", "path", "columns", "last_instants", "pending_instants", *_ABOUT_FIRST}


@dataclass(frozen=True)
class CommandButton:
    """A command beside its button.

    Attributes:
        text: as a shell takes it.
        words: for the script, as JSON; empty: there is no button.
        service: DAG that runs it.
        times: how often it is to be run.
        why_not: why the button is disabled; empty: it is not.
        plan: that it cancels; None: it cancels none.
    """

    text: str
    words: str = ""
    service: str = ""
    times: int = 1
    why_not: str = ""
    plan: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ListedTable:
    """A row of the list.

    Attributes:
        row: of the registry.
        checks: by name.
        wrong: names of those that are missed or unknown.
        has_page: whether the table has a page: others have a name that no address can hold.
        is_stale: whether the verdict is too old.
        run: the newest one; None: none is known.
        run_address: of its run below Airflow's root; empty: it has none.
    """

    row: TableRow
    checks: Mapping[str, Mapping[str, Any]]
    wrong: Sequence[str]
    has_page: bool
    is_stale: bool
    run: Mapping[str, Any] | None
    run_address: str


@dataclass(frozen=True)
class ShownTable:
    """What the page of one table shows; see the template.

    Attributes:
        since_ms: since when it cannot be judged.
        troubles: checks that are missed or unknown, with `commands_shown`.
        others: the other checks.
        about: names and values of the most telling facts; `settings` has the others.
        plans: pending plans, with `command`; `aborted` has the aborted ones, the newest first.
    """

    row: TableRow
    verdict: Mapping[str, Any] | None
    is_stale: bool
    picture: Mapping[str, Any]
    picture_at_ms: int | None
    troubles: Sequence[Mapping[str, Any]]
    others: Sequence[Mapping[str, Any]]
    about: Sequence[tuple[str, Any]]
    settings: Sequence[tuple[str, str]]
    columns: Sequence[Mapping[str, Any]]
    plans: Sequence[Mapping[str, Any]]
    aborted: Sequence[Mapping[str, Any]]
    timeline: Sequence[Mapping[str, Any]]
    drawing: Drawing | None
    leases: Sequence[Mapping[str, Any]]
    runs: Sequence[Mapping[str, Any]]
    menu: Sequence[tuple[Service, CommandButton]]
    why_no_look: str
    why_no_cancel: str
    earlier: Sequence[TableRow]
    errors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Buttons:
    """Makes commands with their buttons, for one user and one table.

    Args:
        reader: the user; each DAG is asked for once.
        name: of the table.
        plans: pending ones.
    """

    def __init__(self, reader: Reader, name: str, plans: Sequence[Mapping[str, Any]]) -> None:
        self._reader = reader
        self._name = name
        self._plans = {str(one.get("instant")): one for one in plans}
        self._may_run = cache(lambda dag: any(reader.may_run(one) for one in dag_ids(SERVICES[dag], name)))

    def of_text(self, text: str, times: int = 1) -> CommandButton:
        """Return a command that is advised as text, such as `hudi-ops compact trips`."""
        words = words_of(text)
        if words[:1] == ["cancel"]:
            plan = next((self._plans[word] for word in words if word in self._plans), None)
            return CommandButton(text, times=times, why_not=self.why_no_cancel, plan=plan)
        service = service_of(words) if is_name(self._name) else None
        if service is None:
            return CommandButton(text, times=times)
        return CommandButton(text, json.dumps(words), service.dag, times, self.why_not(service.dag))

    def of_service(self, service: Service) -> CommandButton:
        """Return the command of a service without options."""
        return self.of_text(shlex.join([PROGRAM, service.command, self._name]))

    def of_plan(self, said: str) -> CommandButton | None:
        """Return the command that a plan's next step names; None: no DAG runs it."""
        named = _COMMAND.search(said)
        if named is None:
            return None
        words = [self._name if word == "TABLE" else word for word in named[1].split()]
        found = self.of_text(shlex.join([PROGRAM, *words]))
        return found if found.words else None

    def why_not(self, dag: str) -> str:
        """Return why the user may not start a DAG; empty: the user may."""
        return "" if self._may_run(dag) else f"You may not start runs of the DAG {dag}."

    @property
    def why_no_look(self) -> str:
        """Why the user may not ask for a fresh look; empty: the user may."""
        may_act = self._reader.may_run("health") or any(map(self._may_run, SERVICES))
        return "" if may_act else "You may not start runs of the DAG health, or of a service."

    @property
    def why_no_cancel(self) -> str:
        """Why the user may not cancel plans; empty: the user may."""
        return "" if self._reader.may_cancel else "You may not start runs of the DAG cancel."


def listed(row: TableRow, now_ms: int) -> ListedTable:
    """Return a row of the list."""
    return ListedTable(
        row=row,
        checks={str(one["check"]): one for one in row.checks},
        wrong=[str(one["check"]) for one in row.checks if one["status"] in TROUBLE],
        has_page=is_name(row.name),
        is_stale=is_stale(row.at_ms, now_ms),
        run=row.run,
        run_address=run_address(str(row.run.get("dag_run") or "")) if row.run else "",
    )


def is_stale(at_ms: int | None, now_ms: int) -> bool:
    """Return whether a verdict is too old, or of a clock that was ahead."""
    return at_ms is not None and not -AHEAD_MS <= now_ms - at_ms <= STALE_MS


def check_names(tables: Sequence[ListedTable]) -> list[str]:
    """Return the names of the checks of some tables, in the order of the verdicts."""
    return list(dict.fromkeys(name for table in tables for name in table.checks))


def shown(details: TableDetails, runs: Sequence[Any], reader: Reader, now_ms: int) -> ShownTable:
    """Return what the page of a table shows."""
    row, verdict, picture = details.row, details.verdict, details.picture or {}
    plans = [{**one, "planned_ms": _planned_ms(one, details.picture_at_ms)} for one in picture.get("plans", ())]
    pending = [one for one in plans if one.get("state") != "aborted"]
    buttons = Buttons(reader, row.name, pending)
    checks = [_with_commands(one, buttons) for one in (verdict or {}).get("checks", ())]
    cancelled = {str(one.get("instant")) for one in pending if one.get("state") == "cancelled"}
    timeline = picture.get("timeline", ())
    about = picture.get("about", {})
    return ShownTable(
        row=row,
        verdict=verdict,
        is_stale=is_stale(row.at_ms, now_ms),
        picture=picture,
        picture_at_ms=details.picture_at_ms,
        troubles=[one for one in checks if one.get("status") in TROUBLE],
        others=[one for one in checks if one.get("status") not in TROUBLE],
        about=[(name, about[name]) for name in _ABOUT_FIRST if about.get(name) not in (None, "")],
        settings=_settings(about),
        columns=about.get("columns", ()),
        plans=[{**one, "command": buttons.of_plan(str(one.get("next", "")))} for one in pending],
        aborted=[one for one in reversed(plans) if one.get("state") == "aborted"],
        timeline=list(reversed(timeline)),
        drawing=drawn(timeline, cancelled, row.name) if timeline else None,
        leases=[{**one, "address": run_address(str(one.get("run") or ""))} for one in picture.get("leases", ())],
        runs=[{"run": one, "address": run_address(one.dag_run)} for one in runs],
        menu=[(one, buttons.of_service(one)) for one in menu(about)],
        why_no_look=buttons.why_no_look,
        why_no_cancel=buttons.why_no_cancel,
        earlier=details.earlier,
        errors=picture.get("errors", {}),
    )


def _with_commands(check: Mapping[str, Any], buttons: Buttons) -> dict[str, Any]:
    times = Counter(check.get("commands", ()))
    since_ms = ms_of(str(check["since"])) if check.get("since") else None
    return {
        **check,
        "since_ms": since_ms,
        "commands_shown": [buttons.of_text(text, often) for text, often in times.items()],
    }


def _planned_ms(plan: Mapping[str, Any], at_ms: int | None) -> float | None:
    """Return when a plan was made: its age is as of the picture."""
    age_s = plan.get("age_s")
    return at_ms - age_s * 1000 if at_ms is not None and isinstance(age_s, (int, float)) else None


def _settings(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    said = ((name, shown_setting(value)) for name, value in about.items() if name not in _ABOUT_ELSEWHERE)
    return [(name, value) for name, value in said if value]
