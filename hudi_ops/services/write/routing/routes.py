"""Which file groups an ingest writes, and under which key their rows lie: what its first step and the table's index lead to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from hudi_ops.commit.session import Session
from hudi_ops.engine.protocol import Scattered
from hudi_ops.files.names import bucket_file_id, group_file_id
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
        chunks: key of the chunks that its rows come in.
        partition_path: where it lies.
        number: its bucket; with another index, of a new group, which one of its partition's new ones it is.
        found: its slice; None: it begins with this write.
        is_bucket: whether its file id names a bucket.
        is_rewritten: it gets a base file in a merge-on-read table too: keys that are new must not lie in log files alone.
    """

    chunks: str
    partition_path: str
    number: int
    found: Slice | None
    is_bucket: bool = True
    is_rewritten: bool = False

    def file_id(self, table_id: str, instant: str) -> str:
        """Its file id; that of a new group follows from the write's instant, so that every attempt of a task makes the same."""
        if self.found is not None:
            return self.found.file_id
        make = bucket_file_id if self.is_bucket else group_file_id
        return make(table_id, self.partition_path, self.number, instant)


@dataclass(frozen=True)
class Routes:
    """Where a batch goes in one state of the table.

    `scattered` holds the chunks of the targets. `looked` is what the commit says of new keys (`footprint.LOOKED_KEY`).
    """

    scattered: Scattered
    targets: tuple[Target, ...]
    looked: str = ""


class Router(Protocol):
    """Leads the rows of one batch to file groups. A context that gives back what it holds."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what is held."""
        ...

    def intent(self, source: str | None) -> Footprint:
        """What the batch is going to touch, as it looks before the write begins.

        Args:
            source: id of the source whose ledger is read, if any.
        """
        ...

    def routes(self, state: TableState) -> Routes:
        """Where the batch goes in a state; what was asked before of an equal state is not asked again."""
        ...


@dataclass
class BucketRouter:
    """The simple bucket index: the first step did it all."""

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
        """The buckets of the rows."""
        return self.operation.intent(
            ((path, f"{bucket:0{BUCKET_DIGITS}d}") for path, bucket in self._groups), source=source
        )

    def routes(self, state: TableState) -> Routes:
        """The slice of each bucket.

        Raises:
            Unsupported: a file group is of a bucket that the table does not have.
            Corrupt: two file groups of one bucket.
        """
        # What an overwrite writes has no base: even a bucket that exists gets a file group of its own.
        live: dict[tuple[str, int], Slice] = {}
        if self.operation.replaces is Replaces.NOTHING:
            live = live_buckets(self.session, state, self._groups)
        targets = (
            Target(chunk_key(path, bucket), path, bucket, live.get((path, bucket))) for path, bucket in self._groups
        )
        return Routes(self.scattered, tuple(targets))
