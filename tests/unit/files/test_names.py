"""Names of log files, as Apache Hudi's tables have them, and their order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.files.names import DataFileName, log_file_name, log_order, parse_data_file


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (".f-0_20250117083125837.log.1_0-33-43", DataFileName("f-0", "20250117083125837", True, 1, "0-33-43")),
        (".f-0_20250117083125837.log.12_1-0-1", DataFileName("f-0", "20250117083125837", True, 12, "1-0-1")),
        (".f-0_20250117083125837.log.2", DataFileName("f-0", "20250117083125837", True, 2)),
        (".f-0_1.log.1_0-0-0.cdc", DataFileName("f-0", "1", True, 1, "0-0-0", True)),
        ("f-0_0-33-43_20250117083125837.parquet", DataFileName("f-0", "20250117083125837", False, 0, "0-33-43")),
        ("f-0_1.log.1_0-0-0", None),
        (".f-0_1.log.1_0-0", None),
        (".f_0_1.log.1_0-0-0", None),
        (".f-0_1.log._0-0-0", None),
        ("..f-0_1.log.1_0-0-0.crc", None),
    ],
)
def test_names_are_taken_apart(name: str, expected: DataFileName | None):
    assert parse_data_file(name) == expected


def test_real_names_are_made_again(hudi_fixtures: Callable[[str], Path]):
    seen = 0
    for fixture in ("v6_trips_8i1u_mor", "v8_trips_8i3u1d_mor", "v9_txns_simple_meta_mor"):
        for file in hudi_fixtures(fixture).rglob(".*.log.*"):
            name = parse_data_file(file.name)
            if name is not None:
                assert log_file_name(name.file_id, name.instant, name.version, name.token) == file.name
                seen += 1
    assert seen > 20


def test_logs_are_in_the_order_of_requests():
    ordered = [
        ".f-0_20250117083125836.log.3_9-9-9",
        ".f-0_20250117083125837.log.9_0-1-2",
        ".f-0_20250117083125837.log.10_0-1-2",
        ".f-0_20250117083125837.log.10_0-1-2.cdc",
        ".f-0_20250117083125837.log.10_1-0-1",
        ".f-0_20250117083125838.log.1_0-0-0",
    ]
    names = [parse_data_file(name) for name in reversed(ordered)]
    found = sorted((name for name in names if name is not None), key=log_order)
    assert [(name.instant[-1], name.version, name.token, name.is_cdc) for name in found] == [
        ("6", 3, "9-9-9", False),
        ("7", 9, "0-1-2", False),
        ("7", 10, "0-1-2", False),
        ("7", 10, "0-1-2", True),
        ("7", 10, "1-0-1", False),
        ("8", 1, "0-0-0", False),
    ]
