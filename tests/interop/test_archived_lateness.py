"""Late files and late completions around archives: Apache Hudi reads the rows of the model once our services are done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from tests.interop.apache_hudi import HudiPeer
from tests.protocol.archived_history import PLAIN, made as made_late
from tests.protocol.log_actors import timeline_of
from tests.services.archive.archived_tables import ALL_BUT_ONE, archived, settle, write
from tests.tables import DEFINITION, NOW_MS, by_key, made, rows, table_of

PEERS = {9: "apache_hudi", 8: "apache_hudi_1_0"}


def peer_rows(
    request: pytest.FixtureRequest, version: int, storage: MemoryStorage, path: Path
) -> list[tuple[str, int]]:
    """Save a table to a folder, and return key and value of the rows that Apache Hudi reads there."""
    for info in storage.list():
        file = path / info.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(storage.get(info.path))
    peer: HudiPeer = request.getfixturevalue(PEERS[version])
    read = peer.read(path, columns=["id", "value"])
    return sorted(zip(read["id"].to_pylist(), read["value"].to_pylist(), strict=True))


@pytest.mark.parametrize("version", PEERS)
def test_a_late_file_of_an_archived_clustering(tmp_path: Path, request: pytest.FixtureRequest, version: int) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = made(replace(DEFINITION, version=version), rows(*((f"k{n}", "p0", n, 1, None) for n in range(8))))
    table = table_of(storage, clock, "writer", metadata_compact_after=1)
    write(table, 10)
    instant = table.clustering.run(sort_by=["id"]).instant
    own = next(info.path for info in storage.list("part=p0") if info.name.endswith(f"_{instant}.parquet"))
    folder, _, name = own.rpartition("/")
    late, body = f"{folder}/{name[:9]}dead{name[13:36]}-0_9-9-9_{instant}.parquet", storage.get(own)
    settle(storage, clock, 100)
    model = by_key(table_of(storage, clock, "reader"))
    archived(storage, clock, request=ALL_BUT_ONE)
    assert instant is not None
    assert timeline_of(storage).start > instant
    storage.put(late, body)
    assert len(peer_rows(request, version, storage, tmp_path / "doubled")) > len(model)
    table_of(storage, clock, "user").repair()
    assert storage.head(late) is None
    assert peer_rows(request, version, storage, tmp_path / "repaired") == sorted(model.items())


@pytest.mark.parametrize("version", PEERS)
def test_a_late_completion_whose_group_was_clustered_away(
    tmp_path: Path, request: pytest.FixtureRequest, version: int
) -> None:
    storage, clock, writer = made_late(replace(PLAIN, version=version))
    table = table_of(storage, clock, "writer")
    assert "waits for the next compaction" in archived(storage, clock, request=ALL_BUT_ONE).stopped_by
    clock.advance_ms(1_000)
    table.clustering.run(sort_by=["value"])
    table.ingest(rows(("k3", "p0", 33, 900, None)))
    table.clean.run(policy="versions", retain=1)
    model = by_key(table)
    archived(storage, clock, "second", ALL_BUT_ONE)
    assert timeline_of(storage).find(writer.time) is None
    assert peer_rows(request, version, storage, tmp_path / "t") == sorted(model.items())
