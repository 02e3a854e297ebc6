"""Scan of one base file: wanted rows of the row groups that may hold some, batch by batch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.engine.stopping import check_stop
from hudi_ops.errors import InvalidRequest
from hudi_ops.files.base.base_file import BROKEN, conform, raise_read_error
from hudi_ops.files.base.row_groups import Constants, may_hold_keys, row_group_bounds
from hudi_ops.formats.arrow_types import type_text
from hudi_ops.formats.parquet.bloom import BloomFilter
from hudi_ops.formats.parquet.encoded_columns import decoded_pieces, encoded_columns
from hudi_ops.formats.parquet.footer import bloom_of
from hudi_ops.formats.parquet.large_footer import LargeFooter
from hudi_ops.kernels.condition import Condition, passing_units, possible_units
from hudi_ops.sources.parquet_source import INT96_UNIT
from hudi_ops.sources.runs import picked
from hudi_ops.storage.protocol import Storage

BATCH_BYTES = 8 << 20
"""Approximate size of a batch, in bytes of its columns in the file before compression."""

BATCH_ROWS_MAX = 64 * 1024

_NO_FIELD = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ")
_NO_KERNEL = re.compile(r"has no kernel matching input types \((.*)\)")
_VALUE_TYPES = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
}
"""Arrow's types of literals -> the words of docs/tables.md, where they differ."""

_FEW_SHARE, _FEW_BATCH_ROWS = 0.02, 16 * 1024
"""If a smaller share of the rows passes, row groups are read only up to the last of them, in batches of this size."""

_ROW = "row number in the file"

_READ_BUFFER_BYTES = 4 << 20
"""A column chunk is read in steps of this size, so that one row group is never in memory whole, not even compressed."""
_READ_BUFFER_BYTES_MIN, _BUFFER_SHARE = 64 << 10, 8


@dataclass(frozen=True)
class FileTask:
    """Base file to read; picklable.

    Attributes:
        schema: the table's columns that are needed, meta columns among them, in the table's order.
        columns: the columns wanted, in the order wanted; all in `schema`.
        condition: which rows are wanted; its columns are in `schema`.
        keys: record keys of which each wanted row has one; None when nothing is known.
        constants: columns of `schema` that follow from the partition, with their values; they are not read from the file.
    """

    storage: Storage
    path: str
    size_bytes: int
    schema: pa.Schema
    columns: tuple[str, ...]
    condition: Condition | None = None
    keys: tuple[str, ...] | None = None
    constants: Constants = ()


