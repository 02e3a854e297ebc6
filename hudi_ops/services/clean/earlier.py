"""Read what earlier cleans left to the next one: earliest instant and held-back files.

Source: docs/protocol §20, steps 2, 3 and 8.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from hudi_ops.commit.session import Session
from hudi_ops.errors import Corrupt
from hudi_ops.timeline.content.plans import CleanResult, FilesByPartition, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState

HELD_BACK_KEY = "hudi_ops.held_back"
"""Key of the extra metadata of plans and results: the held-back files by partition, as JSON."""

RETAIN_KEY = "hudi_ops.retain"
"""Key of the extra metadata of plans and results: how many commits, hours or slices the policy retains."""

SAVEPOINTS_KEY = "savepointed_timestamps"
"""Apache Hudi's key there: the savepoints that a clean respected, separated by commas."""


@dataclass(frozen=True)
class Earlier:
    """What the completed cleans of a timeline say.

    Attributes:
        newest: the clean that completed last; None: there is none.
        start: its earliest retained instant; empty: it names none, or no clean is left.
        floor: newest earliest retained instant of any clean.
        held_back: files that the newest clean of this library held back; None: no clean of it is left.
        saved: savepoints that cleans since then respected.
    """

    newest: Instant | None = None
    start: str = ""
    floor: str = ""
    held_back: FilesByPartition | None = None
    saved: frozenset[str] = frozenset()

    def touched(self, session: Session, state: TableState, until: str, saved: frozenset[str]) -> frozenset[str] | None:
        """Return the partitions with slices superseded since the newest clean; None: all.

        The superseding writes were requested before `until`, and either from the earliest instant of that clean on, or they
        completed after the clean was planned: a writer may sleep before its write is on the timeline.

        Raises:
            Corrupt: commit metadata cannot be read.
        """
        timeline, newest = state.timeline, self.newest
        # An archived clean of this library may have held files back, and writes below the start are archived. A clean of Apache
        # Hudi does not name the files that a savepoint held back, so all partitions are listed if a savepoint was deleted since.
        if newest is None or self.held_back is None or not self.start or self.start < timeline.start:
            return None
        if not self.saved <= saved:
            return None
        found: set[str] = set()
        for write in timeline.completed_writes:
            if write.time >= until or (write.time < self.start and write.completion_time <= newest.time):
                continue
            metadata = session.commits.metadata(timeline, write)
            if metadata is None:
                return None  # it was archived or undone since the timeline was listed
            found |= {stat.partition_path for stat in metadata.stats} | set(metadata.replaced or {})
        return frozenset(found)


def completed_cleans(state: TableState) -> list[Instant]:
    """Return the completed cleans on the timeline, the newest completion first."""
    cleans = (one for one in state.timeline.by_kind.get("clean", ()) if one.is_completed)
    return sorted(cleans, key=attrgetter("completion_time"), reverse=True)


def earlier_cleans(session: Session, state: TableState, at_most: int | None = None) -> Earlier:
    """Read the completed cleans on the timeline, newest first, until one of this library.

    Args:
        session: of the table.
        state: of the table.
        at_most: number of cleans that are read; None: as many as are needed.

    Raises:
        Corrupt: a clean cannot be read.
    """
    cleans = completed_cleans(state)[:at_most]
    newest: Instant | None = None
    start = floor = ""
    saved: set[str] = set()
    for one in cleans:
        said = read_result(session.ctx.storage, state.timeline, one)
        if not isinstance(said, CleanResult):
            continue  # archived since the timeline was listed
        if newest is None:
            newest, start = one, said.earliest_retained
        floor = max(floor, said.earliest_retained)
        if HELD_BACK_KEY in said.extra:
            held = decode_held_back(said.extra[HELD_BACK_KEY], one.file_name)
            return Earlier(newest, start, _floor(session, state, cleans, floor), held, frozenset(saved))
        saved |= {time for time in said.extra.get(SAVEPOINTS_KEY, "").split(",") if time}
    return Earlier(newest, start, floor, None, frozenset(saved))


def _floor(session: Session, state: TableState, cleans: Iterable[Instant], floor: str) -> str:
    """Return the floor; older cleans are read only where no newer one names an instant."""
    if floor:
        return floor
    for one in cleans:
        said = read_result(session.ctx.storage, state.timeline, one)
        floor = max(floor, said.earliest_retained if isinstance(said, CleanResult) else "")
    return floor


def encode_held_back(files: FilesByPartition) -> str:
    """Encode held-back files: equal texts for equal ones."""
    return json.dumps({path: sorted(names) for path, names in sorted(files.items()) if names}, separators=(",", ":"))


def decode_held_back(text: str, where: str) -> dict[str, tuple[str, ...]]:
    """Decode held-back files.

    Raises:
        Corrupt: the text is something else.
    """
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, Mapping) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in said.values()
    ):
        raise Corrupt(
            f"{where} does not say which files were held back",
            expected=f"{HELD_BACK_KEY}: a JSON object of file names by partition",
            found=text[:100],
            next_step="restore the file from a copy of the table; or run `hudi-ops clean TABLE --full` once it is archived",
        )
    return {path: tuple(names) for path, names in said.items()}
