"""The write that an attempt hands to the commit, and its files for pending resizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from hudi_ops.files.statistics.statistics import NO_FACTS, FileStatistics, StatisticsRequest
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.content.plans import FilesByPartition
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class Write:
    """Operation (as Apache Hudi names it), files, extra metadata and schema of a write.

    `replaced`: file ids that it hides, by partition path; None except for replace commits. `schema`: the table's columns from this
    write on; None: the stored schema text stays. `compacted`: the write merged slices, each within its group. `facts`: the file
    statistics that `wanted` requested. `hidden_keys`: live record keys of the hidden groups; None: not requested. `removed`:
    deleted files of other commits, by partition path, which are removed from the metadata table.
    """

    operation: str
    stats: Sequence[WriteStat]
    extra: Mapping[str, str] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    replaced: Mapping[str, tuple[str, ...]] | None = None
    schema: pa.Schema | None = None
    compacted: bool = False
    facts: Sequence[FileStatistics] = ()
    wanted: StatisticsRequest = NO_FACTS
    hidden_keys: pa.Array | None = None
    removed: FilesByPartition = field(default_factory=dict)

    def metadata(self, extra: Mapping[str, str]) -> CommitMetadata:
        """Return the metadata in the completed file."""
        return CommitMetadata(
            operation=self.operation,
            stats=tuple(self.stats),
            extra=extra,
            replaced=self.replaced,
            compacted=self.compacted,
        )


class Twin(Protocol):
    """Files that a write adds for pending resizes (`services.write.dual`)."""

    @property
    def joined(self) -> frozenset[str]:
        """Return the resizes for which the write has files; it does not conflict with them."""
        ...

    def made(self, state: TableState) -> Write:
        """Make the files for a state, without the lock; return the write with these files."""
        ...

    def fits(self, state: TableState) -> bool:
        """Return whether the write still needs exactly these files; called under the lock."""
        ...
