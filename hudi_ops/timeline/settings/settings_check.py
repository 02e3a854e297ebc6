"""Comparison of `hoodie.properties` with the commit log.

A damaged or edited file is refused, and never repaired automatically. A reader compares it with the slot that the file names, which
costs one read for a session; a writer has loaded the log. Only if both disagree, more is read: the newest slots, decided entries
that are not folded yet, and the file once more. Apache Hudi rewrites the file by deletion and creation, with a backup in between.

Source: docs/protocol §6; docs/format §1.4.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hudi_ops.config.logged_settings import Difference, Settings, as_logged, differences
from hudi_ops.config.table import PROPERTIES_PATH, TableConfig
from hudi_ops.errors import Corrupt, HudiOpsError, Internal, Unsupported
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import Log, read_slot
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.log.head import newest_log
from hudi_ops.timeline.settings.properties_file import folded_slot, load_config, read_backup, read_properties

logger = logging.getLogger(__name__)

LOOKS = 3
"""Number of times that a file which contradicts the log is read before the error is raised."""


def entries_above(storage: Storage, log: Log, slot: int) -> list[tuple[int, Properties]]:
    """Return (slot, entry) of PROPERTIES above a slot, oldest first; each names the one before."""
    found: list[tuple[int, Properties]] = []
    at, entry = log.properties_slot, log.properties
    while at > slot:
        found.append((at, entry))
        at = entry.properties_slot
        before = read_slot(storage, at) if at > slot else None
        if not isinstance(before, Properties):
            break
        entry = before
    return found[::-1]


def with_entry(values: Settings, entry: Properties) -> dict[str, str]:
    """Return the properties after applying an entry's changes."""
    return {key: value for key, value in {**values, **entry.set}.items() if key not in entry.remove}


def open_config(storage: Storage, known: dict[int, Settings]) -> TableConfig:
    """Return a table's settings for reading rows; the table type is taken from the file.

    `known` caches settings by slot for a session; settings that are read are added to it.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: the file cannot be read, or contradicts the log.
        Unsupported: a table version that cannot be opened.
    """
    config = parsed_config(storage)
    slot = folded_slot(config.raw) or 0
    if slot not in known:
        try:
            entry = read_slot(storage, slot)
            known[slot] = entry.settings if isinstance(entry, Properties) else _newest(storage, slot)
        except Corrupt as error:
            logger.warning("the table's properties are not compared with its commit log: %s", error)
            return config  # a broken log stops writers; rows can be read without it
    if not differences(known[slot], config.raw, with_type=False):
        return config
    log = newest_log(storage)
    if log is None:
        return config  # the table whose log was known is gone, and a foreign writer created this one
    found = agreed(storage, log, with_type=False)
    known[slot] = log.properties.settings
    return found


def logged_config(storage: Storage, config: TableConfig, log: Log) -> TableConfig:
    """Return settings for writing: `config` if it agrees with the log, else settings read again.

    `log` is the newest part of the log, read after `config`.

    Raises:
        Corrupt: the file contradicts the log.
    """
    return agreed(storage, log) if differences(log.properties.settings, config.raw) else config


def parsed_config(storage: Storage) -> TableConfig:
    """Return a table's settings before comparison.

    If they cannot be parsed, and the file contradicts the log, the error names the contradiction.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: the file cannot be read, or contradicts the log.
        Unsupported: a table version that cannot be opened.
    """
    try:
        return load_config(storage)
    except (Corrupt, Unsupported):
        log = newest_log(storage)
        if log is None:
            raise
        return agreed(storage, log)


def repaired_config(storage: Storage) -> TableConfig:
    """Return a table's settings, with the log's values where the file contradicts it.

    The file is not changed.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: the file cannot be read, or lacks keys that no log keeps.
        Unsupported: a table version that cannot be opened.
    """
    log = newest_log(storage)
    kept = log.properties.settings if log is not None else {}
    return TableConfig.from_properties(as_logged(read_properties(storage), kept))


def refuse_unopenable(storage: Storage) -> None:
    """Refuse a path without a table that can be opened, now or after repair from the log.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: its properties cannot be read.
        Unsupported: a table version that cannot be opened.
    """
    try:
        load_config(storage)
    except (Corrupt, Unsupported):
        repaired_config(storage)


def agreed(storage: Storage, log: Log, *, with_type: bool = True) -> TableConfig:
    """Return the settings of a table whose file seems to contradict the log.

    Decided entries that are not folded yet count as folded. If lines are missing, the backup is read, as Apache Hudi does.

    Raises:
        Corrupt: the file does contradict the log, or cannot be parsed.
        Unsupported: a table version that cannot be opened.
    """
    kept = log.properties.settings
    problem: HudiOpsError | None = None
    for _ in range(LOOKS):
        raw = read_properties(storage)
        backup = None if any(difference.found for difference in differences(kept, raw)) else read_backup(storage)
        for values in (raw, backup):
            try:
                if values is not None:
                    return _judged(storage, log, kept, values, with_type=with_type)
            except (Corrupt, Unsupported) as error:
                problem = problem or error
    raise problem or Internal("properties were neither accepted nor refused", table=storage.uri)


def _judged(storage: Storage, log: Log, kept: Settings, raw: Settings, *, with_type: bool) -> TableConfig:
    said = folded_slot(raw)
    values = dict(raw)
    for _, entry in entries_above(storage, log, log.properties_slot if said is None else said):
        values = with_entry(values, entry)
    wrong = differences(kept, values, with_type=with_type)
    if wrong:
        raise contradiction(wrong, raw.get("hoodie.table.name", "") or storage.uri)
    return TableConfig.from_properties(values)


def contradiction(wrong: Sequence[Difference], table: str) -> Corrupt:
    """Return the error of a file that contradicts the log."""
    return Corrupt(
        f"{PROPERTIES_PATH} contradicts the commit log: {wrong[0]}"
        + (f", and {len(wrong) - 1} more" * (len(wrong) > 1)),
        table=table,
        expected="; ".join(f"{difference.key}={difference.logged}" for difference in wrong),
        found="; ".join(f"{difference.key}={difference.found}" for difference in wrong),
        next_step="compare them with `hudi-ops repair-properties TABLE --dry-run`; then put the values of the log back "
        "with --from-log, or, if the change was intended, record those of the file with --accept-file",
    )


def _newest(storage: Storage, slot: int) -> Settings:
    """Return the log's newest settings, for a file that names no PROPERTIES slot."""
    log = newest_log(storage) if slot > 0 else None
    return log.properties.settings if log is not None else {}
