"""File groups that an ingest writes, and the keys of their rows' chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.engine.protocol import I, R, Scattered
from hudi_ops.files.names import bucket_file_id, group_file_id
from hudi_ops.index.ring import Ring, renewed_prefix
from hudi_ops.services.base.slices import live_buckets
from hudi_ops.services.write.operations import Replaces, WriteOperation
from hudi_ops.services.write.tasks.tag import SourceSummary, chunk_key
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice


@dataclass(frozen=True, slots=True)
class Target:
    """One file group that takes rows.

    Attributes:
        chunks: key of the chunks that hold its rows.
        partition_path: its partition.
        number: its bucket; with another index, the number of a new group among the new ones of its partition.
        found: its slice; None: it begins with this write.
        is_bucket: whether its file id names a bucket.
        is_rewritten: it gets a base file in a merge-on-read table too, since new keys must not be in log files alone.
        ring: the hash ring whose node `number` names the group; None with another index.
        is_renewed: the write replaces all groups of the ring, and begins others for its nodes.
    """

    chunks: str
    partition_path: str
    number: int
    found: Slice | None
    is_bucket: bool = True
    is_rewritten: bool = False
    ring: Ring | None = None
    is_renewed: bool = False

    def file_id(self, table_id: str, instant: str) -> str:
        """Return its file id; every attempt of a task makes the same one for a new group."""
        if self.found is not None:
            return self.found.file_id
        if self.ring is not None:
            prefix = renewed_prefix(self.ring, self.number, instant) if self.is_renewed else None
            return self.ring.file_id(self.number) if prefix is None else f"{prefix}-0"
        make = bucket_file_id if self.is_bucket else group_file_id
        return make(table_id, self.partition_path, self.number, instant)


@dataclass(frozen=True)
class Routes:
    """Targets of a batch in one state of the table.

    `scattered` holds the chunks of the targets, or of those that were not split again. `looked` is the commit's entry on new keys
    (`footprint.LOOKED_KEY`). `rings` are the instants of the hash rings that route the rows, by partition path. `again` holds
    chunks that were split again, those whose keys are in `split_again`.
    """

    scattered: Scattered
    targets: tuple[Target, ...]
    looked: str = ""
    rings: Mapping[str, str] = field(default_factory=dict)
    again: Scattered | None = None
    split_again: frozenset[str] = frozenset()

    def gather(self, consume: Callable[[I, list[pa.Table]], R], tasks: Sequence[tuple[str, I]]) -> list[R]:
        """Run `consume(input, tables)` once per (chunk key, input), with the chunks of the key."""
        if self.again is None:
            return self.scattered.gather(consume, tasks)
        found: dict[str, R] = {}
        for held, is_again in ((self.scattered, False), (self.again, True)):
            some = [(key, value) for key, value in tasks if (key in self.split_again) is is_again]
            found |= zip((key for key, _ in some), held.gather(consume, some), strict=True)
        return [found[key] for key, _ in tasks]


class Router(Protocol):
    """Routes the rows of one batch to file groups; a context that frees its chunks."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the chunks."""
        ...

    def intent(self, source: str | None) -> Footprint:
        """Return the batch's footprint before the write begins; `source` is the id of its source."""
        ...

    def routes(self, state: TableState) -> Routes:
        """Return the targets in a state; an equal state gets the same answer without a lookup."""
        ...


@dataclass
class BucketRouter:
    """Router of the simple bucket index, which the first step has applied already."""

    session: Session
    operation: WriteOperation
    scattered: Scattered
    summaries: Sequence[SourceSummary]

    def __post_init__(self) -> None:
        self._groups = sorted({(path, bucket) for summary in self.summaries for path, bucket, _ in summary.groups})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def intent(self, source: str | None) -> Footprint:
        """Return the buckets of the rows."""
        return self.operation.intent(
            ((path, f"{bucket:0{BUCKET_DIGITS}d}") for path, bucket in self._groups), source=source
        )

    def routes(self, state: TableState) -> Routes:
        """Return the slice of each bucket.

        Raises:
            Unsupported: a file group is of a bucket that the table does not have.
            Corrupt: two file groups of one bucket.
        """
        # An overwrite creates a new file group even for a bucket that exists.
        live: dict[tuple[str, int], Slice] = {}
        if self.operation.replaces is Replaces.NOTHING:
            live = live_buckets(self.session, state, self._groups)
        targets = (
            Target(chunk_key(path, bucket), path, bucket, live.get((path, bucket))) for path, bucket in self._groups
        )
        return Routes(self.scattered, tuple(targets))
