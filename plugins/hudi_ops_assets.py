"""Emit an event of the asset `hudi://trips` for each completed instant of the table `trips`.

A task learns which table it works on when it runs, and whether it makes an instant when it ends. So it has an asset alias as its
outlet: an alias has no event of its own, and passes on those that are added to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from airflow.sdk import Context

TABLES = AssetAlias("hudi_ops_tables")
"""Outlet of all tasks that complete instants of a table."""

_REWRITING = {
    "compact": ("compaction", "slices"),
    "cluster": ("clustering", "groups"),
    "resize": ("resize", "groups"),
}
"""Applications that rewrite file groups: the action of their instants, and the field of a result that only a completed one has."""


def asset_of(table: str) -> Asset:
    """Return the asset of a table of `tables.yaml`."""
    return Asset(f"hudi://{table}")


def events_of(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield instant, action and rows of each instant that an application completed."""
    app, instant = result.get("app"), result.get("instant")
    if app == "ingest" and instant:
        yield {"instant": instant, "action": str(result.get("operation")), "rows": int(result.get("rows_in") or 0)}
    # A published plan has an instant as well: it is not completed.
    elif app in _REWRITING and instant and result.get(_REWRITING[app][1]):
        yield {"instant": instant, "action": _REWRITING[app][0], "rows": int(result.get("rows") or 0)}
    elif app == "clean" and instant and "deleted" in result and not result.get("note"):
        yield {"instant": instant, "action": "clean", "rows": 0}
    elif app == "recover":
        for undone in result.get("rolled_back") or ():
            yield {"instant": undone["rollback"], "action": "rollback", "rows": 0}


def emit_events(context: Context, table: str, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Add an event for each completed instant to the asset of a table; return them.

    Args:
        context: of the task, which has `TABLES` among its outlets.
        table: a name of `tables.yaml`.
        result: last line of the application.
    """
    events = list(events_of(result))
    for event in events:
        context["outlet_events"][TABLES].add(asset_of(table), extra=event)
    return events
