"""Interface of index kinds, each the content of one partition of the metadata table.

A kind makes the records of its partition in four situations: of a whole table (a build), of a change between two moments (the
catch-up of a build), of one write, and of removed files. Records of changes and writes, merged upon those of a table
(`metadata.reader.merge`), must equal those of a build of the later table; if files were removed, those of a kind that `widens`
may be wider. The conformance suite of the tests checks each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from hudi_ops.files.statistics.statistics import FileStatistics, StatisticsRequest
from hudi_ops.metadata.definitions import Statistics
from hudi_ops.metadata.reader.merge import merge
from hudi_ops.metadata.records.file_lists import FileChanges
from hudi_ops.metadata.records.partitions import MetadataPartition, PartitionForm, form_of
from hudi_ops.metadata.records.records import Records
from hudi_ops.timeline.content.plans import FilesByPartition


@dataclass(frozen=True, slots=True)
class WantedFacts:
    """Facts that writers and builds must supply for an index.

    Attributes:
        ranges: ranges of the columns with statistics, of each file.
        bloom: bloom filters of base files.
        keys: of a write the keys that each file added and removed; of a build the keys of each slice.
        added_columns: of a write that adds columns, their nulls in the partitions that exist.
        entries: names of secondary indexes whose entries are wanted: of a write those that it added and removed; of a build those
            of each slice.
    """

    ranges: bool = False
    bloom: bool = False
    keys: bool = False
    added_columns: bool = False
    entries: tuple[str, ...] = ()

    def __or__(self, other: WantedFacts) -> WantedFacts:
        return WantedFacts(
            self.ranges or other.ranges,
            self.bloom or other.bloom,
            self.keys or other.keys,
            self.added_columns or other.added_columns,
            (*self.entries, *other.entries),
        )

    def request(self, columns: Sequence[str]) -> StatisticsRequest:
        """Return the request for statistics of files; `columns` are those with statistics."""
        return StatisticsRequest(tuple(columns) if self.ranges else (), bloom=self.bloom, keys=self.keys)


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms on which records are made: table version, instant, and columns with statistics."""

    version: int
    instant: str
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class KeysAt:
    """Record keys, each once, with location and their slice's moment in ms since 1970 UTC.

    `entries` are keys of secondary indexes, by the index's name; each holds a value and a record key.
    """

    partition_path: str
    file_id: str
    instant_ms: int
    keys: pa.Array
    entries: Mapping[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableContent:
    """Content of a table at one moment.

    Attributes:
        files: sizes in bytes by partition path and name.
        facts: statistics of the files that have them, as far as the kinds want them.
        keys: keys of all slices, if a kind wants them.
    """

    files: Mapping[str, Mapping[str, int]]
    facts: Sequence[FileStatistics] = ()
    keys: Sequence[KeysAt] = ()


@dataclass(frozen=True, slots=True)
class TableChange:
    """Change of a table between two moments.

    Attributes:
        files: added and removed files by partition path.
        facts: statistics of new files, as far as the kinds want them.
        keys: keys that are new in their file group, where they are now, if a kind wants them.
        gone: keys that left their file group; they may be among `keys`, too.
        gone_entries: entries of secondary indexes that left their file group, by the index's name.
    """

    files: Mapping[str, FileChanges]
    facts: Sequence[FileStatistics]
    keys: Sequence[KeysAt]
    gone: pa.Array
    gone_entries: Mapping[str, pa.Array] = field(default_factory=dict)

    @property
    def removed(self) -> FilesByPartition:
        """Return the names of removed files by partition path, without partitions that lost none."""
        names = {path: tuple(change.removed) for path, change in self.files.items()}
        return {path: found for path, found in names.items() if found}


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files that one write added.

    Attributes:
        files: added files by partition path.
        facts: their statistics; keys are among them if a kind wants them.
        instant_ms: moment of the write in ms since 1970 UTC.
        hidden: keys of file groups that the write hides, if it hides any.
        are_located: the record index gave the file groups, so a key that a log file removes was in its group.
        added_columns: nulls of columns that the write adds, one for each partition that exists.
        entries: added and removed entries of secondary indexes, by the index's name.
    """

    files: Mapping[str, FileChanges]
    facts: Sequence[FileStatistics]
    instant_ms: int
    hidden: pa.Array | None = None
    are_located: bool = False
    added_columns: Sequence[FileStatistics] = ()
    entries: Mapping[str, tuple[pa.Array, pa.Array]] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexKind:
    """Kind of index: a partition of the metadata table, as a value.

    Attributes:
        form: names and numbers of the partition's files and records.
        whole: makes the complete records of a table.
        changed: makes the records that bring older ones up to date.
        of_write: makes the records of one write.
        facts: facts that the above use.
        removed: makes the deletes of removed files; None: their records stay.
        grown: returns the number of file groups of a new partition by its number of records; None: that of `form`.
        widens: changes only widen older records, which still cover removed files. Records of a table that changed may then
            exclude less than those of a new build, and a foreign record that replaces one of ours must be widened again.
    """

    form: PartitionForm
    whole: Callable[[TableContent, Terms], Records]
    changed: Callable[[TableChange, Terms], Records]
    of_write: Callable[[WrittenFiles, Terms], Records]
    facts: WantedFacts = WantedFacts()
    removed: Callable[[FilesByPartition, Terms], Records] | None = None
    grown: Callable[[int], int] | None = None
    widens: bool = False

    @property
    def name(self) -> str:
        """Name of the partition."""
        return self.form.name

    def groups(self, records: int) -> int:
        """Return the number of file groups of a new partition by its number of records."""
        return self.form.groups if self.grown is None else self.grown(records)


def kind_of_files(
    partition: MetadataPartition,
    records: Callable[[Sequence[FileStatistics], Terms], Records],
    removed: Callable[[FilesByPartition, Terms], Records],
    facts: WantedFacts,
) -> IndexKind:
    """Return a kind whose records each say something of one file, and go with it.

    Args:
        partition: that of the kind.
        records: makes the records of files from their statistics.
        removed: makes the deletes of removed files.
        facts: facts that `records` uses.
    """

    def changed(change: TableChange, terms: Terms) -> Records:
        made, gone = records(change.facts, terms), change.removed
        return merge(removed(gone, terms), made, version=terms.version) if gone else made

    return IndexKind(
        form_of(partition),
        whole=lambda content, terms: records(content.facts, terms),
        changed=changed,
        of_write=lambda written, terms: records(written.facts, terms),
        facts=facts,
        removed=removed,
    )


def each_file(files: FilesByPartition) -> list[tuple[str, str]]:
    """Return partition path and name of each file, in order."""
    return [(path, name) for path, names in sorted(files.items()) for name in names]
