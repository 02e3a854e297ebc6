"""Look at a table, preview a command, cancel a plan: the operations of a child process."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

from hudi_ops.errors import HudiOpsError, Internal, InvalidRequest, Unavailable
from hudi_ops.page.work.command import Command, command_of, conf_of

if TYPE_CHECKING:
    from hudi_ops.config.tables_file import TableDeclaration, TableLocation
    from hudi_ops.health.look import Look

LOOK_S = 7.0
"""Seconds that storage has for a fresh look, so that a table that does not answer gets a verdict that says so."""

LOCK_WAIT_S = 6.0
"""Longest wait of a cancel for the table lock.

The server kills a child after ten seconds. A killed holder of the lock blocks writers until its ZooKeeper session ends.
"""

DRY_RUN_MAX = 1_000_000
"""Characters of a dry run that are passed on as they are; longer lists of it are cut."""

ROWS_MAX = 1_000
"""Rows of a list in a dry run that is too long."""

_LOG = logging.getLogger("hudi_ops.page.work")

STATUSES: Mapping[int, int] = {0: 200, 2: 422, 3: 422, 10: 409, 11: 409, 12: 409, 13: 503, 14: 503}
"""HTTP status of each exit code; 500 for a damaged table, a fault of the program, and any other."""

_BY_CLASS = {
    "InstantNotFound": 404,
    "AlreadyCommitted": 409,
    "InstantArchived": 409,
    "NotCancellable": 409,
    "PermissionDenied": 503,
}
"""HTTP status of errors whose exit code does not tell what a client does next."""

Answer = tuple[int, dict[str, Any] | str]
"""HTTP status, and the JSON object or its text."""


def status_of(error: Mapping[str, Any]) -> int:
    """Return the HTTP status of an error as `HudiOpsError.as_dict` gives it."""
    return _BY_CLASS.get(str(error.get("error")), STATUSES.get(int(error.get("exit_code", 70)), 500))


def answer(request: Mapping[str, Any]) -> Answer:
    """Do the work of a request, and return its answer; errors are answers, too."""
    try:
        location = _located(str(request["table"]))
        if location is None:
            return 404, _unknown_table(str(request["table"]))
        return _OPERATIONS[str(request["operation"])](location, request)
    except HudiOpsError as error:
        found = error.at(table=str(request["table"])).as_dict()
        return status_of(found), found
    except Exception as error:  # noqa: BLE001
        # The edge of the process: the answer must report every error.
        _LOG.exception("unexpected %s", type(error).__name__)
        fault = Internal(f"unexpected {type(error).__name__}: {error}", next_step="report it, with the server's log")
        return 500, fault.as_dict()


def _located(name: str) -> TableLocation | None:
    """Return the place of a table that `tables.yaml` declares by this name, or None."""
    from hudi_ops.config.tables_file import load_tables, locate_table

    declared = load_tables()
    return locate_table(name, declared) if name in declared.tables else None


def _unknown_table(name: str) -> dict[str, Any]:
    return InvalidRequest(
        f"tables.yaml declares no table {name!r}", next_step="declare it, or open the page of another table"
    ).as_dict()


def _look(location: TableLocation, request: Mapping[str, Any]) -> Answer:
    """Judge and picture a table, and keep both in the registry.

    A look that ran out of time keeps nothing: the DAG `health` gives the table more time, and its verdict is the better one.
    """
    from hudi_ops.clock import SystemClock
    from hudi_ops.registry.database import opened
    from hudi_ops.registry.refresh import look_at, registry_at

    try:
        kept = registry_at(opened())
    except HudiOpsError as error:
        return 503, error.as_dict()
    clock, is_missed = SystemClock(), False
    end_s = clock.monotonic_s() + LOOK_S

    def save(found: Any) -> None:
        nonlocal is_missed
        is_missed = found.verdict.error is not None and clock.monotonic_s() >= end_s
        if not is_missed:
            kept.save(found)

    (verdict,) = look_at([location.name], None, replace(kept, save=save), limit_s=LOOK_S)
    if is_missed:
        return 503, Unavailable(
            f"the table did not answer within {LOOK_S:g} s; the page shows the verdict before",
            table=location.name,
            next_step=f"`hudi-ops registry refresh {location.name}` has two minutes",
        ).as_dict()
    return 200, {"verdict": verdict.model_dump(mode="json", exclude={"seen"}), "at": verdict.at}


def _preview(location: TableLocation, request: Mapping[str, Any]) -> Answer:
    """Return the dry run of a command, and the configuration of the DAG run that does it."""
    declared, table = _declaration(location), location.name
    command = command_of([str(word) for word in request["command"]], table, declared)
    look = _looked(location)
    digest = _digest(look)  # before the dry run: a change while it runs is a change after it
    is_of_plan = command.mode == "execute" or bool(command.instant)
    why_not = command.why_not or (_why_not_executed(look, command) if is_of_plan else "")
    dry_run, notes, left_out = "null", list(command.notes), dict[str, int]()
    if command.service.previews:
        code, dry_run = _run(["plans", table, "--json"] if is_of_plan else command.arguments())
        if code != 0:
            error = json.loads(dry_run)
            return status_of(error), error
        dry_run, left_out = _shortened(dry_run)
    else:
        notes.append(f"{command.service.command} has no dry run. {command.service.does}; live writers are left alone.")
    if is_of_plan:
        notes.append("The command executes a plan that is pending already; these are the pending plans.")
    conf = conf_of(command, table, declared) if not why_not else None
    if conf is None and not why_not:
        why_not = f"The form of the DAG {command.service.dag} has no way to say this: run the command."
    facts = {
        "service": command.service.dag,
        "dag_ids": list(command.dags),
        "conf": conf,
        "digest": digest,
        "command": command.text,
        "why_not": why_not,
        "notes": notes,
        "left_out": left_out,
    }
    return 200, f'{json.dumps(facts)[:-1]}, "dry_run": {dry_run}}}'


def _shortened(dry_run: str) -> tuple[str, dict[str, int]]:
    """Return a dry run without the end of its long lists, and how many rows each list lost."""
    if len(dry_run) <= DRY_RUN_MAX:
        return dry_run, {}
    facts = json.loads(dry_run)
    long = {name: value for name, value in facts.items() if isinstance(value, list) and len(value) > ROWS_MAX}
    cut = {**facts, **{name: value[:ROWS_MAX] for name, value in long.items()}}
    return json.dumps(cut), {name: len(value) - ROWS_MAX for name, value in long.items()}


def _why_not_executed(look: Look, command: Command) -> str:
    """Return why the DAG would not execute the plan that a command executes; empty: it does.

    A DAG takes the oldest pending plan without a live executor.
    """
    from hudi_ops.services.cancel.endings import words_of_plan
    from hudi_ops.timeline.names import SERVICE_ACTIONS

    ctx = look.session.ctx
    for plan in sorted(look.state.timeline.pending, key=lambda one: one.time):
        lease = look.lease_of(plan.time)
        is_live = lease is not None and not lease.is_dead(ctx.clock)
        if plan.action not in SERVICE_ACTIONS or is_live:
            continue
        words = words_of_plan(ctx.storage, look.state, plan, is_ours=True)
        if words[:1] == (command.service.command,):
            is_it = command.instant in ("", plan.time)
            return "" if is_it else f"The DAG executes the oldest plan first, {plan.time}: run the command."
    return "No such plan waits for an executor: it was executed or cancelled, or a live process executes it."


def _state(location: TableLocation, request: Mapping[str, Any]) -> Answer:
    """Return whether the state of a table is another one than a preview saw, with six reads."""
    from hudi_ops.health.seen import state_digest
    from hudi_ops.read.current_view import storage_at

    head, _, digest = str(request["digest"]).partition(".")
    return 200, {"moved": state_digest(storage_at(location), int(head), with_beats=False) != digest}


def _cancel(location: TableLocation, request: Mapping[str, Any]) -> Answer:
    """Request the cancel of a plan, and remove it if no process executes it."""
    from hudi_ops.config.conflict_settings import ConflictSettings
    from hudi_ops.table.table import Table

    declared: ConflictSettings = location.options().get("conflicts") or ConflictSettings()
    wait_s = min(declared.lock_wait_s, LOCK_WAIT_S)
    table = Table.at(location, conflicts=declared.model_copy(update={"lock_wait_s": wait_s}))
    try:
        done = table.cancel(
            str(request["instant"]),
            str(request["reason"]),
            requester=str(request["requester"]),
            force=bool(request.get("force")),
            wait_s=0.0,
        )
    finally:
        table.close()
    return 200, done.as_dict()


def _plan(location: TableLocation, request: Mapping[str, Any]) -> Answer:
    """Return the state of one plan."""
    code, said = _run(["plans", location.name, str(request["instant"]), "--json"])
    if code == 0:
        return 200, said
    error = json.loads(said)
    is_unknown = error.get("error") == "InvalidRequest" and error.get("instant")
    return 404 if is_unknown else status_of(error), error


def _run(arguments: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and the JSON object that it prints."""
    from hudi_ops.cli.main import main

    printed = StringIO()
    with redirect_stdout(printed):
        code = main(arguments)
    lines = printed.getvalue().splitlines() or ["null"]
    return code, lines[-1]


def _declaration(location: TableLocation) -> TableDeclaration:
    assert location.declaration is not None  # noqa: S101 - `_located` takes declared tables alone
    return location.declaration


def _looked(location: TableLocation) -> Look:
    from hudi_ops.health.look import Look
    from hudi_ops.health.many import session_at

    return Look.at(session_at(location))


def _digest(look: Look) -> str:
    """Return the digest of a table's state, with the newest slot, of which it is."""
    from hudi_ops.health.seen import state_digest

    head = look.state.log.head
    return f"{head}.{state_digest(look.viewed, head, with_beats=False)}"


_OPERATIONS: Mapping[str, Callable[[TableLocation, Mapping[str, Any]], Answer]] = {
    "look": _look,
    "preview": _preview,
    "state": _state,
    "cancel": _cancel,
    "plan": _plan,
}
