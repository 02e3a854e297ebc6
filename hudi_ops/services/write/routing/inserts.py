"""Which file groups take the new keys of a batch, where the table's index leaves it open, and how many rows each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hudi_ops.commit.pending import pending_inputs
from hudi_ops.commit.session import Session
from hudi_ops.config.write_settings import FileSizes
from hudi_ops.index.packing import shares_of
from hudi_ops.services.write.routing.routes import Target
from hudi_ops.services.write.tasks.tag import SourceSummary
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

_RECENT_WRITES = 10
_TELLING_BYTES = 1 << 20
"""How many writes are asked for the size of a row, and how much they must have written in one file to tell."""

_PACKED = 2
"""Bytes in Arrow for a byte of a base file, where no earlier write tells more."""


def known_group(found: Slice, *, is_rewritten: bool = False) -> Target:
    """A file group that exists, as a target of rows."""
    name = f"in {found.file_id}/{found.partition_path}"
    return Target(name, found.partition_path, 0, found, is_bucket=False, is_rewritten=is_rewritten)


@dataclass(frozen=True)
class Takers:
    """Deals new rows in one state of a table.

    Attributes:
        session: the table.
        state: decides which plans are pending, and tells how large rows are.
        summaries: of the batch's first step.
    """

    session: Session
    state: TableState
    summaries: Sequence[SourceSummary]

    def deal(
        self, fresh: Mapping[str, int], slices: Iterable[Slice], touched: Collection[str]
    ) -> dict[str, list[tuple[Target, int]]]:
        """The groups that take new rows, and how many, by partition path.

        Args:
            fresh: new rows by partition path; none of zero.
            slices: file groups of these partitions that may take some.
            touched: chunk keys of those that the batch's other rows go to.
        """
        if not fresh:
            return {}
        sizes = self.session.file_sizes
        row_bytes = self._row_bytes()
        small = self._small(slices, touched, sizes)
        shares = {}
        for path, rows in fresh.items():
            takers = small.get(path, [])
            rooms = [max(0, int((sizes.target_bytes - _base_bytes(one)) / row_bytes)) for one in takers]
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
        """Groups that may be rewritten with new keys, by partition path: those that are anyway first, then the smallest.

        A group with log files is none: a base file upon them would have to merge them, which is a compaction's work. Nor is one
        that a pending plan works on.
        """
        planned: set[tuple[str, str]] = set()
        for _, inputs in pending_inputs(self.session.ctx, self.state):
            if inputs is None:
                return {}
            planned |= inputs.groups
        found: dict[str, list[Slice]] = defaultdict(list)
        for one in slices:
            if one.base is None or one.logs or _base_bytes(one) >= sizes.small_bytes:
                continue
            if (one.partition_path, one.file_id[:BUCKET_DIGITS]) not in planned:
                found[one.partition_path].append(one)
        is_logged = self.state.config.table_type == "MERGE_ON_READ"
        for path, held in found.items():
            first = () if is_logged else {one.file_id for one in held if known_group(one).chunks in touched}
            ordered = sorted(held, key=_base_bytes_and_id)
            ordered = [one for one in ordered if one.file_id in first] + [
                one for one in ordered if one.file_id not in first
            ]
            # Each of them is written anew, where their updates would only be logged: as Apache Hudi, one a write and partition.
            found[path] = ordered[:1] if is_logged else ordered
        return found

    def _row_bytes(self) -> float:
        """Bytes of a row in a base file: of the newest write that tells, or as the batch's own rows suggest."""
        writes = sorted(self.state.timeline.completed_writes, key=lambda one: one.completion_time, reverse=True)
        for instant in writes[:_RECENT_WRITES]:
            metadata = self.session.commits.metadata(self.state.timeline, instant)
            told = [
                stat
                for stat in (metadata.stats if metadata is not None else ())
                if not stat.log_files and stat.num_writes > 0 and stat.file_size_in_bytes >= _TELLING_BYTES
            ]
            if told:
                return sum(stat.file_size_in_bytes for stat in told) / sum(stat.num_writes for stat in told)
        rows = sum(summary.rows for summary in self.summaries)
        return max(1.0, sum(summary.size_bytes for summary in self.summaries) / max(1, rows) / _PACKED)


def _base_bytes_and_id(one: Slice) -> tuple[int, str]:
    return _base_bytes(one), one.file_id


def _base_bytes(one: Slice) -> int:
    return one.base.size_bytes if one.base is not None else 0
