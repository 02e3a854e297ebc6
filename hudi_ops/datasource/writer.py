"""Write a DataFrame of Spark in one commit: tasks stage files, the driver ingests them once.

Options: `operation` (as in `Table.ingest`; default `upsert`), `evolve` (`true`: the table takes new columns and wider types),
`batch_id` (a second `save` with the same id writes nothing), `batch_source` (name of the stream that gives the ids; default
`spark`) and `memory_bytes` (rows that the commit holds in memory; default: by the machine's memory). The only mode is `append`.

Spark hands the driver the commit message of one attempt for each partition. Only the files in these messages are ingested, so a
task that ran twice, failed after it staged files, or lost against a speculative copy adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hudi_ops.datasource.plain_errors import plain_errors
from hudi_ops.datasource.saving import Saving, ingest_staged
from hudi_ops.datasource.staged_files import StagedFile, stage


@dataclass
class Staged(WriterCommitMessage):  # type: ignore[misc]
    """Files that one attempt of a task staged, in the order of its rows."""

    files: tuple[StagedFile, ...] = ()


class HudiOpsWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes one `save`.

    `write` runs in tasks; `commit` or `abort` runs once in a process beside the driver.
    """

    def __init__(self, saving: Saving) -> None:
        self.saving = saving

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one partition; nothing where the batch was written before."""
        if self.saving.is_taken:
            return Staged()
        return Staged(tuple(stage(self.saving.area, iterator)))

    def commit(self, messages: list[Staged | None]) -> None:
        """Ingest the staged files in one commit, then delete the staging area.

        Raises:
            HudiOpsError: the rows do not fit the table, or another write won; the table is as it was.
        """
        with plain_errors():
            try:
                if not self.saving.is_taken:
                    ingest_staged(self.saving, [file for message in messages if message for file in message.files])
            finally:
                self.saving.area.clear()

    def abort(self, messages: list[Staged | None]) -> None:
        """Delete the staging area of a failed job, with the files of attempts that sent no message."""
        self.saving.area.clear()
