"""The step between the two: chunks are made of chunks, in order, and both steps together keep to the engine's memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.engine import memory
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Chunk, Produced


def produce(number: int) -> Iterator[Produced]:
    for run in range(3):
        rows = pa.table({"n": [number * 100 + run * 10 + one for one in range(10)]})
        yield Produced(number, (Chunk("even", rows.slice(0, 5)), Chunk("odd", rows.slice(5))))


def spread(by: int, tables: list[pa.Table]) -> Iterator[Produced]:
    for table in tables:
        left = table["n"].to_numpy() % by
        chunks = (Chunk(f"mod {n}", table.filter(pa.array(left == n))) for n in range(by))
        yield Produced((by, table.num_rows), tuple(chunks))


def numbers(_: None, tables: list[pa.Table]) -> list[int]:
    return [n for table in tables for n in table["n"].to_pylist()]


@pytest.mark.parametrize("memory_bytes", [16, 300, 700, 1 << 30])
@pytest.mark.parametrize("threads", [1, 4])
def test_chunks_of_chunks_keep_their_order(
    tmp_path: Path, memory_bytes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "RUN_BYTES_MIN", 1)
    engine = LocalEngine(threads, memory_bytes=memory_bytes, spill_folder=str(tmp_path))
    with engine.scatter(produce, range(4)) as first:
        whole = {key: first.gather(numbers, [(key, None)])[0] for key in ("odd", "even")}
        for _ in range(2):
            with first.regroup(spread, [("odd", 2), ("even", 2)]) as second:
                assert second.summaries == [(2, 5)] * 24
                for n in range(2):
                    expected = [one for key in ("odd", "even") for one in whole[key] if one % 2 == n]
                    assert second.gather(numbers, [(f"mod {n}", None)]) == [expected]
                assert (first.spilled_bytes + second.spilled_bytes > 0) == (memory_bytes < 1 << 30)
        assert first.gather(numbers, [("odd", None)]) == [whole["odd"]]
    assert list(tmp_path.iterdir()) == []
