"""What `hoodie.properties` says of a table, as one frozen value (docs/format §1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from hudi_ops.errors import Corrupt, InvalidRequest, Unsupported

PROPERTIES_PATH = ".hoodie/hoodie.properties"
BACKUP_PATH = ".hoodie/hoodie.properties.backup"

READABLE_VERSIONS = (6, 8, 9)
WRITABLE_VERSIONS = (8, 9)

_REASONS = {10: ": its log files may be bare Parquet files, which are not read here"}

BUCKETS_MAX = 100_000
"""Highest number of buckets of a partition. Each bucket is a file; a folder with more files is of no use."""

SLASH_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
PARTITION_EXTRACTOR = "hoodie.table.partition_extractor_class"
"""Either says that dates are in folders `yyyy/MM/dd`: SQL of Apache Hudi 1.2 sets the first, its data source the second."""

METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
METADATA_PARTITIONS_INFLIGHT = "hoodie.table.metadata.partitions.inflight"
INDEX_DEFINITIONS = "hoodie.table.index.defs.path"
INDEX_DEFINITIONS_PATH = ".hoodie/.index_defs/index.json"
IndexKind = Literal[
    "simple_bucket", "consistent_bucket", "extendible_bucket", "bloom", "simple", "record_index", "other"
]
"""Apache Hudi's BUCKET, BLOOM, SIMPLE and RECORD_INDEX; `other` is any whose rows only Apache Hudi writes.

