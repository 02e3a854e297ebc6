"""Log files written by hand into a table of ours: one delta commit each, with just the records that a test wants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import begin
from hudi_ops.files.base.base_file import WriterSettings, stored_avro_schema
from hudi_ops.files.log.log_file import encode_log_file
from hudi_ops.files.names import log_file_name, parse_data_file
from hudi_ops.formats.log.deletes import Deletes
from hudi_ops.kernels.meta_columns import add_meta_columns
from hudi_ops.timeline.content.commit_metadata import WriteStat


def append_log(
    table: Table,
    rows: pa.Table | None,
    deletes: Sequence[Deletes] = (),
    data_format: Literal["parquet", "avro"] = "parquet",
) -> str:
    """Complete a delta commit with one log file of the one file group of a table without partitions.

    Args:
        table: merge on read, with a base file, keyed by its first column.
        rows: in the table's schema, or None.
        deletes: each becomes a delete block.
        data_format: of the data block.

    Returns:
        The instant.
    """
    session = table._session
    attempt = begin(session.ctx, session.loader, "deltacommit")
    base = max(
        Path(session.ctx.storage.uri.removeprefix("file://")).glob("[!.]*.parquet"), key=lambda path: path.name[-25:]
    )
    group = parse_data_file(base.name)
    assert group is not None
    if rows is not None:
        keys = rows.column(0).combine_chunks()
        prefix = f"{attempt.instant}_0_"
        rows = add_meta_columns(
            rows, keys=keys, partition_path="", instant=attempt.instant, file_name=group.file_id, seqno_prefix=prefix
        )
    body = encode_log_file(
        rows,
        deletes,
        instant=attempt.instant,
        partition_path="",
        avro_schema=stored_avro_schema(table.schema, table.config.name, True),
        data_format=data_format,
        settings=WriterSettings(),
    )
    name = log_file_name(group.file_id, attempt.instant, 1, "0-0-0")
    session.ctx.storage.put(name, body)
    count = rows.num_rows if rows is not None else 0
    stat = WriteStat(
        file_id=group.file_id,
        path=name,
        partition_path="",
        prev_commit=group.instant,
        num_writes=count,
        num_update_writes=count,
        num_deletes=sum(len(one.keys) for one in deletes),
        total_write_bytes=len(body),
        file_size_in_bytes=len(body),
        base_file=base.name,
        log_files=(name,),
    )
    with session.keep(attempt.instant):
        complete_write(session, attempt, Write("UPSERT", [stat]))
    session.release(attempt.instant)
    return attempt.instant
