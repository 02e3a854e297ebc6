"""Base files for actors that are not our ingest: the table's few rows, as any writer of Apache Hudi would store them."""

from __future__ import annotations

from hudi_ops.files.base.base_file import WriterSettings, encode_base_file
from hudi_ops.kernels.meta_columns import add_meta_columns, with_file_name
from tests.protocol.scenarios.worlds import DEFINITION, Rows, rows_of
from tests.tables import PLAIN_SCHEMA


def base_file(rows: Rows, partition: str, instant: str, name: str) -> bytes:
    """The bytes of a base file."""
    plain = rows_of(dict(sorted(rows.items()))).cast(PLAIN_SCHEMA)
    keys = plain["id"].combine_chunks()
    full = add_meta_columns(
        plain, keys=keys, partition_path=partition, instant=instant, file_name=name, seqno_prefix=f"{instant}_1_"
    )
    return bytes(memoryview(encode_base_file(with_file_name(full, name), DEFINITION.name, WriterSettings())))
