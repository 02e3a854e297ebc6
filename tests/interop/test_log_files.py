"""Log files that our code wrote, in the place of Apache Hudi's own, are read alike by the `hudi` package, in both formats."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_ops.files.base.base_file import WriterSettings
from hudi_ops.files.log.log_file import BlockKind, Deletes, HeaderKey, LogFileReader, encode_log_file
from hudi_ops.storage.local import LocalStorage
from tests.interop.compare import assert_same_rows
from tests.interop.expected import load_expected

pytestmark = pytest.mark.quick

ReadTable = Callable[..., pa.Table]
REWRITTEN = (
    "v6_nonpartitioned_mor",
    "v6_trips_8i1u_mor",
    "v8_trips_8i3u1d_mor",
    "v9_bucket_simple",
    "v9_mor_parquet_log",
    "v9_mor_pending_compaction_clustering",
)
Format = Literal["parquet", "avro"]


def rewrite(
    table: Path, data_format: Format, change: Callable[[Deletes], Deletes] = lambda one: one
) -> tuple[int, int]:
    """Every log file of the table as ours would be; how many rows and deletes they hold."""
    storage, rows, deleted = LocalStorage(table), 0, 0
    for info in list(storage.list()):
        if info.path.startswith(".hoodie/") or ".log." not in info.name or info.name.endswith(".crc"):
            continue
        reader = LogFileReader(storage, info.path)
        data = [block for block in reader.blocks if block.kind is not BlockKind.DELETE]
        table_rows = reader.rows(data[0]) if data else None
        deletes = [change(one) for block in reader.blocks if not block.is_data for one in reader.deletes(block)]
        first = reader.blocks[0]
        body = encode_log_file(
            table_rows,
            deletes,
            instant=first.instant,
            partition_path=info.path.rpartition("/")[0],
            avro_schema=first.headers[HeaderKey.SCHEMA],
            data_format=data_format,
            settings=WriterSettings(),
        )
        storage.put(info.path, body)
        (table / info.path).with_name(f".{info.name}.crc").unlink(missing_ok=True)
        rows += table_rows.num_rows if table_rows is not None else 0
        deleted += sum(len(one.keys) for one in deletes)
    return rows, deleted


@pytest.fixture
def copied(tmp_path: Path, hudi_fixtures: Callable[[str], Path]) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(hudi_fixtures(name), tmp_path / name))


@pytest.mark.parametrize("data_format", ["parquet", "avro"])
@pytest.mark.parametrize("name", REWRITTEN)
def test_our_blocks_are_read_as_theirs(
    name: str, data_format: Format, copied: Callable[[str], Path], hudi_rs: ReadTable
) -> None:
    table = copied(name)
    rows, deleted = rewrite(table, data_format)
    assert rows + deleted > 0
    assert_same_rows(hudi_rs(table), load_expected(name), with_meta=True)


@pytest.mark.parametrize(("ordering", "is_deleted"), [(1, False), (2**62, True)])
def test_deletes_with_and_without_ordering_values_lie_in_one_block(
    ordering: int, is_deleted: bool, copied: Callable[[str], Path], hudi_rs: ReadTable
) -> None:
    """The package refuses blocks that mix types of ordering values; a missing one is no type."""
    name = "v9_mor_parquet_log"
    expected = load_expected(name)
    key = pa.scalar("k0008")

    def with_more(one: Deletes) -> Deletes:
        return Deletes(pa.concat_arrays([one.keys, pa.array([key.as_py()])]), pa.array([None, ordering], pa.int64()))

    table = copied(name)
    rewrite(table, "avro", with_more)
    left = expected.filter(pc.not_equal(expected.column("id"), key)) if is_deleted else expected
    assert_same_rows(hudi_rs(table), left, with_meta=True)
