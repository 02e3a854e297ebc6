"""Refusals of tables that cannot be adopted as they are."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.config.table import PARTITION_EXTRACTOR, SLASH_DATES, TableConfig
from hudi_ops.errors import Busy, Unsupported
from hudi_ops.timeline.active import Timeline
from hudi_ops.view.slices import Slice


def refuse_first_write(config: TableConfig, timeline: Timeline) -> None:
    """Refuse a table whose first write is pending.

    Raises:
        Busy: names it.
    """
    # Our empty first commit would be the timeline's start, and readers that list files take older ones for committed.
    pending = next((instant for instant in timeline.pending if instant.is_write), None)
    if pending is not None and not timeline.completed_writes:
        raise Busy(
            "the table's first write is pending",
            table=config.name,
            instant=pending.time,
            expected="a completed write, or none at all",
            found=str(pending),
            next_step="wait until it has completed; if its writer is dead, let Apache Hudi roll it back",
        )


def refuse_slashes(config: TableConfig, slices: Sequence[Slice]) -> None:
    """Refuse a table whose partition values have slashes, which no setting announces.

    Raises:
        Unsupported: names a partition.
    """
    fields = len(config.partition_fields)
    is_told = not fields or config.key_generator == "TIMESTAMP" or config.has_slash_dates
    deep = next((one.partition_path for one in slices if one.partition_path.count("/") >= fields), None)
    if deep is not None and not is_told:
        raise Unsupported(
            "values of its partition column have slashes: rows with such a value could not be written",
            table=config.name,
            expected=f"one folder for each of its {fields} partition fields, or a setting that announces dates with slashes "
            f"({PARTITION_EXTRACTOR}, {SLASH_DATES})",
            found=f"partition {deep}",
            next_step="go on writing it with Apache Hudi, and `hudi-ops adopt TABLE --services-only` to have it serviced; or copy "
            "its rows into a table that is partitioned by a date column or encodes its paths",
            partition=deep,
        )
