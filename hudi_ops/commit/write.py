"""What an attempt wants to complete, as it hands it to the commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from hudi_ops.files.statistics.statistics import NO_FACTS, FileStatistics, StatisticsRequest
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat


@dataclass(frozen=True)
class Write:
    """What an attempt wants to complete: its operation as Apache Hudi names it, its files, its extra metadata, and its schema.

    `replaced` are the file ids that it hides, by partition path; None for all but replace commits. `schema` holds the table's
    columns from this write on; None: as they are, word for word. `compacted` says that it merged slices, each within its group.
    `facts` are what its writers told of the files, as far as `wanted` asked; `hidden_keys` are the live record keys of the groups
    that it hides, None where nobody asked for keys.
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

    def metadata(self, extra: Mapping[str, str]) -> CommitMetadata:
        """What the completed file says."""
        return CommitMetadata(
            operation=self.operation,
            stats=tuple(self.stats),
            extra=extra,
            replaced=self.replaced,
            compacted=self.compacted,
        )
