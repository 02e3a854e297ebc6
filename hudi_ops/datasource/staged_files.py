"""Stage record batches as files of Arrow, and read them back as one stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.commit.recover.staging import STAGED_AGE_MS, StagingArea
from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.context import RandomIds
from hudi_ops.errors import NotFound
from hudi_ops.storage.protocol import Storage

FILE_BYTES = 32 << 20
"""Arrow bytes of one staged file; a task holds one, and its compressed copy."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class StagedFile:
    """One staged file: its path below the table, and its number of rows."""

    path: str
    rows: int


def stage(area: StagingArea, batches: Iterable[pa.RecordBatch], file_bytes: int = FILE_BYTES) -> Iterator[StagedFile]:
    """Put the batches into files of the area, and yield each file.

    Meta columns of Apache Hudi are left out. Names hold an id of this attempt, so no attempt replaces a file of another one.
    """
    attempt, number = RandomIds().new_id(), 0
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in area.renewed(batches):
        if not batch.num_rows:
            continue
        held.append(batch.select([name for name in batch.schema.names if name not in META_COLUMNS]))
        held_bytes += held[-1].nbytes
        if held_bytes >= file_bytes:
            yield _put(area, f"{attempt}-{number}", held)
            number, held, held_bytes = number + 1, [], 0
    if held:
        yield _put(area, f"{attempt}-{number}", held)


def staged_batches(storage: Storage, files: Sequence[StagedFile]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of staged files, a batch at a time, in the order of the files.

    Raises:
        NotFound: a file is gone: another process took this driver for dead.
    """
    for file in files:
        try:
            with pa.ipc.open_stream(storage.open_input(file.path)) as reader:
                yield from reader
        except (NotFound, FileNotFoundError) as error:  # the second: deleted while it was read
            gone = _gone(storage, file.path)
            raise gone from error


def _gone(storage: Storage, path: str) -> NotFound:
    area = path.rpartition("/")[0]
    days = STAGED_AGE_MS // 86_400_000
    return NotFound(
        f"the staged file {path} of this save is gone",
        table=storage.uri,
        expected=f"the files of the staging area {area}; it stays while its driver lives, as seen from the driver's machine, and "
        f"for {days} days after a task last received rows, as seen from others",
        found="no file; a write or `hudi-ops recover` took this driver for dead and deleted the area",
        next_step="save the frame again: this save has written nothing",
        path=path,
        area=area,
    )


def _put(area: StagingArea, name: str, batches: list[pa.RecordBatch]) -> StagedFile:
    body = pa.BufferOutputStream()
    with pa.ipc.new_stream(body, batches[0].schema, options=_OPTIONS) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return StagedFile(area.put(f"{name}.arrow", body.getvalue()), sum(batch.num_rows for batch in batches))
