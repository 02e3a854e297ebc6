"""Checks that refuse tables which hudi_ops cannot write; every entry point uses them."""

from __future__ import annotations

from hudi_ops.config.key_generators import WRITABLE_TYPES, time_partition_of
from hudi_ops.config.table import WRITABLE_VERSIONS, TableConfig
from hudi_ops.errors import HudiOpsError, Unsupported
from hudi_ops.kernels.keys.keys import ambiguous_name
from hudi_ops.metadata.reader.layout import unkept_partitions
from hudi_ops.timeline.state import TableState

_DELETE_MARKER = "hoodie.record.merge.property."


def refuse_unwritable(config: TableConfig) -> None:
    """Refuse tables that need features hudi_ops cannot write yet.

    Raises:
        Unsupported: names the feature.
    """
    problem, next_step = _foreign_feature(config), ""
    if config.version not in WRITABLE_VERSIONS:
        problem = f"its version is {config.version}"
    elif unkept := unkept_partitions(config):
        problem = f"its metadata table has partitions that are not kept yet ({', '.join(unkept)})"
        next_step = (
            f"remove them with `hudi-ops index TABLE drop {' '.join(unkept)}`, drop its whole metadata table with "
            "--drop-metadata-table, or write it with Apache Hudi alone"
        )
    elif config.merge_mode == "CUSTOM":
        problem = "it merges rows by a custom class"
    elif len(config.ordering_fields) > 1:
        problem = f"it orders by several fields ({', '.join(config.ordering_fields)})"
    elif config.key_generator not in WRITABLE_TYPES:
        problem = f"its keys are made by the key generator {config.key_generator}"
    elif config.has_slash_dates and (len(config.partition_fields) != 1 or config.hive_style or config.url_encode):
        problem = "it has slash-separated dates beside another form of its partition paths"
    elif config.has_slash_dates and config.dropped_columns:
        problem = "its files lack the partition column, and its paths have slash-separated dates"
    elif config.dropped_columns:
        problem = _problem_of_dropped(config)
    elif config.key_generator == "TIMESTAMP":
        problem = _problem_of_times(config)
    if problem:
        raise Unsupported(
            f"this table cannot be written: {problem}",
            table=config.name,
            expected="a table of version 8 or 9 with features that hudi_ops writes",
            found=problem,
            next_step=next_step
            or "write it with Apache Hudi; `hudi-ops read` and `hudi-ops show` work where files allow",
        )


def refuse_unserviced(config: TableConfig, service: str) -> None:
    """Refuse tables that cannot be written, and those whose timeline has layout 1.

    Args:
        config: settings of the table.
        service: name of the service, which needs layout 2.

    Raises:
        Unsupported: names the feature or the layout.
    """
    refuse_unwritable(config)
    if config.layout != 2:
        raise Unsupported(
            f"{service} needs the timeline of version 8 or later",
            table=config.name,
            expected="timeline layout 2, as tables of version 8 and 9 have it",
            found=f"layout {config.layout}, version {config.version}",
            next_step=f"upgrade the table with Apache Hudi, or run {service} there",
        )


def refuse_other_index(state: TableState) -> None:
    """Refuse to write rows into a table whose index hudi_ops does not maintain.

    Raises:
        Unsupported: only Apache Hudi maintains the table's index.
    """
    if not state.log.properties.facts.takes_rows:
        raise Unsupported(
            "this table was adopted for services only: its index is Apache Hudi's own, which would not find what we write",
            table=state.config.name,
            expected="the bucket, bloom, simple or record index",
            found="another index",
            next_step="write its rows with Apache Hudi; compact it, remove partitions and read it here",
        )


def refuse_index(index: str, meta_fields: bool, table: str) -> None:
    """Refuse an index that needs the key column in a table without meta columns.

    Raises:
        Unsupported: keys would be looked up, and no column holds them.
    """
    if index != "simple_bucket" and not meta_fields:
        raise Unsupported(
            f"a table without meta columns cannot have the index {index}",
            table=table,
            expected="meta columns, or the bucket index with the engine simple",
            found=f"index {index}, without meta columns",
            next_step="change one of the two: Apache Hudi's writers can use the simple bucket index only, too",
        )


def without_metadata_table(config: TableConfig) -> TableConfig:
    """Return the settings that the table has after its metadata table is dropped."""
    return config.model_copy(update={"metadata_partitions": (), "metadata_partitions_inflight": ()})


def _foreign_feature(config: TableConfig) -> str:
    """Return the feature of a table that hudi_ops writes would break; empty without one."""
    raw = config.raw
    if not config.record_key_fields:
        return "it has no record key: Apache Hudi makes up its keys"
    if (name := ambiguous_name(config.record_key_fields)) is not None:
        return f"its key field {name!r} has a colon in its name, so that different rows could have one key"
    if raw.get("hoodie.table.cdc.enabled", "").lower() == "true":
        return "it logs changes (hoodie.table.cdc.enabled), which hudi_ops does not"
    if raw.get("hoodie.bootstrap.base.path"):
        return "it is bootstrapped: some of its rows are in another folder (hoodie.bootstrap.base.path)"
    if raw.get("hoodie.table.multiple.base.file.formats.enable", "").lower() == "true":
        return "its base files have several formats"
    if raw.get("hoodie.table.format", "native").lower() not in {"", "native"}:
        return f"its metadata is kept in the format {raw['hoodie.table.format']}"
    if raw.get("hoodie.table.partial.update.mode", "NONE").upper() not in {"", "NONE"}:
        return f"it merges rows field by field ({raw['hoodie.table.partial.update.mode']})"
    marked = sorted(key for key, value in raw.items() if key.startswith(_DELETE_MARKER) and value)
    return f"rows of it are merged by a setting of their own ({marked[0]})" if marked else ""


def _problem_of_dropped(config: TableConfig) -> str:
    """Return why dropped columns prevent writes: files lack keys or ordering values."""
    if config.key_generator == "TIMESTAMP":
        return "its files lack the partition column, of which the time-based key generator makes the path"
    needed = {*config.record_key_fields, *config.ordering_fields} & {*config.dropped_columns}
    return f"its files lack {min(needed)}, which keys or order are made of" if needed else ""


def _problem_of_times(config: TableConfig) -> str:
    try:
        time_partition_of(config.raw, config.name)
    except HudiOpsError as error:
        return error.what
    return ""
