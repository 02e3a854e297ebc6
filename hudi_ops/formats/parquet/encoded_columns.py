"""Read text columns as dictionaries, and decode as many rows at a time as fit into a size.

A file may hold a long text once for many rows. Decoded for all rows of a batch it would exceed any limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_DICTIONARY_BYTES = 4 << 20
_INDEX_BYTES = 4
"""A chunk of at most `_DICTIONARY_BYTES`, and `_INDEX_BYTES` for each row, may hold its values once, as a dictionary."""


def encoded_columns(file: pq.ParquetFile, groups: Sequence[int]) -> list[str]:
    """Return the text columns that may hold many equal values once.

    They are for the option `read_dictionary`.
    """
    texts = {field.name for field in file.schema_arrow if field.type in {pa.string(), pa.binary()}}
    found = set()
    for group in groups:
        chunks = file.metadata.row_group(group)
        limit_bytes = _DICTIONARY_BYTES + _INDEX_BYTES * chunks.num_rows
        columns = (chunks.column(place) for place in range(chunks.num_columns))
        found |= {
            column.path_in_schema
            for column in columns
            if column.has_dictionary_page and column.total_uncompressed_size <= limit_bytes
        }
    return sorted(found & texts)


def decoded_pieces(batch: pa.RecordBatch, schema: pa.Schema, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the plain columns of `schema`, in pieces of about a size."""
    if batch.schema.types == schema.types:
        yield batch
        return
    widths = np.zeros(batch.num_rows, np.int64)
    for column, field in zip(batch.columns, schema, strict=True):
        if column.type != field.type:
            lengths = pc.binary_length(column.dictionary).take(column.indices)
            widths += np.asarray(pc.fill_null(lengths, 0))
    ends = np.cumsum(widths)
    begin = 0
    while begin < batch.num_rows:
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + size_bytes, side="right")))
        columns = [
            column.cast(field.type) if column.type != field.type else column
            for column, field in zip(batch.slice(begin, end - begin).columns, schema, strict=True)
        ]  # a cast of a whole batch breaks slices of structs with a field of nulls alone
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        begin = end
