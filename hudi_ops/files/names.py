"""Names of data files: parsing, and making new ones (docs/format §6.1)."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from functools import lru_cache

BASE_PATTERN = r"(?P<file_id>[^_]+)_(?P<token>\d+-\d+-\d+)_(?P<instant>\d+)\.(?P<format>parquet|hfile|orc)"
LOG_PATTERN = (
    r"\.(?P<file_id>[^_]+)_(?P<instant>[^._]*)\.log\.(?P<version>\d+)(?:_(?P<token>\d+-\d+-\d+))?(?P<cdc>\.cdc)?"
)
"""Patterns of whole names, for Python and for Arrow."""

_BASE, _LOG = re.compile(BASE_PATTERN, re.ASCII), re.compile(LOG_PATTERN, re.ASCII)
METADATA_BOOTSTRAP = "00000000000001"
"""Instant of a bootstrap that writes files with the meta columns alone; one that writes whole rows ends in 2."""

_NAMESPACE = uuid.UUID("8f3d3a2e-5d0f-4c55-9a51-7f0c1f4be9a4")


@dataclass(frozen=True, slots=True)
class DataFileName:
    """Parts of a data file's name.

    `instant` is the request time of its writer (of its base file, for version 6 logs). `version` counts the log files of one
    instant from 1 (of one slice, in version 6), and is 0 for a base file; `token` is the writer's, empty where the name has none.
    """

    file_id: str
    instant: str
    is_log: bool
    version: int = 0
    token: str = ""
    is_cdc: bool = False


@lru_cache(maxsize=65_536)
def parse_data_file(name: str) -> DataFileName | None:
    """Parse a base or log file name; None for any other file of a partition."""
    match = _BASE.fullmatch(name)
    if match:
        return DataFileName(match["file_id"], match["instant"], is_log=False, token=match["token"])
    match = _LOG.fullmatch(name)
    if match is None:
        return None
    return DataFileName(
        match["file_id"],
        match["instant"],
        is_log=True,
        version=int(match["version"]),
        token=match["token"] or "",
        is_cdc=match["cdc"] is not None,
    )


def log_order(name: DataFileName) -> tuple[str, int, str, bool]:
    """Return the sort key of a log file: by request, not completion (docs/format §6.1)."""
    return name.instant, name.version, name.token, name.is_cdc


def log_file_name(file_id: str, instant: str, version: int, token: str) -> str:
    """Return the name of the `version`-th log file (from 1) of an instant in a file group.

    >>> log_file_name("00000000-29e7-46c2-bb51-410f3cddd473-0", "20261121021726755", 1, "0-1830-3504")
    '.00000000-29e7-46c2-bb51-410f3cddd473-0_20261121021726755.log.1_0-1830-3504'
    """
    return f".{file_id}_{instant}.log.{version}_{token}"


def child_log_name(file_id: str, resize: str, version: int, number: int, writer: str) -> str:
    """Return the name of a log file that a write puts into a child group of a pending resize.

    It carries the resize's instant, so that it is visible together with the child's base file. The token says the writer's instant
    in two numbers. `number` distinguishes the files of one writer (docs/protocol §29).

    >>> child_log_name("5c1f2d3e-0", "20261121021726755", 7, 12, "20261121021801002")
    '.5c1f2d3e-0_20261121021726755.log.7_12-20261121-21801002'
    """
    return log_file_name(file_id, resize, version, f"{number}-{_day_and_time(writer)}")


def is_child_log_of(name: DataFileName, writer: str) -> bool:
    """Return whether a log file is one that a write of ours put into a child group."""
    return name.is_log and name.instant != writer and name.token.partition("-")[2] == _day_and_time(writer)


def writer_of_child_log(name: DataFileName) -> str | None:
    """Return the write of ours that put a log file into a child group.

    None: the token does not name one.

    >>> writer_of_child_log(parse_data_file(".5c1f2d3e-0_20261121021726755.log.7_12-20261121-21801002"))
    '20261121021801002'
    """
    _, _, written = name.token.partition("-")
    day, _, time = written.partition("-")
    writer = f"{day}{time:0>9}"
    return writer if len(writer) == len(name.instant) and is_child_log_of(name, writer) else None


def _day_and_time(instant: str) -> str:
    return f"{instant[:8]}-{int(instant[8:] or 0)}"


def base_file_name(file_id: str, group_number: int, epoch: int, instant: str) -> str:
    """Return the name of a new base file.

    It depends on file group, instant and epoch alone, so that every attempt of a task writes the same name. `group_number` takes
    the place of Apache Hudi's partition number of a task, the epoch that of its stage.
    """
    return f"{file_id}_{group_number}-{epoch}-0_{instant}.parquet"


def bucket_file_id(table_id: str, partition_path: str, bucket: int, instant: str) -> str:
    """Return the file id of a bucket's first file: eight digits, then a name-based UUID.

    Source: docs/format §10.1.
    """
    name = uuid.uuid5(_NAMESPACE, f"{table_id}/{partition_path}/{bucket}/{instant}")
    return f"{bucket:08d}{str(name)[8:]}-0"


def group_file_id(table_id: str, partition_path: str, number: int, instant: str) -> str:
    """Return the file id of the `number`-th group that a write begins in a partition.

    It is a name-based UUID of the writer, so that every attempt of a task writes the same one. Source: docs/format §6.1.
    """
    return f"{uuid.uuid5(_NAMESPACE, f'{table_id}/{partition_path}/new {number}/{instant}')}-0"


def data_path(partition_path: str, name: str) -> str:
    """Return the path of a data file below the table's root."""
    return f"{partition_path}/{name}" if partition_path else name
