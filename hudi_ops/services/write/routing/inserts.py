"""Assign new keys of a batch to file groups, for an index that does not compute the groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.pending import pending_inputs
from hudi_ops.config.write_settings import FileSizes
from hudi_ops.services.write.routing.packing import shares_of
from hudi_ops.services.write.routing.routes import Target
from hudi_ops.services.write.tasks.tag import SourceSummary
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

_RECENT_WRITES = 10
"""Writes whose statistics are read for the size of a row."""
_MEASURED_BYTES = 1 << 20
"""Least size of a file from which the size of a row is estimated."""
_PACKED = 2
"""Bytes in Arrow for a byte of a base file, if no earlier write gives an estimate."""


def known_group(found: Slice, *, is_rewritten: bool = False) -> Target:
    """Return an existing file group as a target of rows."""
    name = f"in {found.file_id}/{found.partition_path}"
    return Target(name, found.partition_path, 0, found, is_bucket=False, is_rewritten=is_rewritten)


@dataclass(frozen=True)
class InsertAssigner:
    """Assigns new rows to groups by the pending plans and recent row sizes of one state."""

    session: Session
    state: TableState
    summaries: Sequence[SourceSummary]

    def assign(
        self, fresh: Mapping[str, int], slices: Iterable[Slice], touched: Collection[str]
    ) -> dict[str, list[tuple[Target, int]]]:
        """Return the groups that take new rows, with their number, by partition path.

        Args:
            fresh: number of new rows by partition path; none is zero.
            slices: file groups of these partitions that may take new rows.
            touched: chunk keys of the groups that the batch updates.
        """
        if not fresh:
            return {}
        sizes = self.session.file_sizes
        row_bytes = self._row_bytes()
        small = self._small(slices, touched, sizes)
        shares = {}
        for path, rows in fresh.items():
            takers = small.get(path, [])
            rooms = [max(0, int((sizes.target_bytes - slice_.base_bytes) / row_bytes)) for slice_ in takers]
            dealt = []
            new = 0
            for share in shares_of(rows, rooms, max(1, int(sizes.target_bytes / row_bytes))):
                if share.room is not None:
                    dealt.append((known_group(takers[share.room], is_rewritten=True), share.rows))
                    continue
                dealt.append((Target(f"new {new}/{path}", path, new, None, is_bucket=False), share.rows))
                new += 1
            shares[path] = dealt
        return shares

    def _small(self, slices: Iterable[Slice], touched: Collection[str], sizes: FileSizes) -> dict[str, list[Slice]]:
        """Return groups to rewrite with new keys, by partition path.

        Groups that are rewritten anyway come first, then the smallest. Groups with log files are left out: a new base file would
        have to merge them, which is a compaction's work. So are groups of pending plans.
        """
        planned: set[tuple[str, str]] = set()
        for _, inputs in pending_inputs(self.session.ctx, self.state):
            if inputs is None:
                return {}
            planned |= inputs.groups
        found: dict[str, list[Slice]] = defaultdict(list)
        for slice_ in slices:
            if slice_.base is None or slice_.logs or slice_.base_bytes >= sizes.small_bytes:
                continue
            if (slice_.partition_path, slice_.file_id[:BUCKET_DIGITS]) not in planned:
                found[slice_.partition_path].append(slice_)
        is_logged = self.state.config.table_type == "MERGE_ON_READ"

        def order(slice_: Slice) -> tuple[bool, int, str]:
            is_first = not is_logged and known_group(slice_).chunks in touched
            return not is_first, slice_.base_bytes, slice_.file_id

        for path, held in found.items():
            ordered = sorted(held, key=order)
            # A merge-on-read group only logs its updates, so this rewrite is extra: one per write and partition, like Apache Hudi.
            found[path] = ordered[:1] if is_logged else ordered
        return found

    def _row_bytes(self) -> float:
        """Estimate the bytes of a row in a base file from recent writes, or from the batch's rows."""
        writes = self.state.timeline.newest_first
        for instant in writes[:_RECENT_WRITES]:
            metadata = self.session.commits.metadata(self.state.timeline, instant)
            stats = [
                stat
                for stat in (metadata.stats if metadata is not None else ())
                if not stat.log_files and stat.num_writes > 0 and stat.file_size_in_bytes >= _MEASURED_BYTES
            ]
            if stats:
                return sum(stat.file_size_in_bytes for stat in stats) / sum(stat.num_writes for stat in stats)
        rows = sum(summary.rows for summary in self.summaries)
        return max(1.0, sum(summary.size_bytes for summary in self.summaries) / max(1, rows) / _PACKED)
