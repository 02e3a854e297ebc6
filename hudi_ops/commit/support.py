"""Which tables can be written, and why the others cannot: one place, so that every door gives the same answer."""

from __future__ import annotations

from hudi_ops.config.key_generators import WRITABLE_TYPES, time_partition_of
from hudi_ops.config.table import WRITABLE_VERSIONS, TableConfig
from hudi_ops.errors import HudiOpsError, Unsupported
from hudi_ops.metadata.reader.layout import unkept_partitions
from hudi_ops.timeline.state import TableState

_DELETE_MARKER = "hoodie.record.merge.property."


def refuse_unwritable(config: TableConfig) -> None:
    """Refuse tables that need what is not written yet.

    Raises:
        Unsupported: names the feature.
    """
    problem, next_step = _foreign_feature(config), ""
    if config.version not in WRITABLE_VERSIONS:
        problem = f"its version is {config.version}"
    elif strange := unkept_partitions(config):
        problem = f"its metadata table has partitions that are not kept yet ({', '.join(strange)})"
        next_step = (
            f"take them out with `hudi-ops metadata drop TABLE {' '.join(strange)}`, drop its whole metadata table with "
            "--drop-metadata-table, or write it with Apache Hudi alone"
        )
    elif config.merge_mode == "CUSTOM":
        problem = "it merges rows by a custom class"
    elif len(config.ordering_fields) > 1:
        problem = f"it orders by several fields ({', '.join(config.ordering_fields)})"
    elif config.key_generator not in WRITABLE_TYPES:
        problem = f"its keys are made by the key generator {config.key_generator}"
    elif config.dropped_columns:
        problem = _problem_of_dropped(config)
    elif config.key_generator == "TIMESTAMP":
        problem = _problem_of_times(config)
    if problem:
        raise Unsupported(
            f"this table cannot be written: {problem}",
            table=config.name,
            expected="a table of version 8 or 9 with what writers of ours keep",
            found=problem,
            next_step=next_step
            or "write it with Apache Hudi; `hudi-ops read` and `hudi-ops show` work where files allow",
        )


def refuse_other_index(state: TableState) -> None:
    """Rows go where the table's index finds them again.

    Raises:
        Unsupported: its index is Apache Hudi's own.
    """
    if not state.log.properties.facts.takes_rows:
        raise Unsupported(
            "this table was adopted for services only: its index is Apache Hudi's own, which would not find what we write",
            table=state.config.name,
            expected="the bucket (simple engine), bloom, simple or record index",
            found="another index",
            next_step="write its rows with Apache Hudi; compact it, remove partitions and read it here",
        )


def refuse_index(index: str, meta_fields: bool, table: str) -> None:
    """Refuse what no table can have.

    Raises:
        Unsupported: keys would have to be looked up, and no column holds them.
    """
    if index != "simple_bucket" and not meta_fields:
        raise Unsupported(
            f"a table without meta columns cannot have the index {index}",
            table=table,
            expected="meta columns, or the bucket index",
            found=f"index {index}, without meta columns",
            next_step="change one of the two: Apache Hudi's writers can use the bucket index only, too",
        )


def without_metadata_table(config: TableConfig) -> TableConfig:
    """The settings as they will be once the metadata table is dropped."""
    return config.model_copy(update={"metadata_partitions": (), "metadata_partitions_inflight": ()})


def _foreign_feature(config: TableConfig) -> str:
    """What Apache Hudi can do with a table of its own and writers of ours would break; empty when there is nothing."""
    raw = config.raw
    if not config.record_key_fields:
        return "it has no record key: Apache Hudi makes up its keys"
    if raw.get("hoodie.table.cdc.enabled", "").lower() == "true":
        return "it logs changes (hoodie.table.cdc.enabled), which writers of ours do not"
    if raw.get("hoodie.bootstrap.base.path"):
        return "it is bootstrapped: its rows lie partly in another folder (hoodie.bootstrap.base.path)"
    if raw.get("hoodie.table.multiple.base.file.formats.enable", "").lower() == "true":
        return "its base files have several formats"
    if raw.get("hoodie.table.format", "native").lower() not in {"", "native"}:
        return f"its metadata is kept in the format {raw['hoodie.table.format']}"
    if raw.get("hoodie.table.partial.update.mode", "NONE").upper() not in {"", "NONE"}:
        return f"it merges rows field by field ({raw['hoodie.table.partial.update.mode']})"
    marked = sorted(key for key, value in raw.items() if key.startswith(_DELETE_MARKER) and value)
    return f"rows of it are merged by a setting of their own ({marked[0]})" if marked else ""


def _problem_of_dropped(config: TableConfig) -> str:
    """Keys and order are made of what files hold, and the value of a dropped column of what its path prints."""
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
