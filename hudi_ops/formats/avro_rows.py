"""Contents of AVRO_DATA blocks, version 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from hudi_ops.errors import Unsupported


class AvroRows:
    """The rows of a block."""

    def __init__(self, content: bytes | pa.Buffer, schema: str, path: str) -> None:
        raise Unsupported(f"{path} holds Avro rows", next_step="use Parquet")

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows."""
        raise NotImplementedError

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Rows by batches."""
        raise NotImplementedError


def encode_rows(rows: pa.Table, schema: str) -> bytes:
    """The content."""
    raise Unsupported("Avro rows are not written", next_step="use Parquet")
