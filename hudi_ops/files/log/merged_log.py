"""Log files of one slice: keys, ordering values and positions first, then wanted rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import COMMIT_TIME
from hudi_ops.engine.stopping import check_stop
from hudi_ops.errors import Corrupt
from hudi_ops.files.base.base_file import conform
from hudi_ops.files.log.entries import entries_of_deletes, entries_of_rows, keys_of_rows
from hudi_ops.files.log.log_file import LogBlock, LogFileReader
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants, visible_blocks
from hudi_ops.files.names import parse_data_file
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey
from hudi_ops.kernels.merging.log_merge import LogEntries
from hudi_ops.sources.runs import picked
from hudi_ops.storage.protocol import Storage

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Places:
    """Positions of entries' rows: first entry, count, block, row numbers (None: all)."""

    first: int
    count: int
    block: int
    rows: Numbers | None


class MergedLogRecords:
    """Records of opened log files, in the order in which they are merged.

    On creation only the framing of the files is read.

    Args:
        paths: in the order in which they are merged; at least one.
        keys: only records with these keys are wanted; None: all.
        kept: columns to hold in memory from the first reading on, so that each block is decoded once; None: blocks are read
            again for the surviving rows, and only keys, ordering values and positions are held.
        batch_bytes: approximate size of a batch; see `LogFileReader.batches`.

    Raises:
        Corrupt: a log file does not follow the format.
        Unsupported: a block holds records that cannot be merged here.
        NotFound: a file is gone.
        Unavailable: the storage did not deliver it.
    """

    def __init__(
        self,
        storage: Storage,
        paths: Sequence[str],
        rules: MergeRules,
        instants: BlockInstants,
        *,
        keys: Sequence[str] | None = None,
        kept: Sequence[str] | None = None,
        batch_bytes: int | None = None,
    ) -> None:
        self._rules, self._kept, self._instants = rules, kept, instants
        self._keys = pa.array(keys, pa.string()) if keys is not None else None
        self._batch_bytes = batch_bytes
        readers = [LogFileReader(storage, path) for path in paths]
        for reader in readers:
            _refuse_other_writers(reader, instants, rules.table)
        self.corrupt_blocks = sum(reader.corrupt_blocks for reader in readers)
        """Stretches that are not whole blocks; they are skipped, as by Apache Hudi."""
        everything = [block for reader in readers for block in reader.blocks]
        self.total_blocks = len(everything)
        """Whole blocks, whether they count or not."""
        owner = {id(block): reader for reader in readers for block in reader.blocks}
        folder = paths[0].rpartition("/")[0] or "."
        chosen = visible_blocks(everything, instants, folder, rules.table)
        self._blocks: list[tuple[LogFileReader, LogBlock]] = [(owner[id(block)], block) for block in chosen]
        self.chosen = tuple((reader.path, block.number) for reader, block in self._blocks)
        """Path and number of each block that counts, in the order in which they are merged."""
        self._places: list[_Places] = []
        self._tables: dict[int, pa.Table] = {}
        self._records = 0

    @property
    def records(self) -> int:
        """Number of rows and deletes in the blocks that count, once these were read."""
        return self._records

    @cached_property
    def entries(self) -> LogEntries:
        """Entries that count, in the order in which they are merged.

        Raises:
            Corrupt: a block cannot be read, or a row has no record key.
            Unsupported: ordering values that do not fit the table's column.
            Unavailable: the storage did not deliver a block.
        """
        parts, ordering = list(self.entry_parts()), self._rules.ordering
        return LogEntries.joined(parts, ordering.type if ordering is not None else None)

    def entry_parts(self) -> Iterator[LogEntries]:
        """Yield the entries that count part by part, once; errors as in `entries`."""
        self._places.clear()
        self._records = count = 0
        for place, (reader, block) in enumerate(self._blocks):
            check_stop()
            if block.kind is BlockKind.DELETE:
                entries = entries_of_deletes(self._rules, reader, block)
                self._records += len(entries)
                if self._keys is not None:
                    entries = entries.at(_places_of(entries.keys, self._keys))
                yield entries
                count += len(entries)
                continue
            first, found = count, list[Numbers]()
            for entries, numbers in self._read_block(place):
                if numbers is not None:
                    found.append(numbers)
                yield entries
                count += len(entries)
            self._places.append(_Places(first, count - first, place, np.concatenate(found) if found else None))

    @property
    def places(self) -> list[tuple[int, int, int]]:
        """First entry, number of entries and position of each data block."""
        return [(one.first, one.count, one.block) for one in self._places]

    def place(self, places: Sequence[tuple[int, int, int]]) -> None:
        """Take the places of entries from an earlier reading, so that `rows` needs no keys."""
        self._places = [_Places(first, count, block, None) for first, count, block in places]

    def rows(self, taken: Numbers, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of `taken` entries (ascending; see `LogBaseJoin.taken`), block by block.

        Raises:
            Corrupt: a block cannot be read.
            Unavailable: the storage did not deliver it.
        """
        for places in self._places:
            check_stop()
            start, end = np.searchsorted(taken, [places.first, places.first + places.count])
            if start < end:
                numbers = taken[start:end] - places.first
                yield from self._picked(places.block, numbers if places.rows is None else places.rows[numbers], schema)

    def _picked(self, place: int, numbers: Numbers, schema: pa.Schema) -> Iterator[pa.Table]:
        reader, block = self._blocks[place]
        if place in self._tables:
            rows = _some_columns(self._tables[place], schema)
            yield conform(picked(rows, pa.array(numbers)), schema, reader.path)
            return
        first = 0
        names = schema.names
        if not {*names} & {*reader.schema(block).names}:
            # The key, which every block has: a batch without columns has no rows.
            names = self._rules.of_base.names[:1]
        for batch in reader.batches(block, names, self._batch_bytes):
            start, end = np.searchsorted(numbers, [first, first + batch.num_rows])
            if start < end:
                some = picked(pa.Table.from_batches([batch]), pa.array(numbers[start:end] - first))
                yield conform(some, schema, reader.path)
            first += batch.num_rows

    def _read_block(self, place: int) -> Iterator[tuple[LogEntries, Numbers | None]]:
        """Yield the entries of a data block that count.

        With the numbers of their rows; None: all rows.
        """
        (reader, block), rules, only = self._blocks[place], self._rules, self._instants.only
        # A log compaction's block holds rows of several writers.
        is_mixed = only is not None and HeaderKey.COMPACTED_BLOCK_TIMES in block.headers
        fields = [*rules.of_log, *([pa.field(COMMIT_TIME, pa.string())] if is_mixed else [])]
        deciding, first = pa.schema(fields), 0
        for rows, numbers in self._deciding_rows(place, deciding):
            entries = entries_of_rows(rows, rules, reader, block)
            if is_mixed and only is not None:
                times = pc.is_in(rows.column(COMMIT_TIME), pa.array(sorted(only), pa.string()))
                own = np.flatnonzero(np.asarray(times))
                entries, numbers = entries.at(own), first + own if numbers is None else numbers[own]
            yield entries, numbers
            first += rows.num_rows

    def _deciding_rows(self, place: int, deciding: pa.Schema) -> Iterator[tuple[pa.Table, Numbers | None]]:
        """Yield columns of the rows of a data block that have a wanted key.

        With the numbers of these rows; None: all rows.
        """
        reader, block = self._blocks[place]
        if self._keys is not None:
            numbers = self._rows_with(self._keys, place)
            for rows in self._picked(place, numbers, deciding) if len(numbers) else ():
                yield rows, numbers[: rows.num_rows]
                numbers = numbers[rows.num_rows :]
            return
        pieces: Iterator[pa.Table]
        if self._kept is None:
            batches = reader.batches(block, deciding.names, self._batch_bytes)
            pieces = (pa.Table.from_batches([batch]) for batch in batches)
        else:
            self._tables[place] = reader.rows(block, list(dict.fromkeys([*deciding.names, *self._kept])))
            pieces = iter([self._tables[place]])
        for rows in pieces:
            self._records += rows.num_rows
            yield conform(_some_columns(rows, deciding), deciding, reader.path), None

    def _rows_with(self, wanted: pa.Array, place: int) -> Numbers:
        """Return the numbers of a data block's rows with a wanted key.

        Only the key columns are decoded.
        """
        (reader, block), named = self._blocks[place], self._rules.key_columns
        found, first = [np.zeros(0, np.int64)], 0
        for batch in reader.batches(block, named.names):
            keys = keys_of_rows(conform(pa.Table.from_batches([batch]), named, reader.path), self._rules, reader, block)
            found.append(first + _places_of(keys, wanted))
            first += batch.num_rows
        self._records += first
        return np.concatenate(found)


def _places_of(keys: pa.Array, wanted: pa.Array) -> Numbers:
    """Return the numbers of the keys that are wanted."""
    return np.flatnonzero(np.asarray(pc.is_in(keys, wanted)))


def _refuse_other_writers(reader: LogFileReader, instants: BlockInstants, table: str) -> None:
    """Refuse a block of another writer than the file's.

    Headers have no checksum: a block with a damaged instant would be skipped, as one of an incomplete write.

    Raises:
        Corrupt: a block of another writer than the file's.
    """
    named = parse_data_file(reader.path.rpartition("/")[2])
    if named is None or named.instant not in instants.named:
        return
    for block in reader.blocks:
        if block.kind is not BlockKind.COMMAND and block.instant != named.instant:
            raise Corrupt(
                f"the log file {reader.path} has a block of another writer, at offset {block.offset}",
                table=table,
                instant=named.instant,
                expected=f"blocks of {named.instant}, as its name says",
                found=block.instant,
                next_step="run `hudi-ops verify`; restore the file from a copy",
                path=reader.path,
            )


def _some_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the schema's columns that the rows have, else any: a table needs one to have rows."""
    held = set(rows.column_names)
    return rows.select([name for name in schema.names if name in held] or rows.column_names[:1])