BUCKET has the simple engine, or hash rings (CONSISTENT_HASHING). The ranges of an extendible ring are halves of others.
"""

BucketEngineName = Literal["simple", "consistent", "extendible"]
"""Names of the engines of the bucket index, for users."""

IndexName = Literal["bucket", "bloom", "simple", "record_index"]
"""Names of the indexes with which this library writes, for users."""

_INDEX_KINDS: dict[str, IndexKind] = {
    "bucket": "simple_bucket",
    "bloom": "bloom",
    "simple": "simple",
    "record_index": "record_index",
}

_BUCKET_KINDS: dict[str, IndexKind] = {
    "simple": "simple_bucket",
    "consistent": "consistent_bucket",
    "extendible": "extendible_bucket",
}

_RING_KINDS = frozenset({"consistent_bucket", "extendible_bucket"})

TableType = Literal["COPY_ON_WRITE", "MERGE_ON_READ"]
MergeMode = Literal["COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING", "CUSTOM"]

_MODE_OF_PAYLOAD: dict[str, MergeMode] = {
    "OverwriteWithLatestAvroPayload": "COMMIT_TIME_ORDERING",
    "DefaultHoodieRecordPayload": "EVENT_TIME_ORDERING",
    "EventTimeAvroPayload": "EVENT_TIME_ORDERING",
}

TABLE_TYPES: dict[str, TableType] = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


class TableConfig(BaseModel):
    """The table's persisted settings; field names follow their `hoodie.*` keys.

    `raw` keeps every property as read, unknown ones included, so that a rewritten file keeps them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    table_type: TableType = "COPY_ON_WRITE"
    version: int
    layout: int
    record_key_fields: tuple[str, ...] = ()
    partition_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    key_generator: str = ""
    merge_mode: MergeMode = "COMMIT_TIME_ORDERING"
    hive_style: bool = False
    url_encode: bool = False
    drop_partition_columns: bool = False
    populate_meta_fields: bool = True
    timeline_folder: str = ".hoodie/timeline"
    history_folder: str = ".hoodie/timeline/history"
    create_schema: str = ""
    metadata_partitions: tuple[str, ...] = ()
    metadata_partitions_inflight: tuple[str, ...] = ()
    raw: dict[str, str]

    @property
    def all_metadata_partitions(self) -> tuple[str, ...]:
        """Partitions of the metadata table that writers maintain: in use, or being built."""
        return tuple(dict.fromkeys((*self.metadata_partitions, *self.metadata_partitions_inflight)))

    @property
    def dropped_columns(self) -> tuple[str, ...]:
        """Partition columns that no file holds; the path has their values (docs/format §6.10)."""
        return self.partition_fields if self.drop_partition_columns else ()

    @property
    def has_slash_dates(self) -> bool:
        """Whether the date `yyyy-MM-dd` lies in the folder `yyyy/MM/dd` (docs/format §6.6)."""
        return self.key_generator != "TIMESTAMP" and has_slash_dates(
            self.raw
        )  # that generator makes the folders itself

    @property
    def completed_write_action(self) -> str:
        """Action of a completed ingestion: `commit`, or `deltacommit` on merge-on-read tables."""
        return "commit" if self.table_type == "COPY_ON_WRITE" else "deltacommit"

    @property
    def is_in_local_time(self) -> bool:
        """Whether instants are in the writers' time zone (docs/format §1.5, §2.1).

        Nothing on storage names that zone.
        """
        return self.raw.get("hoodie.table.timeline.timezone", "LOCAL").upper() != "UTC"

    @property
    def encodes_key_names(self) -> bool:
        """Whether record keys read `field:value,…` instead of the bare value.

        Source: docs/format §6.5: several key fields, or the complex generator with one field in version 9. In version 8
        one field is written without its name, as by Apache Hudi 1.0.
        """
        return len(self.record_key_fields) > 1 or (self.key_generator == "COMPLEX" and self.version >= 9)

    @classmethod
    def from_properties(cls, raw: Mapping[str, str], path: str = PROPERTIES_PATH) -> TableConfig:
        """Read the settings out of the properties of a table.

        Args:
            raw: keys and values of `hoodie.properties`.
            path: named in errors.

        Raises:
            Corrupt: a required key is missing or its value cannot be read.
            Unsupported: a table version or base file format that this library does not open.
        """
        for key in ("hoodie.table.name", "hoodie.table.version", "hoodie.timeline.layout.version"):
            if not raw.get(key):
                raise Corrupt(
                    f"{path} has no {key}",
                    expected=f"a value for {key}",
                    found="no such key",
                    next_step="restore the file from hoodie.properties.backup or from another copy of the table",
                )
        version, layout = (
            _number(raw, "hoodie.table.version", path),
            _number(raw, "hoodie.timeline.layout.version", path),
        )
        if version not in READABLE_VERSIONS:
            raise Unsupported(
                f"table version {version} cannot be opened{_REASONS.get(version, '')}",
                table=raw["hoodie.table.name"],
                expected="version 6, 8 or 9",
                found=str(version),
                next_step=_next_step(version, raw["hoodie.table.name"]),
            )
        base_format = raw.get("hoodie.table.base.file.format", "PARQUET").upper()
        if base_format not in {"PARQUET", "HFILE"}:
            raise Unsupported(f"base files of format {base_format} cannot be read", table=raw["hoodie.table.name"])
        ordering = listed_in(raw, "hoodie.table.ordering.fields") or listed_in(raw, "hoodie.table.precombine.field")
        timeline = raw.get("hoodie.timeline.path", "timeline")
        history = raw.get("hoodie.timeline.history.path", "history")
        timeline_folder = ".hoodie" if layout == 1 else f".hoodie/{timeline}"
        return cls(
            name=raw["hoodie.table.name"],
            table_type=_choice(raw, "hoodie.table.type", "COPY_ON_WRITE", ("COPY_ON_WRITE", "MERGE_ON_READ"), path),
            version=version,
            layout=layout,
            record_key_fields=listed_in(raw, "hoodie.table.recordkey.fields"),
            # Custom key generators write `field:type`; the name alone matters for reading.
            partition_fields=tuple(f.split(":")[0] for f in listed_in(raw, "hoodie.table.partition.fields")),
            ordering_fields=ordering,
            key_generator=raw.get("hoodie.table.keygenerator.type", ""),
            merge_mode=_choice(
                raw,
                "hoodie.record.merge.mode",
                inferred_mode(raw, ordering),
                ("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING", "CUSTOM"),
                path,
            ),
            hive_style=is_set(raw, "hoodie.datasource.write.hive_style_partitioning", False),
            url_encode=is_set(raw, "hoodie.datasource.write.partitionpath.urlencode", False),
            drop_partition_columns=is_set(raw, "hoodie.datasource.write.drop.partition.columns", False),
            populate_meta_fields=is_set(raw, "hoodie.populate.meta.fields", True),
            timeline_folder=timeline_folder,
            history_folder=f"{timeline_folder}/{history}" if layout == 2 else ".hoodie/archived",
            create_schema=raw.get("hoodie.table.create.schema", ""),
            metadata_partitions=listed_in(raw, "hoodie.table.metadata.partitions"),
            metadata_partitions_inflight=listed_in(raw, "hoodie.table.metadata.partitions.inflight"),
            raw=dict(raw),
        )


