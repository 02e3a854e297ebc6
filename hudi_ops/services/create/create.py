"""Create a table: put slot 0, then the properties file, then an empty first commit.

The empty commit keeps a completed write on the timeline before any pending one: readers that list files take those older than the
timeline's start for committed (docs/format §9.1).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

import pyarrow as pa

from hudi_ops.commit.apply.properties import apply_properties
from hudi_ops.commit.first_commit import ensure_first_commit
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_index
from hudi_ops.config.definition import TableDefinition
from hudi_ops.config.key_generators import check_time_partition, key_generator_type
from hudi_ops.config.logged_settings import settings_of
from hudi_ops.config.table import (
    BACKUP_PATH,
    INDEX_DEFINITIONS_PATH,
    PROPERTIES_PATH,
    IndexKind,
    TableConfig,
    TableFacts,
    bucket_kind,
    index_kind,
    table_type_of,
)
from hudi_ops.errors import HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.formats.arrow_types import in_microseconds, table_columns
from hudi_ops.formats.avro.schema import to_avro
from hudi_ops.index.bucket_engine import bucket_limits
from hudi_ops.kernels.keys.keys import KeySpec, PartitionSpec, partition_paths, record_keys
from hudi_ops.metadata.index_definitions import (
    column_stats_definition,
    encode_index_definitions,
    record_index_definition,
)
from hudi_ops.metadata.indexed_columns import indexed_columns
from hudi_ops.metadata.records.column_stats import default_index_version
from hudi_ops.metadata.records.file_lists import listing_records
from hudi_ops.metadata.records.partitions import MetadataPartition, default_groups
from hudi_ops.metadata.writer.begin import Beginning, begin_metadata
from hudi_ops.services.create.new_properties import definition_differences, new_table_properties
from hudi_ops.storage.claim import claim, ensure
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import Log, read_slot, slot_path
from hudi_ops.timeline.log.entries import Properties, decision_id_of, encode_entry
from hudi_ops.timeline.log.head import newest_log
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.view.schema import row_schema, table_schema

logger = logging.getLogger(__name__)


def create_table(session: Session, definition: TableDefinition, columns: pa.Schema) -> bool:
    """Create the table, or finish an earlier call with the same definition.

    `columns` are without meta columns.

    Returns:
        False if the table existed, made from the same definition.

    Raises:
        InvalidRequest: the definition cannot be a table, or the path holds another table.
    """
    schema = check_definition(definition, columns)
    avro = json.dumps(to_avro(schema, definition.name), separators=(",", ":"))
    partitions = _metadata_partitions(definition)
    properties = new_table_properties(definition, _generator_of(definition), avro, partitions)
    config = TableConfig.from_properties(properties)
    facts = _facts_of(definition, config)
    ctx = session.ctx
    first = read_slot(ctx.storage, 0)
    if first is None:
        if _is_table(ctx.storage):
            raise InvalidRequest(**_already(session, "a table of Apache Hudi"))
        table_id = ctx.ids.new_id()
        entry = Properties(
            table_id=table_id,
            decision_id=f"create {table_id}",
            owner=str(ctx.owner),
            at_ms=ctx.clock.now_ms(),
            properties_slot=-1,
            archive_slot=-1,
            set=properties,
            facts=facts,
            doubled_keys=0,
            settings=settings_of(properties),
            automatic=session.upkeep.record(),
        )
        claim(ctx.storage, slot_path(0), encode_entry(entry), entry.decision_id, decision_id_of)
        first = read_slot(ctx.storage, 0)
    held = _present_facts(ctx.storage, first, facts) if isinstance(first, Properties) else None
    if held is not None:
        left = {name: value for name, value in held.limits.items() if getattr(definition, name) is None}
        facts = facts.model_copy(update=left)
    if not isinstance(first, Properties) or first.set != properties or held != facts:
        differences = _differences(session, first, properties, held, facts)
        is_alterable = held is not None and held.index == facts.index and held.limits != facts.limits
        raise InvalidRequest(
            **_already(session, "a table with another definition", differences, is_alterable=is_alterable)
        )
    existed = _is_table(ctx.storage)
    if not existed:
        # Put before the properties name the metadata table, with the slot's time: a repetition after a crash puts the same files.
        _begin_metadata(ctx.storage, config, partitions, schema, first.at_ms)
        log = Log(first.table_id, base=0, entries=(first,), properties_slot=0, properties=first)
        apply_properties(ctx, log, 0, first=True)
    ensure_first_commit(session)
    logger.info("%s table %s at %s", "found" if existed else "created", definition.name, ctx.storage.uri)
    return not existed


def _facts_of(definition: TableDefinition, config: TableConfig) -> TableFacts:
    index = _index_of(definition)
    least, most = _limits_of(definition)
    return TableFacts(
        index=index,
        buckets=definition.buckets if definition.index == "bucket" else 0,
        hash_fields=definition.record_key,
        encodes_key_names=config.encodes_key_names,
        buckets_min=least,
        buckets_max=most,
    )


def _present_facts(storage: Storage, first: Properties, facts: TableFacts) -> TableFacts:
    """Return the facts of the creation, with the limits of a ring as they are now."""
    log = newest_log(storage) if facts.has_ring else None
    return first.facts if log is None else first.facts.model_copy(update=log.properties.facts.limits)


def _index_of(definition: TableDefinition) -> IndexKind:
    return index_kind(definition.index) if definition.index != "bucket" else bucket_kind(definition.bucket_engine)


def _limits_of(definition: TableDefinition) -> tuple[int, int]:
    """Return the fewest and the most buckets of a definition.

    Raises:
        InvalidRequest: its numbers or its engine contradict each other. Raised by `bucket_limits`, too.
        Unsupported: a hash ring in a copy-on-write table. Raised by `bucket_limits`.
    """
    if definition.index != "bucket" and definition.bucket_engine != "simple":
        raise InvalidRequest(
            f"the index {definition.index} has no bucket engine",
            table=definition.name,
            expected="the index bucket, or no bucket engine",
            found=f"index {definition.index}, bucket engine {definition.bucket_engine}",
            next_step="leave one of the two out",
            field="bucket_engine",
        )
    limits = definition.buckets_min, definition.buckets_max
    kind = table_type_of(definition.table_type)
    return bucket_limits(_index_of(definition), kind, definition.buckets, *limits, definition.name)


def _metadata_partitions(definition: TableDefinition) -> tuple[MetadataPartition, ...]:
    """Return the partitions of the metadata table, in the order of their creation.

    They are the defaults of Apache Hudi. A table without partitions has no statistics of partitions.
    """
    if not definition.metadata:
        return ()
    keys = (MetadataPartition.RECORD_INDEX,) if definition.index == "record_index" else ()
    of_partitions = (MetadataPartition.PARTITION_STATS,) if definition.partition_by else ()
    return (MetadataPartition.FILES, MetadataPartition.COLUMN_STATS, *keys, *of_partitions)


def _begin_metadata(
    storage: Storage, config: TableConfig, partitions: Sequence[MetadataPartition], schema: pa.Schema, at_ms: int
) -> None:
    if not partitions:
        return
    beginnings = [
        Beginning(
            partition,
            instant=f"{number:017d}",
            completion_time=instant_of_ms(at_ms + number),
            groups=default_groups(partition),
            records=listing_records({}, version=config.version) if partition is MetadataPartition.FILES else None,
        )
        for number, partition in enumerate(partitions)
    ]
    begin_metadata(storage, config, beginnings, at_ms)
    columns = indexed_columns(
        schema,
        index_version=default_index_version(config.version),
        has_meta_columns=config.populate_meta_fields,
    )
    stats = column_stats_definition(columns, config.version)
    definitions = {stats.name: stats}
    if MetadataPartition.RECORD_INDEX in partitions and config.version >= 9:
        keys = record_index_definition()
        definitions = {keys.name: keys, **definitions}
    ensure(storage, INDEX_DEFINITIONS_PATH, encode_index_definitions(definitions))


def check_definition(definition: TableDefinition, columns: pa.Schema) -> pa.Schema:
    """Return the schema as it will be stored.

    Raises:
        InvalidRequest: an unknown, repeated or missing column, or a number out of range.
        Unsupported: a column type that a table cannot hold, or that cannot be a key.
    """
    schema = table_columns(columns)
    if definition.version == 8:
        schema = pa.schema(map(in_microseconds, schema))
    names = schema.names
    _check_kind(definition)
    if not definition.record_key:
        raise InvalidRequest("a table needs a record key", next_step="pass --key with one or several columns")
    for role, fields in (
        ("key", definition.record_key),
        ("partition", definition.partition_by),
        ("ordering", (definition.ordering,) if definition.ordering else ()),
    ):
        for field in fields:
            if field not in names:
                raise InvalidRequest(
                    f"{role} column {field} is not in the schema",
                    expected=f"one of {', '.join(names)}",
                    found=field,
                    field=field,
                )
        if len(set(fields)) < len(fields):
            raise InvalidRequest(f"a {role} column is named twice", found=", ".join(fields))
    if definition.ordering and pa.types.is_nested(schema.field(definition.ordering).type):
        raise Unsupported(f"column {definition.ordering} cannot order rows", found="a nested type")
    # The kernels know which types can be keys; a call without rows keeps that in one place.
    spec_of_key = KeySpec(definition.record_key, len(definition.record_key) > 1)
    record_keys(schema.empty_table(), spec_of_key, refuse_ambiguous=True)
    spec = PartitionSpec(definition.partition_by, definition.hive_style, definition.url_encode, definition.time)
    partition_paths(schema.empty_table(), spec)
    return schema


def _check_kind(definition: TableDefinition) -> None:
    """Check version, table type, key generator and meta columns against each other.

    Raises:
        InvalidRequest: an unknown value, or a key generator that does not fit the fields.
        Unsupported: a table that Apache Hudi itself could not read.
    """
    refuse_index(_index_of(definition), definition.meta_fields, definition.name)
    _limits_of(definition)
    generator = _generator_of(definition)
    if (generator == "TIMESTAMP") != (definition.time is not None):
        raise InvalidRequest(
            "the key generator timestamp and its settings go together",
            expected="both, or neither",
            found=f"key generator {definition.key_generator}, {'no ' if definition.time is None else ''}time settings",
            next_step="pass the input and output format of the partition column, or choose another key generator",
        )
    if definition.time is not None:
        check_time_partition(definition.time)
        if not definition.meta_fields:
            raise Unsupported(
                "a table with the time-based key generator needs meta columns",
                expected="meta columns, or another key generator",
                found="key generator timestamp, without meta columns",
                next_step="change one of the two: Apache Hudi refuses to write such a table",
            )
    if (definition.version, definition.table_type, definition.meta_fields) == (8, "mor", False):
        raise Unsupported(
            "a merge-on-read table of version 8 needs meta columns",
            expected="meta columns, version 9, or copy-on-write",
            found="version 8, merge-on-read, without meta columns",
            next_step="change one of the three: Apache Hudi 1.0 cannot read the log files that it writes into such a table",
        )


def _generator_of(definition: TableDefinition) -> str:
    return key_generator_type(definition.key_generator, definition.record_key, definition.partition_by)


def _is_table(storage: Storage) -> bool:
    # Apache Hudi swaps the file by way of its backup: for a moment there is only the latter.
    return any(storage.head(path) is not None for path in (PROPERTIES_PATH, BACKUP_PATH))


def _differences(
    session: Session, first: object, properties: dict[str, str], held: TableFacts | None, facts: TableFacts
) -> str:
    if not isinstance(first, Properties):
        return ""
    return "; ".join(definition_differences(first.set, held, properties, facts, _present_columns(session)))


def _present_columns(session: Session) -> pa.Schema | None:
    """Return the columns of an existing table; None on an error, as the caller raises another."""
    try:
        state = session.loader.load()
        return row_schema(state.config, table_schema(state.config, state.timeline, session.commits))
    except HudiOpsError:
        return None


def _already(session: Session, what: str, differences: str = "", *, is_alterable: bool = False) -> dict[str, str]:
    return {
        "what": f"{session.ctx.storage.uri} already holds {what}{f': {differences}' if differences else ''}",
        "expected": "a path without a table",
        "next_step": "choose another path, or open the existing table (`hudi-ops show`)"
        + ("; `hudi-ops alter` changes the limits of buckets" if is_alterable else ""),
    }
