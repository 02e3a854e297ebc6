"""`.hoodie_partition_metadata`: byte for byte what Hudi writes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hudi_ops.errors import Corrupt
from hudi_ops.formats import partition_metadata
from hudi_ops.formats.partition_metadata import PartitionMetadata


def test_every_real_file_is_reproduced_byte_for_byte(hudi_fixtures, hudi_fixture_names):
    checked = 0
    for name in hudi_fixture_names:
        base = hudi_fixtures(name)
        for path in base.rglob(partition_metadata.FILE_NAME):
            data = path.read_bytes()
            value = partition_metadata.loads(data, str(path))
            in_metadata_table = path.is_relative_to(base / ".hoodie")
            assert value.depth == len(
                path.parent.relative_to(base / ".hoodie/metadata" if in_metadata_table else base).parts
            )
            written = data.decode().splitlines()[1]
            if " UTC " in written:
                at = datetime.strptime(written, "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
                assert partition_metadata.dumps(value.commit_time, value.depth, int(at.timestamp() * 1000)) == data
                checked += 1
    assert checked > 10


def test_round_trip():
    data = partition_metadata.dumps("20261121021200131", 2, 0)
    assert partition_metadata.loads(data) == PartitionMetadata("20261121021200131", 2)


@pytest.mark.parametrize(
    "text", [b"commitTime=1", b"partitionDepth=1", b"commitTime=1\npartitionDepth=x", b"PAR1", b""]
)
def test_anything_else_is_corrupt(text):
    with pytest.raises(Corrupt, match="p=a"):
        partition_metadata.loads(text, "p=a/.hoodie_partition_metadata")
