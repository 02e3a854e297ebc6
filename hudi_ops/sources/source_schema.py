"""Columns of a source file: Parquet names types, JSON shows them, CSV has only names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from hudi_ops.errors import NotFound
from hudi_ops.formats.arrow_types import MAX_LEVELS
from hudi_ops.sources.limits import VALUE_BYTES_MAX
from hudi_ops.sources.parquet_source import open_parquet
from hudi_ops.sources.refusal import UNREADABLE, open_text, source_format, unreadable
from hudi_ops.sources.source import refuse_changed
from hudi_ops.sources.text.csv_quotes import refuse_bad_quotes
from hudi_ops.sources.text.json_maps import MapsAsLists, has_map
from hudi_ops.sources.text.json_scan import BoundedDepth, NoNullLines, WholeLines
from hudi_ops.sources.text.large_texts import refuse_large_text
from hudi_ops.sources.text.text_source import json_type
from hudi_ops.storage.protocol import FileInfo, Storage

_PIECE_BYTES = 4 << 20
_is = pa.types


@dataclass(frozen=True)
class SchemaTask:
    """One file to inspect; no value may exceed `value_bytes`.

    CSV and JSON take the types of the columns in `table`.
    """

    storage: Storage
    file: FileInfo
    table: pa.Schema
    value_bytes: int = VALUE_BYTES_MAX

    @property
    def where(self) -> str:
        """The file, for errors."""
        return f"{self.storage.uri}/{self.file.path}"


def source_schema(task: SchemaTask) -> pa.Schema:
    """Return the columns of one source file as Arrow types.

    New columns of CSV are text: its numbers may be codes with leading zeros. New fields of JSON have the type that their
    values show, and its texts stay texts. A field with nulls only has the type null.

    Raises:
        InvalidRequest: the file cannot be read, has a value above the limit, or changed since it was listed.
        NotFound: the store contradicts itself on whether the file exists.
    """
    kind = source_format(task.file.name)
    try:
        if kind == "parquet":
            return open_parquet(task.storage.open_input(task.file.path)).schema_arrow
        if task.file.size_bytes == 0:
            return task.table
        return _in_larger_blocks(_csv_schema if kind == "csv" else _json_schema, task)
    except NotFound:
        refuse_changed(task.storage, task.file, task.where)
        raise
    except UNREADABLE as error:
        refusal = unreadable(error, task.storage, task.file, task.table, takes_unknown=True)
        raise refusal from error


def _in_larger_blocks(read: Callable[[pa.NativeFile, pa.Schema, int | None], pa.Schema], task: SchemaTask) -> pa.Schema:
    # A row larger than the readers' own blocks is no error of the source.
    for block_bytes in (None, 1 << 24, 1 << 28, 2**31 - 1):
        if block_bytes == 1 << 24:
            kind = source_format(task.file.name) or ""
            refuse_large_text(lambda: open_text(task.storage, task.file), kind, task.value_bytes, task.where)
        try:
            with open_text(task.storage, task.file) as body:
                return read(body, task.table, block_bytes)
        except pa.ArrowInvalid as error:
            if source_format(task.file.name) == "csv":
                refuse_bad_quotes(lambda: open_text(task.storage, task.file))
            if "block size" not in str(error) or block_bytes == 2**31 - 1:
                raise
    raise AssertionError  # pragma: no cover


def _csv_schema(body: pa.NativeFile, table: pa.Schema, block_bytes: int | None) -> pa.Schema:
    blocks = pacsv.ReadOptions(block_size=block_bytes)
    lines = pacsv.ParseOptions(newlines_in_values=True)
    names = pacsv.open_csv(body, read_options=blocks, parse_options=lines).schema.names
    known = {field.name: field for field in table}
    return pa.schema([known.get(name) or pa.field(name, pa.string()) for name in names])


def _json_schema(body: pa.NativeFile, table: pa.Schema, block_bytes: int | None) -> pa.Schema:
    options = pajson.ParseOptions(
        explicit_schema=pa.schema([(field.name, json_type(field.type)) for field in table]),
        unexpected_field_behavior="infer",
    )
    blocks = pajson.ReadOptions(block_size=block_bytes)
    # A level of a list and of a record is one of the text; the row is one, too.
    bounded: WholeLines = BoundedDepth(NoNullLines(body), MAX_LEVELS)
    bounded.line_bytes = block_bytes or _PIECE_BYTES
    if any(has_map(field.type) for field in table):
        bounded = MapsAsLists(bounded, table)
    bounded.line_bytes = block_bytes or _PIECE_BYTES
    found = pa.schema([])
    for lines in _pieces(pa.PythonFile(bounded, mode="r"), block_bytes or _PIECE_BYTES):
        piece = pajson.read_json(pa.BufferReader(lines), read_options=blocks, parse_options=options).schema
        found = pa.schema(_united(list(found), list(piece), ""))
    known = {field.name: field.type for field in table}
    return pa.schema([field.with_type(_seen(field.type, known.get(field.name))) for field in found])


def _pieces(body: pa.NativeFile, line_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file, some at a time: the reader holds all rows that it is given.

    Raises:
        ArrowInvalid: a line is larger than the limit.
    """
    held, is_first = b"", True
    while block := body.read(_PIECE_BYTES):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield held + block[:cut]
            held, is_first = block[cut:], False
        else:
            held += block
        if len(held) > line_bytes:
            raise pa.ArrowInvalid("JSON parse error: a line is larger than the block size")
    if held or is_first:
        yield held


def _united(ones: list[pa.Field], others: list[pa.Field], path: str) -> list[pa.Field]:
    """Return the fields of two pieces of a file, with types for the values of both."""
    found = {field.name: field for field in ones}
    for field in others:
        known = found.get(field.name)
        kind = field.type if known is None else _common(known.type, field.type, f"{path}/{field.name}")
        found[field.name] = field.with_type(kind)
    return list(found.values())


def _common(one: pa.DataType, other: pa.DataType, path: str) -> pa.DataType:
    """Return the type that Arrow's reader gives a field whose values show both types.

    Raises:
        ArrowInvalid: there is none.
    """
    if one == other or _is.is_null(other):
        return one
    if _is.is_null(one):
        return other
    if _is.is_struct(one) and _is.is_struct(other):
        ones, others = ([kind.field(at) for at in range(kind.num_fields)] for kind in (one, other))
        return pa.struct(_united(ones, others, path))
    if _is.is_list(one) and _is.is_list(other):
        return pa.list_(_common(one.value_type, other.value_type, path))
    kinds = {one, other}
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.string() in kinds and any(map(_is.is_timestamp, kinds)):
        return pa.string()
    raise pa.ArrowInvalid(f"JSON parse error: Column({path}) changed from {one} to {other}")


def _seen(kind: pa.DataType, known: pa.DataType | None) -> pa.DataType:
    """Return the table's type if it has one; times guessed from text become text again."""
    if _is.is_struct(kind):
        inner = {field.name: field.type for field in known} if known is not None and _is.is_struct(known) else {}
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([field.with_type(_seen(field.type, inner.get(field.name))) for field in fields])
    if _is.is_list(kind) and known is not None and _is.is_map(known):  # as `MapsAsLists` writes it
        return pa.map_(known.key_type, _seen(kind.value_type.field("value").type, known.item_type))
    if _is.is_list(kind):
        item = known.value_type if known is not None and _is.is_list(known) else None
        return pa.list_(_seen(kind.value_type, item))
    if known is not None:
        return known
    return pa.string() if _is.is_timestamp(kind) else kind
