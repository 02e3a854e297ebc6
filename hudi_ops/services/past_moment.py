"""Whether an earlier moment of a table can still be read: no clean, active or archived, removed a file that it needs.

A clean by file versions names no earliest instant that stays readable, and a savepoint keeps files of instants before the earliest
that a clean by commits names. So the files that cleans removed tell, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest
from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.archived import ArchivedInstant, load_history
from hudi_ops.timeline.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.plans import CleanPlan, CleanResult, Plan, Result, read_plan, read_result, result_of
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import Keep
from hudi_ops.view.slices import visible_slices

_CLEAN, _REPLACE = "clean", "replacecommit"
_ARCHIVED_ACTIONS = frozenset({_CLEAN, _REPLACE})
_Removed: TypeAlias = tuple[str, str, str]
"""Request time of a clean, partition path, and name of a file."""


@dataclass(frozen=True)
class PastMoment:
    """A table as of the request time `as_of`, on a timeline that was read before its files were listed."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    commits: CommitReader
    as_of: str

    def refuse_cleaned(
        self, listed: Mapping[str, Sequence[DataFile]], wanted: Keep | None, *, with_logs: bool = True
    ) -> None:
        """Refuse a moment of which a wanted slice lacks a file that a clean removed.

        The cleans are read after the files were listed: whichever removed a file before is among them, completed or not.

        Args:
            listed: the files of the partitions that are read.
            wanted: which partitions may hold wanted rows, by their paths; None: all.
            with_logs: log files are read, too.

        Raises:
            InvalidRequest: names the moment, the clean and a file.
            Corrupt: a clean or the history cannot be read.
        """
        removed = self._missing(listed, wanted)
        groups = {_group(file) for file, _ in removed.values()}
        as_it_was: dict[str, list[DataFile]] = {path: [] for path, _ in groups}
        for file in chain(*listed.values(), (one for one, _ in removed.values())):
            if _group(file) in groups:
                as_it_was[file.partition_path].append(file)
        for one in visible_slices(self.config, self.timeline, self.commits, as_it_was, self.as_of):
            needed = (*((one.base,) if one.base is not None else ()), *(one.logs if with_logs else ()))
            for file in needed:
                if file.path in removed:
                    raise self._refusal(file, removed[file.path][1])

    def _missing(
        self, listed: Mapping[str, Sequence[DataFile]], wanted: Keep | None
    ) -> dict[str, tuple[DataFile, str]]:
        """Removed files of wanted partitions that were not listed, by path, each with the request time of its clean."""
        present = {file.path for files in listed.values() for file in files}
        removed = {path: one for path, one in self._removed().items() if path not in present}
        others = sorted({file.partition_path for file, _ in removed.values()} - listed.keys())
        kept = dict(zip(others, wanted(others), strict=True)) if wanted is not None and others else {}
        return {path: one for path, one in removed.items() if kept.get(one[0].partition_path, True)}

    def _refusal(self, file: DataFile, clean: str) -> InvalidRequest:
        return InvalidRequest(
            f"the table cannot be read as of {self.as_of}: clean {clean} removed {file.path}, which this instant needs",
            table=self.config.name,
            instant=self.as_of,
            expected="an instant of which no clean removed a file",
            found=f"clean {clean}",
            next_step="choose a later one from `hudi-ops timeline`; the instant of a savepoint stays readable",
            clean=clean,
            path=file.path,
        )

    def _removed(self) -> dict[str, tuple[DataFile, str]]:
        timeline = load_timeline(self.storage, self.config)
        # After the active timeline: a clean that is archived in between is then found twice, and not missed.
        history = load_history(self.storage, self.config, with_content=True, actions=_ARCHIVED_ACTIONS).instants
        hidden = _replaced(history)
        found = {}
        for clean, partition, name in chain(self._of_active(timeline), self._of_archived(history)):
            named = parse_data_file(name)
            if named is not None and (partition, named.file_id) not in hidden:
                path = data_path(partition, name)
                found[path] = DataFile(partition, path, named.file_id, named.instant, 0, named.is_log), clean
        return found

    def _of_active(self, timeline: Timeline) -> Iterator[_Removed]:
        """What was removed by cleans that are pending, or completed at or after the moment.

        One that completed before it cannot have removed what the moment needs: what superseded that was requested later.
        """
        cleans = [
            one
            for one in timeline
            if one.kind == "clean" and (not one.is_completed or one.completion_time >= self.as_of)
        ]

        def said(one: Instant) -> Plan | Result | None:
            return read_result(self.storage, timeline, one) or read_plan(self.storage, timeline, one)

        for one, told in zip(cleans, LocalEngine().map(said, cleans), strict=True):
            yield from _files_of(one.time, told)

    def _of_archived(self, history: Sequence[ArchivedInstant]) -> Iterator[_Removed]:
        for one in history:
            if one.action == _CLEAN and one.completion_time >= self.as_of and one.metadata:
                yield from _files_of(one.time, result_of(_CLEAN, one.metadata, f"archived {one.time}"))


def _files_of(clean: str, said: Plan | Result | None) -> Iterator[_Removed]:
    by_partition: Mapping[str, Iterable[str]] = {}
    if isinstance(said, CleanPlan):
        by_partition = said.files
    elif isinstance(said, CleanResult):
        by_partition = said.named
    for partition, names in by_partition.items():
        yield from ((clean, partition, name) for name in names)


def _replaced(history: Sequence[ArchivedInstant]) -> set[tuple[str, str]]:
    """(partition path, file id) of groups that an archived replace commit hides from every moment of the active timeline."""
    return {
        (partition, file_id)
        for one in history
        if one.action == _REPLACE and one.metadata
        for partition, ids in (CommitMetadata.from_bytes(one.metadata, f"archived {one.time}").replaced or {}).items()
        for file_id in ids
    }


def _group(file: DataFile) -> tuple[str, str]:
    return file.partition_path, file.file_id
