"""Small facts about columns that writers record or that errors name: key ranges and the first missing value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def key_range(keys: pa.Array | pa.ChunkedArray) -> tuple[str, str] | None:
    """The smallest and the largest key by the order of their UTF-8 bytes, as Apache Hudi's footers hold them.

    Args:
        keys: strings.

    Returns:
        (smallest, largest), or None when there is no key.
    """
    ends = pc.min_max(keys).as_py()
    return None if ends["min"] is None else (ends["min"], ends["max"])


def first_null_row(column: pa.Array | pa.ChunkedArray) -> int | None:
    """Number of the first row that is null, from 0; None when there is none."""
    if column.null_count == 0:
        return None
    return int(pc.index(column.is_null(), True).as_py())
