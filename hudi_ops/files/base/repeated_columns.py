"""Columns of few values that stay dictionary-encoded when a base file is rewritten."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

BYTES_PER_ROW_MAX = 1.0
"""Encoded size up to which a text column counts as one of few values: dictionaries of up to 256 entries. Larger ones cost more
to unify with those of incoming rows than decoding saves (measured: at a few thousand values).
"""


def repeated_columns(file: pq.ParquetFile) -> list[str]:
    """Return text columns of few values, by their size, for the option `read_dictionary`."""
    texts = {field.name for field in file.schema_arrow if pa.types.is_string(field.type)}
    size_bytes = dict.fromkeys(texts, 0)
    for group in range(file.metadata.num_row_groups):
        chunks = file.metadata.row_group(group)
        for place in range(chunks.num_columns):
            chunk = chunks.column(place)
            if chunk.path_in_schema not in texts:
                continue
            size_bytes[chunk.path_in_schema] += chunk.total_uncompressed_size
            if not chunk.has_dictionary_page:
                texts.discard(chunk.path_in_schema)
    limit_bytes = file.metadata.num_rows * BYTES_PER_ROW_MAX
    return sorted(name for name in texts if size_bytes[name] <= limit_bytes)


def concat_rows(carried: pa.Table, fresh: pa.Table) -> pa.Table:
    """Concatenate rows of the older base file and fresh ones.

    A column is a dictionary in the result if it is one in `carried`, else plain.
    """
    for place, field in enumerate(carried.schema):
        column = fresh.column(place)
        if column.type == field.type:
            continue
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        fresh = fresh.set_column(place, field, column.cast(field.type))
    return pa.concat_tables([carried, fresh]).unify_dictionaries()


def joined_rows(parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate rows of files; a column stays a dictionary if it is one in all of them."""
    first, *others = parts
    mixed = [
        field.name
        for place, field in enumerate(first.schema)
        if any(part.schema.field(place).type != field.type for part in others)
    ]
    return pa.concat_tables([decode_columns(part, mixed) for part in parts]).unify_dictionaries()


def decode_columns(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Decode the named columns, if present, for kernels that compare their values."""
    for name in names:
        place = rows.schema.get_field_index(name)
        if place >= 0 and pa.types.is_dictionary(rows.schema.field(place).type):
            rows = rows.set_column(place, name, rows.column(place).cast(plain_type(rows.schema.field(place).type)))
    return rows


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary-encoded column; any other type unchanged."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
