"""Names of the columns that Apache Hudi adds or interprets (docs/format §6.2)."""

from __future__ import annotations

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"

META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""The five meta columns, in their order on disk; all nullable strings."""

IS_DELETED = "_hoodie_is_deleted"
"""A boolean column of the table's own schema; a row that says true deletes its key."""
