"""Chunks between two steps: the same rows in the same order from memory and from disk, and nothing left of the file."""

from __future__ import annotations

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.memory import memory_bytes_min, memory_limit_bytes
from hudi_ops.engine.protocol import Chunk
from hudi_ops.engine.spill import ChunkStore
from hudi_ops.errors import InvalidRequest, Unavailable

NESTED = pa.struct([("tags", pa.list_(pa.string())), ("map", pa.map_(pa.string(), pa.int32()))])


def rows(seed: int) -> pa.Table:
    """A slice of a larger table, as the splitter gives them, of types whose buffers are laid out differently."""
    whole = pa.table({
        "n": [None if n % 7 == 3 else n + seed for n in range(100)],
        "flag": [n % 3 == 0 for n in range(100)],
        "text": [f"{seed}-{n}" * (n % 5) for n in range(100)],
        "few": pa.array([f"v{n % 3}" for n in range(100)]).dictionary_encode(),
        "nested": pa.array([{"tags": [f"{n}"] * (n % 3), "map": [("k", n)]} for n in range(100)], NESTED),
    })
    return whole.slice(seed % 11 + 1, seed % 40)


@pytest.mark.parametrize("memory_bytes", [0, 5_000, 1 << 30])
def test_chunks_come_back_in_their_order_however_they_were_added(tmp_path: Path, memory_bytes: int) -> None:
    places = [(source, run) for source in range(8) for run in range(5)]
    given = {place: [Chunk(f"k{n}", rows(place[0] * 5 + place[1] + n)) for n in range(3)] for place in places}
    random.Random(memory_bytes).shuffle(places)
    store = ChunkStore(memory_bytes, str(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda place: store.add(place, given[place]), places))
    store.seal()
    assert (store.spilled_bytes > 0) == (memory_bytes < 1 << 30)
    for n in range(3):
        expected = [given[place][n].rows for place in sorted(places)]
        for _ in range(2):  # a second attempt reads them again
            assert [t.to_pylist() for t in store.read(f"k{n}")] == [t.to_pylist() for t in expected]
    assert store.read("none") == []
    assert list(tmp_path.iterdir()) == [], "the file must have no name"
    store.close()


def test_chunks_of_one_key_may_differ_in_columns(tmp_path: Path) -> None:
    store = ChunkStore(0, str(tmp_path))
    tables = [pa.table({"a": [1]}), pa.table({"a": [2], "b": ["x"]}), pa.table({"a": [3]})]
    for number, table in enumerate(tables):
        store.add((number, 0), [Chunk("k", table)])
    store.seal()
    assert store.read("k") == tables


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    store = ChunkStore(0, str(tmp_path / "gone"))
    with pytest.raises(Unavailable, match="gone"):
        store.add((0, 0), [Chunk("k", pa.table({"a": [1]}))])


def test_the_default_is_a_quarter_of_what_the_process_may_use() -> None:
    limit = memory_limit_bytes()
    assert 1 << 20 < limit < 1 << 50
    assert LocalEngine().memory_bytes == limit // 4
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (1 << 33, 1 << 33));"
        "from hudi_ops.engine.memory import memory_limit_bytes; print(memory_limit_bytes())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(told) == min(limit, 1 << 33)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_limit_below_the_smallest_is_refused_with_the_smallest(threads: int) -> None:
    least = memory_bytes_min(threads)
    assert LocalEngine(threads, memory_bytes=least).memory_bytes == least
    with pytest.raises(InvalidRequest) as refused:
        LocalEngine(threads, memory_bytes=least - 1)
    assert refused.value.details["minimum"] == least


FULL_DISK = """
import resource, signal, sys
import numpy as np, pyarrow as pa
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Unavailable
from hudi_ops.table.table import Table

table = Table.create(sys.argv[1], name="t", record_key=["id"], schema=pa.schema([("id", pa.int64()), ("x", pa.float64())]),
                     buckets=4, engine=LocalEngine(memory_bytes=1_000_000, spill_folder=sys.argv[2]))
rng = np.random.default_rng(0)
def batches():
    for n in range(40):
        ids = np.arange(n * 100_000, (n + 1) * 100_000)
        yield pa.record_batch({"id": ids, "x": rng.random(100_000)})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
try:
    table.ingest(batches())
except Unavailable as error:
    print(error)
"""


@pytest.mark.full("starts a process with a limited disk")
def test_a_disk_that_takes_no_more_is_named_and_the_table_is_as_it_was(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: the kernel refuses the same write by the same way."""
    spill = tmp_path / "spill"
    spill.mkdir()
    told = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "t"), str(spill)], capture_output=True, text=True, check=True
    ).stdout
    assert str(spill) in told
    assert "File too large" in told
    assert list(spill.iterdir()) == []
    assert list((tmp_path / "t").rglob("*.parquet")) == []
    assert not list((tmp_path / "t" / ".hoodie" / "timeline").glob("*.inflight"))[1:]


def test_no_folder_for_temporary_files_at_all_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python finds its folder by writing to it: on a full disk it finds none, and says so when it is asked again."""

    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._get_default_tempdir", nowhere)
    with pytest.raises(Unavailable, match="No usable temporary directory"):
        ChunkStore(0).add((0, 0), [Chunk("k", rows(3))])


KILLED = """
import sys, threading
import pyarrow as pa
from hudi_ops.engine.protocol import Chunk
from hudi_ops.engine.spill import ChunkStore

store = ChunkStore(0, sys.argv[1])
store.add((0, 0), [Chunk("k", pa.table({"a": list(range(100_000))}))])
print(store.spilled_bytes, flush=True)
threading.Event().wait()
"""


def test_a_killed_process_leaves_nothing_behind(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 100_000
        process.kill()
    assert list(tmp_path.iterdir()) == []