class FileScan:
    """Open base file with its footer read.

    Args:
        streaming: read column chunks in steps, and decode long texts that the file holds once for a few rows at a time.
        batch_bytes: approximate size of a batch while streaming; None: `BATCH_BYTES`. With a size, the calling thread decodes
            alone: allocators keep what each thread had.

    Raises:
        Corrupt: not a Parquet file.
        NotFound: it is gone: cleaned since it was listed.
    """

    def __init__(self, task: FileTask, *, streaming: bool = False, batch_bytes: int | None = None) -> None:
        self._task, self._use_threads = task, batch_bytes is None
        self._batch_bytes = min(BATCH_BYTES, batch_bytes or BATCH_BYTES)
        try:
            source = task.storage.open_input(task.path)
            options = {
                "buffer_size": _buffer_bytes(batch_bytes) if streaming else 0,
                "pre_buffer": False,
                "coerce_int96_timestamp_unit": INT96_UNIT,
            }
            self._large = LargeFooter(source, task.path) if batch_bytes is not None else None
            self._file = pq.ParquetFile(source, metadata=self._large.parquet if self._large else None, **options)
            self._file_schema: pa.Schema = self._file.schema_arrow
        except BROKEN as error:
            raise_read_error(task.path, error)
        self._held: list[str] = self._file_schema.names
        self._decoded = pa.table({})
        """Columns of `heads` that rows are made of, too, over all of `_decoded_groups`."""
        self._decoded_groups: list[int] = []
        self.may_hold_keys = task.keys is None or may_hold_keys(self._file, task.keys, task.path)
        """Whether one of the wanted record keys may be in it."""
        self._condition, self._schema = task.condition, task.schema
        """Condition that rows have to be tested for, and the columns needed for it and for the rows."""
        self.row_groups = self._possible()
        """Numbers of the row groups that may hold wanted rows."""
        # Statistics of columns that are read as dictionaries are not known.
        if streaming and (encoded := encoded_columns(self._file, self.row_groups)):
            try:
                self._file = pq.ParquetFile(source, metadata=self._file.metadata, read_dictionary=encoded, **options)
            except BROKEN as error:
                raise_read_error(task.path, error)

    @property
    def row_groups_in_file(self) -> int:
        """Number of row groups in the file."""
        return int(self._file.metadata.num_row_groups)

    @property
    def rows(self) -> int:
        """Rows in the row groups that are read."""
        return sum(int(self._file.metadata.row_group(number).num_rows) for number in self.row_groups)

    @property
    def parquet(self) -> pq.FileMetaData:
        """Parquet's own footer."""
        return self._file.metadata

    @property
    def bloom(self) -> BloomFilter | None:
        """Filter over the record keys, if the file has one.

        Raises:
            Corrupt: it is damaged.
        """
        return self._large.bloom() if self._large else bloom_of(self._file.metadata.metadata, self._task.path)

    def count(self) -> int:
        """Count the wanted rows, by the footer if it decides; raise as `batches` does."""
        return self.rows if self._condition is None else sum(batch.num_rows for batch in self.batches())

    def table(self, keep: npt.NDArray[np.bool_] | None = None) -> pa.Table:
        """Read the wanted rows at once; `keep` masks the rows of the read row groups.

        Raises:
            Corrupt: a page cannot be decoded.
            Unavailable: the storage did not deliver it.
            InvalidRequest: the condition is an expression that cannot be computed, for example a sum that overflows.
        """
        check_stop()
        groups, keep = self._surviving(keep)
        if not groups:
            return self._output.empty_table()
        names, condition = self._stored(), self._condition
        deciding = [name for name in names if condition is not None and name in condition.columns]
        if 0 < len(deciding) < len(names):
            return self._decided(groups, keep, deciding, [name for name in names if name not in deciding])
        read = self._groups_of(groups, names)
        return self._wanted(read if keep is None else read.filter(pa.array(keep)))

    @property
    def _output(self) -> pa.Schema:
        return pa.schema([self._task.schema.field(name) for name in self._task.columns])

    def _surviving(self, keep: npt.NDArray[np.bool_] | None) -> tuple[list[int], npt.NDArray[np.bool_] | None]:
        """Return the read row groups that have a row in a mask, and the mask over their rows."""
        if keep is None:
            return self.row_groups, None
        ends = np.cumsum([self.rows_in(group) for group in self.row_groups])
        parts = np.split(keep, ends[:-1]) if len(ends) else []
        alive = [(group, part) for group, part in zip(self.row_groups, parts, strict=True) if part.any()]
        mask = np.concatenate([part for _, part in alive]) if alive else np.zeros(0, bool)
        return [group for group, _ in alive], None if mask.all() else mask

    def _decided(
        self, groups: list[int], keep: npt.NDArray[np.bool_] | None, deciding: list[str], others: list[str]
    ) -> pa.Table:
        """Read the columns of the condition first, then the others for the rows that pass."""
        task, schema = self._task, self._task.schema
        first = pa.schema([field for field in schema if field.name not in others])
        heads = with_constants(conform(self._groups_of(groups, deciding), first, task.path), task.constants)
        heads = heads.append_column(_ROW, pa.array(np.arange(heads.num_rows)))
        passed = selected(heads if keep is None else heads.filter(pa.array(keep)), self._condition)
        rows = passed.column(_ROW).to_numpy()
        rest = conform(
            self._rows_at(groups, rows, others), pa.schema([schema.field(name) for name in others]), task.path
        )
        columns = [(passed if name in first.names else rest).column(name) for name in task.columns]
        return pa.table(columns, schema=self._output)

    def _rows_at(self, groups: list[int], rows: npt.NDArray[np.int64], names: list[str]) -> pa.Table:
        """Read columns of some rows of row groups; `rows` are ascending numbers of their rows."""
        starts = np.cumsum([0, *(self.rows_in(group) for group in groups)])
        if len(rows) > _FEW_SHARE * starts[-1]:
            return picked(self._groups_of(groups, names), pa.array(rows))
        which = np.unique(np.searchsorted(starts, rows, side="right") - 1).tolist()
        parts = [self._file_schema.empty_table().select(names)]
        for at in which:
            own = rows[slice(*np.searchsorted(rows, starts[at : at + 2]))] - starts[at]
            first = 0
            for batch in self._read(_FEW_BATCH_ROWS, [groups[at]], names):
                low, high = np.searchsorted(own, [first, first + batch.num_rows]).tolist()
                if low < high:
                    parts.append(pa.Table.from_batches([batch.take(pa.array(own[low:high] - first))]))
                first += batch.num_rows
                if high == len(own):
                    break
        return pa.concat_tables(parts)

    def _groups_of(self, groups: list[int], names: list[str]) -> pa.Table:
        known = [name for name in names if name in self._decoded.column_names] if groups == self._decoded_groups else []
        others = [name for name in names if name not in known]
        if known and not others:
            return self._decoded.select(known)
        try:
            read = self._file.read_row_groups(groups, columns=others)
        except BROKEN as error:
            raise_read_error(self._task.path, error)
        for name in known:
            read = read.append_column(name, self._decoded.column(name))
        return read

    def heads(self, schema: pa.Schema, row_groups: list[int]) -> pa.Table:
        """Read columns of all rows of some row groups at once; `table` decodes none of them again.

        Columns that the file lacks are null. It raises as `table` does.
        """
        held, wanted = set(self._held), set(self._stored())
        read = self._groups_of(row_groups, [name for name in schema.names if name in held])
        self._decoded = read.select([name for name in read.column_names if name in wanted])
        self._decoded_groups = row_groups
        return conform(read, schema, self._task.path)

    def batches(
        self, batch_rows: int | None = None, keep: npt.NDArray[np.bool_] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows in non-empty batches; raise as `table` does.

        `batch_rows` limits the rows that are decoded at a time; None: as many as take `BATCH_BYTES`.
        """
        groups, keep = self._surviving(keep)
        names = self._stored()
        size = min(batch_rows or BATCH_ROWS_MAX, self._rows_of(self._batch_bytes, names))
        first = 0
        for batch in self._read(size, groups, names):
            read = pa.Table.from_batches([batch])
            if keep is not None:
                read = read.filter(pa.array(keep[first : first + batch.num_rows]))
                first += batch.num_rows
            rows = self._wanted(read)
            del batch, read
            yield from (batch for batch in rows.to_batches() if batch.num_rows)

    def columns(self, schema: pa.Schema, row_groups: Sequence[int], batch_rows: int) -> Iterator[pa.Table]:
        """Yield columns of all rows of some row groups; raise as `table` does.

        Columns that the file lacks are null.
        """
        held = set(self._held)
        names = [name for name in schema.names if name in held]
        for batch in self._read(batch_rows, row_groups, names):
            yield conform(pa.Table.from_batches([batch]), schema, self._task.path)

    def rows_in(self, row_group: int) -> int:
        """Return the number of rows of a row group."""
        return int(self._file.metadata.row_group(row_group).num_rows)

    def _read(self, batch_rows: int, row_groups: Sequence[int], names: list[str]) -> Iterator[pa.RecordBatch]:
        chosen = {"row_groups": list(row_groups), "columns": names, "use_threads": self._use_threads}
        source = self._file.iter_batches(batch_rows, **chosen)
        while True:
            check_stop()
            try:
                batch = next(source, None)
            except BROKEN as error:
                raise_read_error(self._task.path, error)
            if batch is None:
                return
            plain = pa.schema([self._file_schema.field(name) for name in batch.schema.names])
            yield from decoded_pieces(batch, plain, self._batch_bytes)
            del batch

    def _possible(self) -> list[int]:
        task, everything = self._task, list(range(self._file.metadata.num_row_groups))
        if not self.may_hold_keys:
            return []
        if task.condition is None:
            return everything
        bounds = row_group_bounds(self._file, task.condition.columns, task.schema, task.constants)
        possible = np.flatnonzero(possible_units(task.condition, bounds))
        if passing_units(task.condition, bounds)[possible].all():
            self._condition = None
            self._schema = pa.schema([field for field in task.schema if field.name in task.columns])
        return [int(number) for number in possible]

    def _stored(self) -> list[str]:
        fixed, held = dict(self._task.constants), set(self._held)
        # One column at least: a table without columns has no rows to be counted, kept or filled.
        return [name for name in self._schema.names if name in held and name not in fixed] or self._held[:1]

    def _rows_of(self, size_bytes: int, names: list[str]) -> int:
        metadata, roots = self._file.metadata, set(names)
        rows = total = 0
        for number in self.row_groups:
            group = metadata.row_group(number)
            rows += group.num_rows
            for at in range(group.num_columns):
                column = group.column(at)
                # A dotted name may be a nested leaf's: counted too often rather than too seldom.
                if column.path_in_schema in roots or column.path_in_schema.partition(".")[0] in roots:
                    total += column.total_uncompressed_size
        return max(1, min(rows, rows * size_bytes // total)) if total else BATCH_ROWS_MAX

    def _wanted(self, read: pa.Table) -> pa.Table:
        task = self._task
        constants = tuple((name, value) for name, value in task.constants if name in self._schema.names)
        rows = with_constants(conform(read, self._schema, task.path), constants)
        return selected(rows, self._condition).select(task.columns)


def _buffer_bytes(batch_bytes: int | None) -> int:
    """Return the bytes of a column chunk that are read at a time; each column has such a buffer."""
    if batch_bytes is None:
        return _READ_BUFFER_BYTES
    return min(_READ_BUFFER_BYTES, max(_READ_BUFFER_BYTES_MIN, batch_bytes // _BUFFER_SHARE))


def with_constants(rows: pa.Table, constants: Constants) -> pa.Table:
    """Add the columns whose values the files do not hold."""
    for name, value in constants:
        field = rows.schema.field(name)
        column = pa.repeat(pa.scalar(value, field.type), rows.num_rows)
        rows = rows.set_column(rows.schema.get_field_index(name), field, column)
    return rows


def selected(rows: pa.Table, condition: Condition | None) -> pa.Table:
    """Return the rows that pass a condition.

    Raises:
        InvalidRequest: it compares a column with a value of another type, or cannot be computed.
    """
    if condition is None:
        return rows
    try:
        return rows.filter(condition.rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        names = [f"{field.name} {type_text(field.type)}" for field in rows.schema if field.name not in META_COLUMNS]
        raise InvalidRequest(
            f"the filter does not fit the table's columns: {_misfit(error, rows.schema, condition)}",
            expected=", ".join(names),
            next_step="compare a column with a value of its own type; write times as TIMESTAMP '…' and dates as DATE '…'",
        ) from error


def _misfit(error: pa.ArrowException, schema: pa.Schema, condition: Condition) -> str:
    """Describe an error of Arrow's kernels in the words of the filter."""
    text = str(error).partition("\n")[0]
    if absent := _NO_FIELD.search(text):
        return f"the table has no column {absent[1]}"
    if types := _NO_KERNEL.search(text):
        used = [name for name in dict.fromkeys((*condition.columns, *schema.names)) if name in schema.names]
        sides = []
        for kind in _types(types[1]):
            name = next((one for one in used if one in condition.columns and str(schema.field(one).type) == kind), None)
            words = type_text(schema.field(name).type) if name else _value_type(kind)
            sides.append(f"column {name} ({words})" if name else f"a value of type {words}")
        return f"{' and '.join(sides)} cannot be compared or combined"
    return text


def _types(text: str) -> list[str]:
    """Return the types in a list of Arrow, split at commas outside brackets."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "<[(") - (character in ">])")
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [kind.strip() for kind in found if kind.strip()]


def _value_type(kind: str) -> str:
    """Return the type of a literal, as Arrow prints it, in the words of docs/tables.md."""
    if kind.startswith("timestamp"):
        return "timestamp"
    if kind.startswith("decimal"):
        return kind.replace("decimal128", "decimal").replace("decimal256", "decimal")
    return _VALUE_TYPES.get(kind, kind)
