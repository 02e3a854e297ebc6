"""A table for listings: its data files are stand-ins of one byte, for a listing asks of names and sizes alone.

They lie in partitions of a hundred files, a file a file group. A commit of ours names them all, or several do, and
`files`, the only partition of the metadata table, is built by our own build from what these commits show.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import begin
from hudi_ops.files.names import base_file_name, bucket_file_id
from hudi_ops.formats import partition_metadata
from hudi_ops.timeline.content.commit_metadata import WriteStat

FILES_A_PARTITION = 100
_SCHEMA = pa.schema({"id": pa.string(), "part": pa.string()})
_BODY = b"x"


def make_table(path: Path, files: int, commits: int = 1, table_type: str = "cow", *, metadata: bool = True) -> Table:
    """Make a table of `files` stand-ins, written by `commits` commits with partitions of their own."""
    made = Table.create(
        str(path),
        name="many",
        record_key=["id"],
        schema=_SCHEMA,
        partition_by=["part"],
        buckets=100,
        table_type=table_type,
        metadata=False,
    )
    session = Session(made.context)
    partitions = -(-files // FILES_A_PARTITION)
    for number in range(commits):
        first, last = (partitions * at // commits * FILES_A_PARTITION for at in (number, number + 1))
        attempt = begin(session.ctx, session.loader, "commit" if table_type == "cow" else "deltacommit")
        stats = _put_files(path, range(first, min(last, files)), attempt.instant)
        with session.keep(attempt.instant):
            complete_write(session, attempt, Write(operation="BULK_INSERT", stats=stats))
        session.release(attempt.instant)
    if metadata:
        made.indexing.run(partitions=["files"], engine="local")
    return made


def _put_files(table: Path, files: Iterable[int], instant: str) -> list[WriteStat]:
    stats = []
    for number in files:
        part, bucket = divmod(number, FILES_A_PARTITION)
        folder = f"part=p{part:05d}"
        if bucket == 0:
            (table / folder).mkdir()
            (table / folder / partition_metadata.FILE_NAME).write_bytes(partition_metadata.dumps(instant, 1, 0))
        file_id = bucket_file_id("stand-ins", folder, bucket, instant)
        path = f"{folder}/{base_file_name(file_id, bucket, 0, instant)}"
        (table / path).write_bytes(_BODY)
        stats.append(
            WriteStat(
                file_id=file_id,
                path=path,
                partition_path=folder,
                num_writes=1,
                num_inserts=1,
                total_write_bytes=len(_BODY),
                file_size_in_bytes=len(_BODY),
            )
        )
    return stats
