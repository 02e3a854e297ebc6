"""Records of every metadata table that Apache Hudi wrote, as they lie in its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hudi_ops.formats.hfile.reader import HFileReader, read_hfile
from hudi_ops.formats.log.blocks import HeaderKey, scan_blocks
from hudi_ops.formats.log.hfile_blocks import read_metadata_log
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records

TABLES = (
    "v8_trips_8i3u1d_mor",
    "v9_async_index",
    "v9_record_index_bloom_filters",
    "v9_txns_simple_meta_cow",
    "v9_txns_simple_meta_mor",
)


@dataclass(frozen=True)
class StoredFile:
    """What one file of a metadata table holds; `records.schema` is the file's own."""

    table: str
    version: int
    path: Path
    records: Records

    @property
    def group(self) -> int:
        """Number of its file group."""
        return int(self.path.name.lstrip(".").split("_")[0].split("-")[-2])


def stored_files(fixtures: Callable[[str], Path], names: tuple[str, ...] = TABLES) -> Iterator[StoredFile]:
    """Every file with records or deletes, of the partitions that we keep."""
    for name in names:
        root = fixtures(name) / ".hoodie" / "metadata"
        for partition in MetadataPartition:
            for path in sorted((root / partition).glob("*")):
                if path.name.endswith(".crc") or path.name == ".hoodie_partition_metadata":
                    continue
                for records in _parts(partition, path):
                    if records:
                        yield StoredFile(name, int(name[1]), path, records)


def _parts(partition: MetadataPartition, path: Path) -> Iterator[Records]:
    data = path.read_bytes()
    none = pa.array([], pa.string())
    if path.suffix == ".hfile":
        held = read_hfile(data, path.name)
        yield Records(partition, held.keys.cast(pa.string()), held.values, none, held.info["schema"].decode())
        return
    schemas = [block.headers.get(HeaderKey.SCHEMA, "") for block in scan_blocks(pa.BufferReader(data), path.name)]
    parts = read_metadata_log(data, path.name, lambda _: True)
    for schema, (_, part) in zip(schemas, parts, strict=True):
        assert not isinstance(part, HFileReader)
        if isinstance(part, pa.Array):
            yield Records(partition, none, pa.array([], pa.binary()), part, schema)
        else:
            yield Records(partition, part.keys.cast(pa.string()), part.values, none, schema)
