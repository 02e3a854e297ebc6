"""Partition values that a path does not keep as they are: what Apache Hudi shows, what it finds them by, and what we show and find.

We show what the files hold, as docs/format §6.11 says with its reasons; by the same values we find the rows.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from tests.interop.apache_hudi import RELEASE, RELEASE_OF_VERSION_8, HudiPeer

VALUES = ("x=y", "a%20b", "a b", "", None, "plain", "default", "007", "50%")
STYLES = {
    "bare": {"x=y": "y", "a%20b": "a b", "": None},
    "hive": {"a%20b": "a b", "": None},
    "encoded": {"": None},
}
"""What Apache Hudi shows in place of a value, by the style of the table's paths; all other values it shows as they are."""


@pytest.fixture(params=[RELEASE, RELEASE_OF_VERSION_8])
def peer(request: pytest.FixtureRequest) -> tuple[HudiPeer, int]:
    """Apache Hudi, and the table version that it writes."""
    is_older = request.param == RELEASE_OF_VERSION_8
    return request.getfixturevalue("apache_hudi_1_0" if is_older else "apache_hudi"), 8 if is_older else 9


def _make(path: Path, peer: HudiPeer, version: int, style: str, *, kind: str, drops: bool = False) -> None:
    """Rows of all values, written twice by Apache Hudi."""
    prefix = "hoodie.datasource.write."
    options = {
        "hoodie.table.name": "odd",
        f"{prefix}table.type": kind,
        f"{prefix}recordkey.field": "id",
        f"{prefix}partitionpath.field": "part",
        f"{prefix}precombine.field": "ts",
        f"{prefix}hive_style_partitioning": str(style == "hive").lower(),
        f"{prefix}partitionpath.urlencode": str(style == "encoded").lower(),
        f"{prefix}drop.partition.columns": str(drops).lower(),
        "hoodie.write.table.version": str(version),
    }
    for ts, mode in ((1, "overwrite"), (2, "append")):
        rows = pa.table({"id": [f"k{i}" for i in range(len(VALUES))], "ts": [ts] * len(VALUES), "part": VALUES})
        peer.write(path, rows, mode=mode, options=options)


def _shown(rows: pa.Table) -> dict[str, str | None]:
    return dict(zip(rows["id"].to_pylist(), rows["part"].to_pylist(), strict=True))


def _keys_of(*values: str | None) -> set[str]:
    return {f"k{VALUES.index(one)}" for one in values}


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("style", list(STYLES))
def test_values_are_shown_as_files_hold_them_and_apache_hudi_shows_what_the_path_decodes_to(
    tmp_path: Path, peer: tuple[HudiPeer, int], style: str
) -> None:
    hudi, version = peer
    _make(tmp_path, hudi, version, style, kind="MERGE_ON_READ" if style == "hive" else "COPY_ON_WRITE")
    ours, stands_for = Table.open(str(tmp_path)), STYLES[style]
    assert _shown(ours.read(["id", "part"])) == {f"k{i}": one for i, one in enumerate(VALUES)}
    assert _shown(hudi.read(tmp_path, columns=["id", "part"])) == {
        f"k{i}": stands_for.get(one, one) if one is not None else None for i, one in enumerate(VALUES)
    }
    # Apache Hudi finds a row by the value that it was written with, too, and not by the one that it shows.
    for value in ("x=y", "a%20b", "a b", "plain", "y"):
        where = f"part = '{value}'"
        expected = _keys_of(value) if value in VALUES else set()
        assert set(ours.read(["id"], where)["id"].to_pylist()) == expected, where
        assert set(hudi.read(tmp_path, columns=["id"], where=where)["id"].to_pylist()) == expected, where
    # To its filters an empty text and null are the same.
    for where, found in (("part = ''", _keys_of("")), ("part is null", _keys_of(None))):
        assert set(ours.read(["id"], where)["id"].to_pylist()) == found, where
        assert set(hudi.read(tmp_path, columns=["id"], where=where)["id"].to_pylist()) == _keys_of("", None), where


@pytest.mark.rotate(shares=2)
def test_values_that_only_the_path_tells_are_not_decoded_where_they_were_not_encoded(
    tmp_path: Path, peer: tuple[HudiPeer, int]
) -> None:
    hudi, version = peer
    _make(tmp_path, hudi, version, "bare", kind="COPY_ON_WRITE", drops=True)
    ours = Table.open(str(tmp_path))
    assert _shown(ours.read(["id", "part"])) == {f"k{i}": one or None for i, one in enumerate(VALUES)}
    for where in ("part = 'x=y'", "part = 'a%20b'", "part = 'a b'", "part = 'y'", "part is null"):
        found = set(ours.read(["id"], where)["id"].to_pylist())
        assert found == set(hudi.read(tmp_path, columns=["id"], where=where)["id"].to_pylist()), where
