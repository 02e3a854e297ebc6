"""Define tables and writer options for Python, `tables.yaml` and the command line.

Imports no Arrow, since DAG files read `tables.yaml`; the columns of a table are given beside its definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.doors import Door
from hudi_ops.config.key_generators import KeyGenerator, TimePartition
from hudi_ops.config.requests import CancelSettings, Names, PolicyName, Request, listed, refuse_unknown
from hudi_ops.config.requests.services import RETAIN_MAX
from hudi_ops.config.table import (
    BUCKETS_MAX,
    WRITABLE_VERSIONS,
    BucketEngineName,
    IndexName,
    bucket_kind,
    index_kind,
    table_type_of,
)
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.config.write_settings import (
    METADATA_COMPACT_AFTER,
    FileSizes,
    LogFormat,
    ViewSettings,
    checked_compact_after,
    checked_format,
)
from hudi_ops.errors import InvalidRequest

# YAML has lists only; strict mode would refuse them for a tuple.
ColumnNames = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
TableKind = Literal["cow", "mor"]


class DefinitionFields(BaseModel):
    """Fields of a table's definition that `tables.yaml` and Python share."""

    record_key: Annotated[ColumnNames, Door(option="key")] = Field(
        title="Key", description="Columns that identify a row."
    )
    partition_by: ColumnNames = Field(
        default=(), title="Partitions", description="Columns that name the folders of rows. Default: no partitions."
    )
    ordering: str | None = Field(
        default=None,
        min_length=1,
        title="Ordering",
        description="Of two rows with one key, the one with the larger value in this column wins. Default: the later commit.",
    )
    index: IndexName = Field(
        default="bucket",
        title="Index",
        description="How the file group of a key is found: bucket, by a hash of the key; bloom or simple, in the base files; "
        "record_index, in the metadata table.",
    )
    buckets: int = Field(
        default=1,
        ge=1,
        le=BUCKETS_MAX,
        title="Buckets",
        description="File groups of each partition, with the bucket index.",
    )
    bucket_engine: BucketEngineName = Field(
        default="simple",
        title="Bucket engine",
        description="With the bucket index: simple, a fixed number of buckets; consistent or extendible, a hash ring that can be "
        "resized, in merge-on-read tables.",
    )
    buckets_min: int | None = Field(
        default=None,
        title="Fewest buckets",
        description="With a hash ring, the fewest buckets of a partition. Default: 1.",
    )
    buckets_max: int | None = Field(
        default=None,
        title="Most buckets",
        description="With a hash ring, the most buckets of a partition. Default: 32,768, or the number of buckets if that is more.",
    )
    version: Annotated[Literal[8, 9], Door(option="table-version")] = Field(
        default=9, title="Version", description="Table version; 8 for Apache Hudi 1.0 and Trino, which cannot open 9."
    )
    key_generator: KeyGenerator = Field(
        default="auto",
        title="Key generator",
        description="How keys and folders are made; auto infers it from the numbers of key and partition columns.",
    )
    time: TimePartition | None = Field(
        default=None,
        title="Time",
        description="For the key generator timestamp: input, output, unit and input_format of the partition column.",
    )
    hive_style: bool = Field(
        default=True, title="Hive style", description="Folders read column=value, or the value alone."
    )
    url_encode: bool = Field(
        default=True,
        title="URL encoding",
        description="Escape characters of partition values that a path must not hold, or refuse such values.",
    )
    meta_fields: bool = Field(
        default=True, title="Meta columns", description="With or without Hudi's five meta columns."
    )
    metadata: bool = Field(
        default=True,
        title="Metadata table",
        description="With or without a metadata table: a listing of files, and statistics of columns and partitions.",
    )


class WriterFields(BaseModel):
    """Fields of a writer's options that `tables.yaml` and Python share."""

    log_format: LogFormat = Field(
        default="parquet", title="Log format", description="Format of the rows in log files: parquet or avro."
    )
    metadata_compact_after: int = Field(
        default=METADATA_COMPACT_AFTER,
        ge=1,
        title="Metadata compaction",
        description="Delta commits of the metadata table after which a write compacts it.",
    )
    clean: CleanSettings = Field(
        default=CleanSettings(),
        title="Clean",
        description="What cleans retain (policy, retain), and whether writers clean after commits (automatic).",
    )
    archive: ArchiveSettings = Field(
        default=ArchiveSettings(),
        title="Archive",
        description="How many writes archives keep (keep_min, keep_max), and whether writers archive after commits (automatic).",
    )
    cancel: CancelSettings | None = Field(
        default=None,
        title="Cancel",
        description="Whether a cancel may end its compaction plans (cancellable), and when they are overdue (after_hours, "
        "after_instants), where a request does not say it.",
    )
    conflicts: ConflictSettings | None = Field(
        default=ConflictSettings(),
        title="Conflicts",
        description="How it behaves beside other writers: strategy, early_detection, retries, wait_s, foreign_without_heartbeat, …",
    )
    view: ViewSettings = Field(
        default=ViewSettings(),
        title="View",
        description="Where processes keep the table's file-system view: store (memory, spill, disk), memory_mb, "
        "folder, server.",
    )


def _checked_index(name: str) -> str:
    index_kind(name)
    return name.lower()


def _checked_engine(name: str) -> str:
    bucket_kind(name)
    return name


def _checked_type(name: str) -> str:
    table_type_of(name)
    return name