class TableFacts(BaseModel):
    """Facts that writers need and Apache Hudi does not store; the commit log keeps them.

    `index` says how a key's file group is found; with `other`, an index of Apache Hudi's own, we service the table and write no
    rows. `buckets` is the count of the bucket index (0 with another one), `hash_fields` are the fields that
    it hashes; with another index they are those of the record key, without effect. With a hash ring `buckets` is the count with
    which a partition begins, and resizes keep to `buckets_min` and `buckets_max` (0 without a ring). `encodes_key_names` says
    whether record keys read `field:value`; None: table version and key generator decide. `timezone` is the zone of the
    instants, as in the IANA data base, of tables whose properties say no more than LOCAL.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: IndexKind = "simple_bucket"
    buckets: int
    hash_fields: tuple[str, ...]
    encodes_key_names: bool | None = None
    timezone: str = "UTC"
    buckets_min: int = 0
    buckets_max: int = 0

    @property
    def limits(self) -> dict[str, int]:
        """The fewest and the most buckets of a partition, by the names of their fields."""
        return {"buckets_min": self.buckets_min, "buckets_max": self.buckets_max}

    @property
    def takes_rows(self) -> bool:
        """Whether rows can be written: their file group follows from their key, or can be looked up."""
        return self.index != "other"

    @property
    def has_buckets(self) -> bool:
        """Whether a row's file group follows from its key, without a lookup."""
        return self.index == "simple_bucket" or self.has_ring

    @property
    def has_ring(self) -> bool:
        """Whether each partition has a hash ring, which resizes change."""
        return self.index in _RING_KINDS


def table_type_of(name: str) -> TableType:
    """Return the table type that a user's word names.

    Raises:
        InvalidRequest: there is none.
    """
    if name not in TABLE_TYPES:
        raise InvalidRequest(
            f"unknown table type {name!r}",
            expected="cow or mor",
            found=str(name),
            next_step="name one of the two: cow for copy-on-write, mor for merge-on-read",
        )
    return TABLE_TYPES[name]


def index_kind(name: str) -> IndexKind:
    """Return the index that a user's word names.

    Raises:
        InvalidRequest: there is none, or it is not written with.
    """
    found = _INDEX_KINDS.get(name.lower())
    if found is None:
        raise InvalidRequest(
            f"unknown index {name!r}",
            expected=" or ".join(_INDEX_KINDS),
            found=name,
            next_step="name the one that hoodie.index.type of the table's other writers says; tables with a global one can be "
            "adopted for services only",
        )
    return found


def bucket_kind(engine: str) -> IndexKind:
    """Return the kind of the bucket index with an engine.

    Raises:
        InvalidRequest: there is no such engine.
    """
    found = _BUCKET_KINDS.get(engine)
    if found is None:
        raise InvalidRequest(
            f"unknown bucket engine {engine!r}",
            expected=" or ".join(_BUCKET_KINDS),
            found=str(engine),
            next_step="name the one that hoodie.index.bucket.engine of the table's other writers says",
        )
    return found


def inferred_mode(raw: Mapping[str, str], ordering: tuple[str, ...]) -> MergeMode:
    """Return the merge mode of a table that does not name it, as in version 6.

    The payload class decides, not the strategy that the table names.
    """
    payload = raw.get("hoodie.compaction.payload.class", "").rpartition(".")[2]
    if payload:
        return _MODE_OF_PAYLOAD.get(payload, "CUSTOM")
    return "EVENT_TIME_ORDERING" if ordering else "COMMIT_TIME_ORDERING"


def has_slash_dates(raw: Mapping[str, str]) -> bool:
    """Return whether a property says that dates are in folders `yyyy/MM/dd`."""
    extractor = raw.get(PARTITION_EXTRACTOR, "").strip().rpartition(".")[2]
    return is_set(raw, SLASH_DATES, False) or extractor == "SlashEncodedDayPartitionValueExtractor"


def listed_in(raw: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the names that a property lists with commas; none when it is absent."""
    return tuple(part.strip() for part in raw.get(key, "").split(",") if part.strip())


def is_set(raw: Mapping[str, str], key: str, default: bool) -> bool:
    """Whether a property is true; `default` when it is absent."""
    return raw.get(key, str(default)).strip().lower() == "true"


def _next_step(version: int, table: str) -> str:
    """Return what makes a table of a version readable that is not read."""
    if version < min(READABLE_VERSIONS):
        return (
            "upgrade the table with Apache Hudi 0.15, in Spark by "
            f"CALL upgrade_table(table => '{table}', to_version => 'SIX')"
        )
    if version in _REASONS:
        return (
            f"downgrade the table to version {max(WRITABLE_VERSIONS)} with Apache Hudi, and set "
            "hoodie.write.auto.upgrade=false for all its writers: it keeps their tables at that version"
        )
    return "upgrade or downgrade the table with Apache Hudi, or upgrade hudi-ops"


def _number(raw: Mapping[str, str], key: str, path: str) -> int:
    try:
        return int(raw[key])
    except ValueError:
        raise Corrupt(f"{path}: {key} is not a number", expected="a whole number", found=repr(raw[key])) from None


def _choice(raw: Mapping[str, str], key: str, default: str, choices: tuple[str, ...], path: str) -> str:
    value = raw.get(key, default).upper()
    if value not in choices:
        raise Corrupt(f"{path}: {key} has an unknown value", expected=" or ".join(choices), found=repr(raw[key]))
    return value
