"""Confirmation prompt of destructive commands; without a terminal `--yes` is required."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from hudi_ops.errors import Cancelled, InvalidRequest


def can_ask(*, as_json: bool) -> bool:
    """Return whether a person at a terminal can answer."""
    return not as_json and sys.stdin is not None and sys.stdin.isatty()  # None: the caller closed the standard input


def ask(
    operation: str,
    amount: str,
    table: str,
    *,
    yes: bool,
    as_json: bool,
    show: Callable[[], None] = lambda: None,
    verb: str = "remove",
) -> None:
    """Ask for consent, and return only if it is given.

    Args:
        as_json: the output is for a program.

    Raises:
        InvalidRequest: there is no terminal to ask at.
        Cancelled: the answer is no.
    """
    if yes:
        return
    if not can_ask(as_json=as_json):
        verbs = f"{verb}es" if verb.endswith("o") else f"{verb}s"
        raise InvalidRequest(
            f"{operation} {verbs} {amount}, and needs your consent. Not running in a terminal, so it cannot ask",
            table=table,
            next_step="see with --dry-run what would change, then run it again with --yes",
        )
    show()
    if not typer.confirm(f"{verb.capitalize()} {amount} {'from' if verb == 'remove' else 'of'} {table}?", err=True):
        raise Cancelled("not agreed to: nothing was changed", table=table)