def _checked_buckets(buckets: int) -> int:
    if isinstance(buckets, int) and not 1 <= buckets <= BUCKETS_MAX:
        raise InvalidRequest(
            f"{buckets} buckets are not possible", expected=f"1 to {BUCKETS_MAX}", next_step="pass --buckets"
        )
    return buckets


def _checked_version(version: int) -> int:
    if version not in WRITABLE_VERSIONS:
        raise InvalidRequest(
            f"tables of version {version} are not made",
            expected=" or ".join(map(str, WRITABLE_VERSIONS)),
            found=str(version),
            next_step="use 9, or 8 where Apache Hudi 1.0 or Trino reads the table",
        )
    return version


class TableDefinition(Request, DefinitionFields):
    """Definition of a table, except its columns; another definition is another table."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "record_key": listed,
        "partition_by": listed,
        "buckets": _checked_buckets,
        "bucket_engine": _checked_engine,
        "index": _checked_index,
        "table_type": _checked_type,
        "version": _checked_version,
    }

    name: str = Field(title="Name", description="Name of the table: printable ASCII without spaces.")
    table_type: Annotated[TableKind, Door(option="type")] = Field(
        default="cow", title="Type", description="Copy-on-write (cow) or merge-on-read (mor)."
    )


class Alteration(Request):
    """Recorded settings of a table that can change; those that are not given stay."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    buckets_min: int | None = Field(
        default=None, ge=1, title="Fewest buckets", description="With a hash ring, the fewest buckets of a partition."
    )
    buckets_max: int | None = Field(
        default=None, ge=1, title="Most buckets", description="With a hash ring, the most buckets of a partition."
    )
    clean: Literal["on", "off"] | None = Field(
        default=None, title="Clean", description="Whether writers clean after commits."
    )
    clean_policy: PolicyName | None = Field(
        default=None, title="Policy of cleans", description="What cleans retain: commits, hours or versions."
    )
    clean_retain: int | None = Field(
        default=None,
        ge=1,
        le=RETAIN_MAX,
        title="Retained by cleans",
        description="How many commits, hours or versions cleans retain.",
    )
    archive: Literal["on", "off"] | None = Field(
        default=None, title="Archive", description="Whether writers archive after commits."
    )
    archive_keep_min: int | None = Field(
        default=None,
        ge=1,
        title="Kept by archives",
        description="Completed writes that an archive leaves on the timeline.",
    )
    archive_keep_max: int | None = Field(
        default=None,
        ge=1,
        title="Due for archives",
        description="An archive is due above this number of completed writes.",
    )


class WriterOptions(Request, WriterFields):
    """How a writer writes, where the table leaves it open."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "index": _checked_index,
        "log_format": checked_format,
        "metadata_compact_after": checked_compact_after,
    }

    file_sizes: FileSizes | None = Field(
        default=None,
        title="File sizes",
        description="Size of base files where new keys may go to any file group. Default: up to 120 MB, as with Apache Hudi.",
    )

    @property
    def upkeep(self) -> UpkeepSettings:
        """Return the settings of the services that keep a table small."""
        return UpkeepSettings(self.clean, self.archive, self.cancel)


class OpenOptions(WriterOptions):
    """Options of a writer, and facts about a table that Apache Hudi does not store.

    The first write records these facts in the commit log.
    """

    index: IndexName | None = Field(
        default=None,
        title="Index",
        description="Index of the table's other writers: hoodie.index.type. Default: bucket, where names of file groups show it.",
    )
    buckets: int | None = Field(
        default=None,
        title="Buckets",
        description="Buckets of each partition: hoodie.bucket.index.num.buckets. Checked against the keys in the files.",
    )
    bucket_engine: BucketEngineName | None = Field(
        default=None,
        title="Bucket engine",
        description="Engine of the bucket index: hoodie.index.bucket.engine. Default: consistent where the table has hash rings.",
    )
    buckets_min: int | None = Field(
        default=None,
        title="Fewest buckets",
        description="With a hash ring: hoodie.bucket.index.min.num.buckets. Default: 1.",
    )
    buckets_max: int | None = Field(
        default=None,
        title="Most buckets",
        description="With a hash ring: hoodie.bucket.index.max.num.buckets. Default: 32,768, or the number of buckets, "
        "also of a ring in the table, if that is more.",
    )
    hash_fields: Names | None = Field(
        default=None,
        title="Hash fields",
        description="Key fields whose values name the bucket. Default: all of the key.",
    )
    timezone: str | None = Field(
        default=None,
        title="Time zone",
        description="For tables whose instants are in local time: zone of the machines that write them, as Europe/Berlin.",
    )
    services_only: bool = Field(
        default=False,
        title="Services only",
        description="Adopt a table with another index: Apache Hudi writes its rows, hudi-ops compacts it.",
    )


def split_keywords(keywords: Mapping[str, Any], *others: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of a definition, and those of the writer's options.

    Args:
        keywords: of both.
        others: keywords that the caller knows besides; named where one is misspelt.

    Raises:
        InvalidRequest: one belongs to neither; names the nearest.
    """
    known = {**TableDefinition.model_fields, **WriterOptions.model_fields}
    refuse_unknown(keywords, known, *others)
    of_table = {name: value for name, value in keywords.items() if name in TableDefinition.model_fields}
    return of_table, {name: value for name, value in keywords.items() if name not in of_table}
