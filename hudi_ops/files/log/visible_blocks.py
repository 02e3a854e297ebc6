"""Visibility of a slice's log blocks, by their writers' instants and later blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Unsupported
from hudi_ops.files.log.log_file import LogBlock
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey
from hudi_ops.timeline.active import Timeline

_ROLLBACK = "0"
_DATA = frozenset({BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA})


@dataclass(frozen=True)
class BlockInstants:
    """Instants whose blocks are read.

    Attributes:
        latest: request time of the newest completed write that counts.
        completed: request times of the completed writes, in layout 1, whose file names do not name the writers; else None.
        start: in layout 1, the start of the active timeline; older instants count as completed.
        only: only the blocks of these instants, for changes; None: of all.
        named: completed delta commits, in layout 2: a log file that carries one of them holds blocks of no other writer.
        pending: writes that have not completed, in layout 2; log files that carry the instant of a resize hold their blocks.
    """

    latest: str
    completed: frozenset[str] | None = None
    start: str = ""
    only: frozenset[str] | None = None
    named: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, config: TableConfig, timeline: Timeline, as_of: str | None = None, only: frozenset[str] | None = None
    ) -> BlockInstants:
        """Return the instants of a table, at one reading of its timeline."""
        writes = timeline.completed_writes  # by request time
        if as_of is not None:
            writes = tuple(instant for instant in writes if instant.time <= as_of)
        known = frozenset(instant.time for instant in writes) if config.layout == 1 else None
        named = timeline.deltas if config.layout == 2 else frozenset()
        # A savepoint has the instant of its write, which has completed.
        unfinished = (instant.time for instant in timeline.pending if instant.kind != "savepoint")
        pending = frozenset(unfinished) if config.layout == 2 else frozenset()
        return cls(writes[-1].time if writes else "", known, timeline.start, only, named, pending)

    def show(self, instant: str) -> bool:
        """Return whether the blocks of this writer count."""
        if self.only is not None:
            return instant in self.only
        if instant > self.latest or instant in self.pending:
            return False
        return self.completed is None or instant in self.completed or instant < self.start


def visible_blocks(blocks: Sequence[LogBlock], instants: BlockInstants, path: str, table: str = "") -> list[LogBlock]:
    """Return the data and delete blocks that count, in their order (docs/format §9.8).

    A rollback block revokes all blocks of its target before it. A block of a log compaction replaces the blocks of the
    instants that it names.

    Args:
        blocks: of one slice, in the order in which they are read.

    Raises:
        Unsupported: a block that counts holds records that cannot be merged here.
    """
    forward: list[LogBlock] = []
    for block in blocks:
        if block.kind is BlockKind.COMMAND:
            if block.headers.get(HeaderKey.COMMAND_BLOCK_TYPE) != _ROLLBACK:
                _refuse(
                    block, f"a command block of type {block.headers.get(HeaderKey.COMMAND_BLOCK_TYPE)}", path, table
                )
            target = block.headers.get(HeaderKey.TARGET_INSTANT_TIME)
            forward = [block for block in forward if block.instant != target]
        elif block.kind is not BlockKind.CORRUPT and instants.show(block.instant):
            forward.append(block)
    kept: list[LogBlock] = []
    compacted: set[str] = set()
    for block in reversed(forward):
        is_kept = block.instant not in compacted
        named = block.headers.get(HeaderKey.COMPACTED_BLOCK_TIMES)
        compacted |= {time.strip() for time in named.split(",")} - {""} if named else set()
        if is_kept:
            kept.append(block)
    kept.reverse()
    for block in kept:
        if block.kind is not BlockKind.DELETE and block.kind not in _DATA:
            _refuse(block, f"a {block.kind.name} block", path, table)
        if block.headers.get(HeaderKey.IS_PARTIAL, "").lower() == "true":
            _refuse(block, "a block with only some columns of its rows (IS_PARTIAL)", path, table)
    return kept


def _refuse(block: LogBlock, found: str, path: str, table: str) -> None:
    raise Unsupported(
        f"a log file in {path} has a block that cannot be merged here",
        table=table,
        instant=block.instant,
        expected="rows as Avro or Parquet, deletes, rollbacks",
        found=found,
        next_step="compact the table with Apache Hudi, or read only its base files with query='read_optimized'",
    )
