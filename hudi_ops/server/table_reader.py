"""Read a table for the server: its id, its timeline, and its views.

The calls block; there is one at a time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from hudi_ops.config.tables_file import TableLocation
from hudi_ops.engine.local import LocalEngine
from hudi_ops.read.current_view import current_view, storage_at
from hudi_ops.read.plan import Opened
from hudi_ops.server.limits import Limits
from hudi_ops.server.states import States, readings
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.kept import forget_view, kept_view
from hudi_ops.view.columns.sync import synced
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.stores.view_file import MappedFile, UnusableFile
from hudi_ops.view.stores.view_folder import spilled

logger = logging.getLogger(__name__)

NO_LOG = "it has no commit log, so that nothing tells its states from those of another table: `hudi-ops adopt`"
VERSION_6 = "it is of version 6, whose log files grow"
RESTORING = "a restore is pending"
EMPTY = "nothing was written to it"


class NotServed(Exception):
    """A table, or a moment of it, that is not served; says why."""


@dataclass
class TableReader:
    """A table of `tables.yaml`, and its states.

    Attributes:
        states: None: none was read yet.
        builds: views that were built of a listing.
        syncs: readings of the timeline.
        heap_bytes: bytes of all states on the heap at the last sync.
    """

    location: TableLocation
    limits: Limits
    share_bytes: int
    states: States | None = None
    builds: int = 0
    syncs: int = 0
    heap_bytes: int = 0
    _storage: Storage | None = None
    _commits: CommitReader | None = None
    _mapped: MappedFile | None = None
    _engine: LocalEngine = field(default_factory=LocalEngine)

    @property
    def storage(self) -> Storage:
        """The table's storage, which is opened at the first call; its views ask no server."""
        if self._storage is None:
            settings = self.location.view
            store = settings.store if settings.store == "disk" else "memory"
            self._storage = storage_at(self.location, settings.model_copy(update={"server": None, "store": store}))
        return self._storage

    def look(self) -> str:
        """Return the id of the table.

        Raises:
            NotServed: it has none, or is of version 6.
            HudiOpsError: it cannot be read.
        """
        return self._opened()[1]

    def _opened(self) -> tuple[Opened, str]:
        commits = CommitReader(self.storage)
        if self._commits is not None:
            commits.settings = self._commits.settings
        self._commits = commits
        opened, first = Opened.of(self.storage, commits), read_slot(self.storage, 0)
        if first is None:
            raise NotServed(NO_LOG)
        if opened.config.layout != 2:
            raise NotServed(VERSION_6)
        return opened, first.table_id

    def sync(self) -> None:
        """Read the timeline, and continue the newest state to it, or build a view.

        Raises:
            NotServed: the table is not served, or not now.
            HudiOpsError: it cannot be read.
        """
        self.syncs += 1
        opened, table_id = self._opened()
        if any(one.action == "restore" for one in opened.timeline.pending):
            self.states, self.heap_bytes = None, 0
            raise NotServed(RESTORING)
        if not opened.timeline.start:
            raise NotServed(EMPTY)
        if self.states is not None and self.states.table_id == table_id:
            why = self._continue(opened)
            if not why:
                return
            logger.info("the view of %s is built anew: %s", self.location.name, why)
        self._build(opened, table_id)

    def _continue(self, opened: Opened) -> str:
        """Add states up to a reading of the timeline; return why not, or an empty text."""
        states = self.states
        if states is None or not states.held:
            return "there was none"
        view, found = states.newest.view, []
        for timeline in readings(view.timeline, opened.timeline, self.limits.states):
            now = synced(replace(view, commits=opened.commits), self.storage, opened.config, timeline)
            if not isinstance(now, View):
                return now.why
            view = now
            found.append(view)
        found[-1] = self._spilled(found[-1])
        states.continued(found)
        self._trim(states)
        if self.location.view.store == "disk":  # a server that starts again continues the stored view
            kept_view(self.storage, opened.config, opened.timeline, opened.commits)
        return ""

    def _build(self, opened: Opened, table_id: str) -> None:
        view = current_view(self.storage, opened.config, opened.timeline, opened.commits, self._engine)
        if self.location.view.store != "disk":
            forget_view(self.storage, "the server holds it")
        self.builds += 1
        self._mapped = None
        states = States(table_id, self.limits.states)
        states.began(self._spilled(view.settled()))
        self._trim(states)
        self.states = states

    def _spilled(self, view: View) -> View:
        """Return a view, moved to a private file if it is larger than the table's share."""
        heap = self._mapped.overlay_bytes(view.files) if self._mapped is not None else view.files.bytes
        if heap <= self.share_bytes:
            return view
        try:
            stored = spilled(view, self.location.view.place, view.commits)
        except (UnusableFile, OSError, RuntimeError) as error:
            logger.warning("the view of %s stays in memory: %s", self.location.name, error)
            return view
        self._mapped = stored.file
        return replace(view, files=stored.view.files, ahead=stored.view.ahead, computed={})

    def _trim(self, states: States) -> None:
        """Let the oldest states go while all take more than the table's share; the newest stays."""
        heap = self._bytes_of(states)
        while len(states.held) > 1 and heap > self.share_bytes:
            states.held = states.held[1:]
            heap = self._bytes_of(states)
        self.heap_bytes = heap

    def _bytes_of(self, states: States) -> int:
        """Return the bytes of states on the heap, which share most columns."""
        chunks = (chunk for held in states.held for chunk in held.view.files.chunks)
        columns = (one for chunk in chunks if not (self._mapped and self._mapped.holds(chunk)) for one in chunk.columns)
        sizes = {buffer.address: buffer.size for one in columns for buffer in one.buffers() if buffer is not None}
        return sum(sizes.values())
