"""Snapshot of a table, read in an order that keeps live writers from looking like damage.

Timeline, then all files below the root, then the timeline again. The listing must hold each file that a completed instant of the
first reading names; the second reading shows what was cleaned or begun during the listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from hudi_ops.clock import Clock
from hudi_ops.commit.recover.sweep import notes_of
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.markers import FOLDER as MARKERS
from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.progress import TellProgress
from hudi_ops.errors import Corrupt, HudiOpsError
from hudi_ops.files.names import DataFileName, parse_data_file, writer_of_child_log
from hudi_ops.metadata.records.partitions import rebuild_command
from hudi_ops.storage.protocol import FileInfo, Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.archived import ArchivedHistory, archived_writes, load_history
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.content.plans import RestorePlan, RolledBack, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import MARKS
from hudi_ops.timeline.log.commit_log import FOLDER as LOG_FOLDER, POINTER_KEY
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.cleaned_files import paths_of_cleans
from hudi_ops.view.columns.slices import visible_slices
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.schema import table_schema
from hudi_ops.view.slices import METADATA_TABLE_KEYS, Slice


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A data file on storage, named by an instant or not."""

    info: FileInfo
    partition_path: str
    name: DataFileName

    @property
    def is_log(self) -> bool:
        """Whether it is a log file."""
        return self.name.is_log


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A data file that a completed instant names."""

    path: str
    stat: WriteStat
    instant: Instant


@dataclass(frozen=True, slots=True)
class LiveFile:
    """The visible base file of a file group; `rows` is None when its writer is archived."""

    path: str
    partition_path: str
    file_id: str
    instant: str
    size_bytes: int
    rows: int | None


@dataclass(frozen=True)
class Subject:
    """One reading of a table: `timeline` was read before the listing, `later` after it."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    later: Timeline
    listed: tuple[FileInfo, ...]
    commits: CommitReader
    engine: LocalEngine
    clock: Clock
    deep: bool = False
    progress: TellProgress | None = None

    @property
    def is_metadata_table(self) -> bool:
        """Whether this is a metadata table."""
        return self.config.key_generator == METADATA_TABLE_KEYS

    @property
    def has_metadata_table(self) -> bool:
        """Whether readers list files by a metadata table, and so do not see stray files."""
        return "files" in self.config.metadata_partitions

    @cached_property
    def is_ours(self) -> bool:
        """Whether the table has a commit log."""
        return any(info.path.startswith(LOG_FOLDER + "/") for info in self.listed)

    def under(self, folder: str) -> list[FileInfo]:
        """Return the listed files below a folder."""
        return [info for info in self.listed if info.path.startswith(folder + "/")]

    @cached_property
    def outside_hoodie(self) -> list[FileInfo]:
        """Listed files outside `.hoodie`."""
        return [info for info in self.listed if not info.path.startswith(".hoodie/")]

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Path -> size in bytes of each listed file."""
        return {info.path: info.size_bytes for info in self.listed}

    @cached_property
    def data_files(self) -> list[FoundFile]:
        """Base and log files below the root."""
        found = []
        for info in self.outside_hoodie:
            name = parse_data_file(info.name)
            if name is not None:
                found.append(FoundFile(info, info.path.rpartition("/")[0], name))
        return found

    def has_files(self, instant: str) -> bool:
        """Return whether a data file carries an instant in its name."""
        return any(found.name.instant == instant for found in self.data_files)

    def is_marked(self, time: str) -> bool:
        """Return whether the mark of a CANCEL names an instant (docs/protocol §7)."""
        return f"{MARKS}/{time}" in self.sizes

    def is_beating(self, time: str) -> bool:
        """Return whether an instant has a live lease, of this library or of Apache Hudi."""
        lease = read_lease(self.storage, time)
        return lease is not None and not lease.is_dead(self.clock)

    def metadata(self, instant: Instant) -> CommitMetadata | None:
        """Return the metadata of a completed write; None if `check_timeline` reports it unreadable."""
        try:
            found = self.commits.metadata(self.timeline, instant)
            len(found.stats if found is not None else ())  # decodes them
        except HudiOpsError:
            return None
        return found

    @cached_property
    def writes(self) -> list[tuple[Instant, CommitMetadata]]:
        """Completed writes with readable metadata, by completion."""
        ordered = sorted(self.timeline.completed_writes, key=lambda write: (write.completion_time, write.time))
        return [(write, metadata) for write in ordered if (metadata := self.metadata(write)) is not None]

    @cached_property
    def named(self) -> Mapping[str, NamedFile]:
        """Path -> its statistic in the newest write that names the file."""
        return {
            path: NamedFile(path, stat, instant)
            for instant, metadata in self.writes
            for stat in metadata.stats
            if (path := stat.path.lstrip("/"))
        }

    @cached_property
    def named_besides(self) -> frozenset[str]:
        """Change-data files, named in `cdcStats`, and files of writes after the listing."""
        names = {path.lstrip("/") for file in self.named.values() for path in file.stat.other.get("cdcStats") or ()}
        known = {(write.time, write.kind) for write in self.timeline.completed_writes}
        for instant in self.later.completed_writes:
            if (instant.time, instant.kind) not in known:
                metadata = self.commits.metadata(self.later, instant)
                names |= {stat.path.lstrip("/") for stat in metadata.stats} if metadata is not None else set()
        return frozenset(names)

    @cached_property
    def removed(self) -> frozenset[str]:
        """Paths in the plans and results of cleans, active and archived; read after the listing."""
        return paths_of_cleans(self.storage, self.config)

    @cached_property
    def undone(self) -> Mapping[str, str]:
        """Instant -> the completed rollback or restore that removed it from the timeline."""
        found: dict[str, str] = {}
        for instant in self.later:
            try:
                result = read_result(self.storage, self.later, instant)
            except Corrupt:
                continue
            if isinstance(result, RolledBack | RestorePlan):
                found |= dict.fromkeys(result.targets, f"{instant.kind} {instant.time}")
        return found

    @cached_property
    def watched(self) -> Mapping[str, int]:
        """Rolled back instant -> time of the next search for its late files, in ms since 1970 UTC."""
        folders = {info.path.removeprefix(f"{MARKERS}/").partition("/")[0] for info in self.under(MARKERS)}
        return {instant: until[-1] for instant, until in notes_of(sorted(folders)).items()}

    @cached_property
    def history(self) -> ArchivedHistory | None:
        """The archived timeline; None when it cannot be read."""
        try:
            return load_history(self.storage, self.config)
        except HudiOpsError:
            return None

    @cached_property
    def archived(self) -> Mapping[str, str]:
        """Request time -> action of the archived instants."""
        return {one.time: one.action for one in self.history.instants} if self.history is not None else {}

    def writer_of(self, file: FoundFile) -> str:
        """Return the instant that wrote a file.

        It is the instant in the name, except for log files that writes put into the children of a resize, once that completed.
        """
        found = self.timeline.find(file.name.instant)
        kind = found.kind if found is not None and found.is_completed else self.archived.get(file.name.instant)
        is_beside = file.is_log and kind == "replacecommit"
        return (writer_of_child_log(file.name) if is_beside else None) or file.name.instant

    @cached_property
    def late_files(self) -> Mapping[str, str]:
        """Files that the archived write of their instant does not name -> that write, as text.

        They lie below the start of the timeline, so readers that list storage take them for rows. Log files of Apache Hudi in the
        children of a resize do not tell their writer, and are left out.
        """
        below: dict[str, list[FoundFile]] = {}
        for file in self.data_files if self.is_ours and self.config.layout == 2 else ():
            if file.name.instant < self.timeline.start and file.info.path not in self.removed:
                below.setdefault(self.writer_of(file), []).append(file)
        found: dict[str, str] = {}
        named = self.named.keys() | self.named_besides
        try:
            for one, metadata in archived_writes(self.storage, self.config, self.archived.keys() & below.keys()):
                if POINTER_KEY not in metadata.extra and not self.is_marked(one.time):
                    continue  # its writer alone knows all its files
                own = {stat.path.lstrip("/") for stat in metadata.stats}
                for file in below[one.time]:
                    path, is_child = file.info.path, one.action == "replacecommit" and file.is_log
                    if path not in own and path not in named and not is_child and self.storage.head(path) is not None:
                        found[path] = f"the archived {one.action} {one.time}"
        except Corrupt:
            return found  # `check_timeline` reports the history
        return found

    @cached_property
    def replaced(self) -> frozenset[tuple[str, str]]:
        """(partition path, file id) of the file groups that a completed replace commit hides."""
        return frozenset(group for _, metadata in self.writes for group in metadata.replaced_groups)

    @cached_property
    def files(self) -> Mapping[str, list[DataFile]]:
        """Data files as listed, without late ones of archived writes, by partition path."""
        found: dict[str, list[DataFile]] = {}
        for file in self.data_files:
            name, info = file.name, file.info
            if info.path in self.late_files:
                continue
            data_file = DataFile(
                file.partition_path, info.path, name.file_id, name.instant, info.size_bytes, file.is_log
            )
            found.setdefault(file.partition_path, []).append(data_file)
        return found

    @cached_property
    def slices(self) -> list[Slice]:
        """The slices that readers see."""
        return visible_slices(self.config, self.timeline, self.commits, self.files)

    @cached_property
    def schema(self) -> pa.Schema:
        """The table's columns, without meta columns."""
        return table_schema(self.config, self.timeline, self.commits)

    def undouble(self) -> str:
        """Return, as text, the steps that leave one row of each key that several file groups hold."""
        # With the record index a deletion removes the one copy that the index names; with other indexes it removes all.
        if "record_index" in self.config.metadata_partitions:
            again = rebuild_command("record_index")
            steps = f"delete the key once per row, and run {again} after each deletion; then upsert the right row"
        else:
            steps = "delete the key, which removes all its rows; then upsert the right row"
        return f"reads return all rows of such a key: find the right row and keep a copy of it; {steps}"

    @cached_property
    def live_base_files(self) -> list[LiveFile]:
        """The newest visible base file of each group that is not replaced, ordered by path."""
        newest: dict[tuple[str, str], LiveFile] = {}
        for file in self.data_files:
            named = self.named.get(file.info.path)
            key = (file.partition_path, file.name.file_id)
            is_archived = bool(self.timeline.start) and file.name.instant < self.timeline.start
            is_late = file.info.path in self.late_files
            if file.is_log or key in self.replaced or is_late or (named is None and not is_archived):
                continue
            if key not in newest or newest[key].instant < file.name.instant:
                rows = named.stat.num_writes if named is not None else None
                newest[key] = LiveFile(file.info.path, *key, file.name.instant, file.info.size_bytes, rows)
        return sorted(newest.values(), key=lambda file: file.path)
