"""Resolve a contradiction of `hoodie.properties` and the commit log, as the user chooses.

Source: docs/protocol §6.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import get_args

from hudi_ops.commit.session import Session
from hudi_ops.config.logged_settings import (
    ORDERING_FIELDS,
    PARTITION_FIELDS,
    RECORD_KEYS,
    Difference,
    SettingsSource,
    as_logged,
    differences,
    settings_of,
)
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.result import Result
from hudi_ops.timeline.log.entries import Entry, Properties
from hudi_ops.timeline.log.head import newest_log
from hudi_ops.timeline.settings.properties_file import read_properties
from hudi_ops.timeline.settings.settings_check import repaired_config
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import row_schema, table_schema

logger = logging.getLogger(__name__)

_AGREED = "hoodie.properties agrees with the commit log: there is nothing to repair"


@dataclass(frozen=True)
class PropertiesRepair(Result):
    """Result of a repair; `source` is the user's choice, `slot` records it if there was one."""

    table: str
    source: SettingsSource | None
    differences: tuple[Difference, ...]
    slot: int | None = None
    dry_run: bool = False
    note: str = ""


def repair_properties(session: Session, source: SettingsSource | None, *, dry_run: bool = False) -> PropertiesRepair:
    """Put the commit log's values back into `hoodie.properties`, or record the file's values.

    Args:
        source: which of the two is right; None, with `dry_run` only: not chosen yet.
        dry_run: return the differences; change nothing.

    Raises:
        InvalidRequest: no such source, the table has no commit log, or the file names fields that are no columns.
        Corrupt: the file cannot be read, or its values are invalid.
        Busy: the lock is held.
    """
    if source not in get_args(SettingsSource) and not (source is None and dry_run):
        raise InvalidRequest(
            f"properties cannot be repaired from {source!r}", expected="log or file", found=str(source)
        )
    storage = session.ctx.storage
    log = newest_log(storage)
    if log is None:
        raise InvalidRequest(
            "the table has no commit log to compare its properties with",
            table=storage.uri,
            expected="a table that was made or adopted by hudi-ops",
            found="no commit log",
            next_step="correct hoodie.properties by hand, or run `hudi-ops adopt`",
        )
    name = repaired_config(storage).name
    wrong = differences(log.properties.settings, read_properties(storage))
    if dry_run or source is None:
        return PropertiesRepair(name, source, wrong, dry_run=True, note="" if wrong else _AGREED)
    session.loader.repairs = source
    try:
        decided = session.decide(lambda state, slot: _entry(session, state, source), "repair hoodie.properties")
    finally:
        session.loader.repairs = None
    if decided is None:
        return PropertiesRepair(name, source, (), note=_AGREED)
    logger.warning(
        "slot %s: properties of %s as the %s says: %s", decided.slot, name, source, "; ".join(map(str, wrong))
    )
    return PropertiesRepair(name, source, wrong, decided.slot)


def _entry(session: Session, state: TableState, source: SettingsSource) -> Entry | None:
    """Return the entry that records the choice; None if file and log agree."""
    kept = state.log.properties.settings
    # Read the file: the settings of the state already have the values of the log.
    raw = read_properties(session.ctx.storage)
    if not differences(kept, raw):
        return None
    decision = session.entry(state, f"repair properties {session.ctx.ids.new_id()}")
    carried, to_build = state.log.properties.carried(), state.log.properties.to_build
    if source == "log":
        repaired = as_logged(raw, kept)
        changed = {key: value for key, value in repaired.items() if raw.get(key) != value}
        gone = tuple(sorted(raw.keys() - repaired.keys()))
        return Properties(**decision, **carried, set=changed, remove=gone, to_build=to_build)
    _refuse_unknown_fields(session, state)
    return Properties(**decision, **{**carried, "settings": settings_of(raw)}, to_build=to_build)


def _refuse_unknown_fields(session: Session, state: TableState) -> None:
    config = state.config
    columns = row_schema(config, table_schema(config, state.timeline, session.commits)).names
    for key, fields in (
        (RECORD_KEYS, config.record_key_fields),
        (PARTITION_FIELDS, config.partition_fields),
        (ORDERING_FIELDS, config.ordering_fields),
    ):
        for field in fields:
            if field.split(".")[0] not in columns:
                raise InvalidRequest(
                    f"{key} names {field}, but the table has no such column: the file cannot be right",
                    table=config.name,
                    expected=", ".join(columns),
                    found=field,
                    next_step="correct the file, or put the values of the log back with "
                    "`hudi-ops repair-properties TABLE --from-log`",
                    field=field,
                )
