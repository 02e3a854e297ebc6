"""What a table, and its metadata table, hold: read by our reader for both programs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow.compute as pc

from benchmarks.harness.rows import ORDERING, Answer
from hudi_ops import Table
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition
from hudi_ops.read.plan import Opened
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify.data.listing import check_listing


def rows_of(table: Path, *, has_metadata: bool) -> Answer:
    """Rows and the sum of the ordering column; files are those that the metadata table lists, where there is one."""
    column = Table.open(str(table)).read([ORDERING], listing="metadata" if has_metadata else "storage")[ORDERING]
    return Answer(len(column), int(pc.sum(column).as_py() or 0))


def is_listing_right(table: Path) -> bool:
    """Whether the metadata table lists what lies there."""
    return check_listing(Table.open(str(table)).context.storage).is_same


def records_of(table: Path, partition: str) -> int:
    """How many records a partition of the metadata table holds."""
    storage = Table.open(str(table)).context.storage
    opened = Opened.of(storage)
    metadata = open_metadata(storage, opened.config, opened.timeline)
    assert metadata is not None
    return len(metadata.read(MetadataPartition(partition)).keys)


def is_built(table: Path, partitions: Collection[str]) -> bool:
    """Whether the properties list the partitions, and no build is left."""
    config = load_config(Table.open(str(table)).context.storage)
    return {*partitions} <= {*config.metadata_partitions} and not config.metadata_partitions_inflight


def files_of(table: Path) -> int:
    """How many base files readers see; the table has no log files."""
    return len(Table.open(str(table)).scan(listing="storage").tasks)


def metadata_files(table: Path) -> dict[Path, int]:
    """Sizes of the files of the metadata table's partitions."""
    folder = table / FOLDER
    found = [path for path in folder.glob("*/*") if ".hoodie" not in path.parent.name and path.suffix != ".crc"]
    return {path: path.stat().st_size for path in found}
