"""Write rows as Parquet files, and read and write the checkpoint up to which rows are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from hudi_ops.cli.progress import Tell
    from hudi_ops.config.tables_file import TableLocation
    from hudi_ops.read.scan import Scan

_ROW_GROUP_BYTES = 64 << 20


def check_output(output: Path, location: TableLocation) -> None:
    """Refuse an output file that cannot be written, or that readers would take for table data.

    Raises:
        InvalidRequest: it is one.
    """
    folder = Path(os.path.abspath(output)).parent  # noqa: PTH100 - the name is the user's, links are kept
    root = Path(location.path)
    problem, found = "", ""
    if output.suffix != ".parquet":
        problem, found = "is not the name of a Parquet file", output.suffix or "no ending"
    elif not folder.is_dir():
        raise InvalidRequest(
            f"--output {output}: folder {folder} does not exist",
            next_step="create it, or choose another",
            file=str(output),
        )
    elif _is_folder(output):
        problem, found = "is a folder", "a folder"
    elif folder.resolve().is_relative_to(root.resolve()):
        # Readers that list take any Parquet file in a partition for rows.
        problem, found = "lies inside the table", str(root)
    elif not os.access(folder, os.W_OK | os.X_OK):
        problem, found = f"cannot be written: no right to create files in {folder}", ""
    if problem:
        raise InvalidRequest(
            f"--output {output} {problem}",
            expected="a file ending in .parquet, in a folder where this user may create files and that is not part of a table",
            found=found,
            file=str(output),
        )


def write_parquet(scan: Scan, output: Path, tell: Tell) -> int:
    """Write the rows and return their number; the file gets its name when it is whole.

    `tell` is called for each file group.
    """
    import pyarrow.parquet as pq

    aside = _beside(output)
    count = 0
    try:
        with _told_as(output):
            opened = pq.ParquetWriter(aside, scan.schema, compression="zstd")
        with opened as writer:
            waiting: list[pa.RecordBatch] = []
            for batch in scan.to_batches(tell):
                waiting.append(batch)
                count += batch.num_rows
                # The size of a row group does not depend on the batches, and memory is bounded.
                if sum(one.nbytes for one in waiting) >= _ROW_GROUP_BYTES:
                    writer.write_table(_joined(waiting))
                    waiting = []
            if waiting:
                writer.write_table(_joined(waiting))
        with _told_as(output):
            aside.replace(output)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
    return count


def _is_folder(output: Path) -> bool:
    with _told_as(output):
        return output.is_dir()


def _beside(file: Path) -> Path:
    """Return the name under which a file is written.

    It does not hold the file's own name, which may be as long as the file system allows.
    """
    return file.with_name(f".hudi-ops-{uuid4().hex}")


@contextmanager
def _told_as(file: Path) -> Iterator[None]:
    """Convert errors of the disk; they name the file as the user did.

    Raises:
        InvalidRequest: the file system can have no such file.
        PermissionDenied: this user may not write there.
        Unavailable: the disk did not take it for another reason.
    """
    try:
        yield
    except OSError as error:
        from hudi_ops.storage.disk import fail_output

        fail_output(error, file.absolute())


def _joined(batches: list[pa.RecordBatch]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(batches)


def read_checkpoint(file: Path) -> str | None:
    """Return the checkpoint in a file; None if the file does not exist.

    Raises:
        InvalidRequest: it cannot be read, or has no folder to be written to.
    """
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        problem = (
            None
            if file.absolute().parent.is_dir()
            else f"cannot be written: folder {file.absolute().parent} does not exist"
        )
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read: {error}"
    if problem is None:
        return None
    raise InvalidRequest(
        f"--checkpoint-file {file} {problem}",
        expected="a file that an earlier call wrote, or a new name in a folder that exists",
        file=str(file),
    )


def write_checkpoint(file: Path, checkpoint: str, rows: Path | None = None) -> None:
    """Replace the checkpoint in a file; readers see the old one or the new one.

    Args:
        rows: the file of the rows that the checkpoint counts as kept; it is synced to the disk first.

    Raises:
        PermissionDenied: this user may not write there.
        Unavailable: the disk did not take it for another reason.
    """
    if rows is not None:
        _sync(rows)
    aside = _beside(file)
    try:
        with _told_as(file):
            aside.write_text(f"{checkpoint}\n", encoding="utf-8")
            _sync(aside)
            aside.replace(file)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
