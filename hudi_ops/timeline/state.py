"""Everything a decision is made upon, read in the order that makes it safe: settings, then the log, then the timeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Conflict, NotFound, Unsupported
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.commit_log import POINTER_KEY, Log, Pointer, load_log, refresh_log
from hudi_ops.timeline.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.properties_file import load_config


@dataclass
class CommitReader:
    """Reads commits' metadata, each once: completed files never change."""

    storage: Storage
    _read: dict[str, CommitMetadata] = field(default_factory=dict)

    def metadata(self, timeline: Timeline, instant: Instant) -> CommitMetadata | None:
        """What a completed write says; None when its file vanished meanwhile (archived, restored).

        Raises:
            Corrupt: its bytes are not commit metadata.
        """
        path = timeline.path(instant.file_name)
        if path not in self._read:
            try:
                self._read[path] = CommitMetadata.from_bytes(self.storage.get(path), path)
            except NotFound:
                return None
        return self._read[path]

    def newest_with(self, timeline: Timeline, key: str) -> CommitMetadata | None:
        """The write that completed last among those whose extra metadata has `key`."""
        for instant in sorted(timeline.completed_writes, key=lambda one: one.completion_time, reverse=True):
            metadata = self.metadata(timeline, instant)
            if metadata is not None and key in metadata.extra:
                return metadata
        return None


@dataclass(frozen=True)
class TableState:
    """One consistent-enough view for a decision: what changed after it was read makes the next slot taken."""

    config: TableConfig
    log: Log
    timeline: Timeline


@dataclass
class StateLoader:
    """Loads the state of one table again and again, reading only what is new."""

    storage: Storage
    commits: CommitReader
    _log: Log | None = None

    def load(self) -> TableState:
        """Read settings, log and timeline.

        Raises:
            Unsupported: the table has no commit log; only its maker writes it so far.
            Conflict: another table lies under the path now.
        """
        config = load_config(self.storage)
        if self._log is None:
            timeline = load_timeline(self.storage, config)
            self._log = load_log(self.storage, self._pointer(timeline))
            if self._log is None:
                raise Unsupported(
                    "this table was not made by hudi-ops and cannot be written yet",
                    table=config.name,
                    expected="a commit log under .hoodie/.commit_log",
                    found="none",
                    next_step="read it with `hudi-ops read`; write it with the program that made it",
                )
        else:
            self._log = refresh_log(self.storage, self._log)
        # Log before timeline: an instant completed in between is then on the timeline, never "decided but unfinished".
        state = TableState(config, self._log, load_timeline(self.storage, config))
        pointer = self._pointer(state.timeline)
        if pointer is not None and pointer.table_id != self._log.table_id:
            self._log = None
            raise Conflict(
                "the table was dropped and made anew under this path",
                table=config.name,
                expected=f"table id {state.log.table_id}",
                found=pointer.table_id,
                next_step="run the same call again: it starts from the new table",
            )
        return state

    def whole_log(self) -> Log | None:
        """The log from slot 0: for the rare question that the newest part does not answer. Reads every slot."""
        return load_log(self.storage, None)

    def _pointer(self, timeline: Timeline) -> Pointer | None:
        newest = self.commits.newest_with(timeline, POINTER_KEY)
        return Pointer.decode(newest.extra) if newest is not None else None
