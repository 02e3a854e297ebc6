"""Goal: a table in a bucket is a table, also when the network loses replies to writes and deletions."""

import random
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.storage.object_store import ObjectStorage
from tests.storage.tampering import Rules, door

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("fare", pa.float64())])


def rides(start: int, stop: int, fare: float) -> pa.Table:
    ids = range(start, stop)
    cities = ["Oslo" if number % 2 else "Rome" for number in ids]
    return pa.table({"id": [str(number) for number in ids], "city": cities, "fare": [fare] * len(ids)}, schema=SCHEMA)


def fares(table: Table) -> dict[str, float]:
    found = table.read(["id", "fare"])
    ids = found["id"].to_pylist()
    assert len(set(ids)) == len(ids), "a row came twice"
    return dict(zip(ids, found["fare"].to_pylist(), strict=True))


@pytest.mark.parametrize("loss", [0.0, 0.2, 0.4])
def test_rows_are_neither_lost_nor_doubled(
    make_s3: Callable[[], ObjectStorage], s3_settings: str, monkeypatch: pytest.MonkeyPatch, loss: float
) -> None:
    storage = make_s3()
    landing = ObjectStorage(f"{storage.uri}-landing")
    sink = pa.BufferOutputStream()
    pq.write_table(rides(250, 400, 3.0), sink)
    landing.put("f.parquet", sink.getvalue())
    chance = random.Random(20260101)
    lost: list[str] = []

    def lose(method: str, path: str) -> bool:
        if method in {"PUT", "POST"} and chance.random() < loss:
            lost.append(path)
            return True
        return False

    with door(s3_settings, Rules(lose_reply=lose)) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        table = Table.create(
            storage.uri, name="rides", record_key=["id"], partition_by=["city"], schema=SCHEMA, buckets=2
        )
        table.ingest(rides(0, 300, 1.0))
        table.ingest(rides(100, 200, 2.0))
        assert table.ingest_folder(landing.uri, engine="local").files == 1
        assert table.ingest_folder(landing.uri, engine="local").files == 0
        table.ingest(rides(0, 50, 0.0), operation="delete")
        again = fares(Table.open(storage.uri))
    expected = {str(n): 1.0 for n in range(50, 300)} | {str(n): 2.0 for n in range(100, 200)}
    assert again == expected | {str(n): 3.0 for n in range(250, 400)}
    print(f"lost replies: {len(lost)}")
    assert len(lost) >= 100 * loss
