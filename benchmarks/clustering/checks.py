"""What the new files hold: rows, their sum, their order, and how many of the files a box filter reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness.rows import ORDERING, Answer

_SIDE = 0.1
_BEGINS = (0.05, 0.45, 0.85)
"""Share of the values below the box, in each column."""


def rows_of(files: Sequence[Path]) -> Answer:
    """Rows, and sum of the ordering column."""
    found = [pq.ParquetFile(file).read([ORDERING])[ORDERING] for file in files]
    return Answer(sum(len(column) for column in found), sum(int(pc.sum(column).as_py() or 0) for column in found))


def is_sorted(files: Sequence[Path], column: str) -> bool:
    """Whether the rows of each file ascend."""
    for file in files:
        values = pq.ParquetFile(file).read([column])[column].combine_chunks()
        if len(values) and not pc.all(pc.less_equal(values.slice(0, len(values) - 1), values.slice(1))).as_py():
            return False
    return True


def box_share(files: Sequence[Path], columns: Sequence[str]) -> float:
    """The share of the files that must be read for a box of 10 % by 10 %: the worst of nine boxes, by the files' ranges."""
    rows = pa.concat_tables([pq.ParquetFile(file).read(list(columns)) for file in files])
    ranges = [[_range_of(file, name) for name in columns] for file in files]
    quantiles = {name: np.quantile(np.asarray(rows[name]), _edges()) for name in columns}
    worst = 0
    for first in range(len(_BEGINS)):
        for second in range(len(_BEGINS)):
            box = [
                (quantiles[name][2 * at], quantiles[name][2 * at + 1])
                for name, at in zip(columns, (first, second), strict=True)
            ]
            worst = max(worst, sum(_meets(one, box) for one in ranges))
    return worst / len(files)


def _edges() -> npt.NDArray[np.float64]:
    return np.array([edge for begin in _BEGINS for edge in (begin, begin + _SIDE)])


def _range_of(file: Path, name: str) -> tuple[float, float]:
    footer = pq.read_metadata(file)
    place = footer.schema.to_arrow_schema().get_field_index(name)
    found = [footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups)]
    return min(one.min for one in found), max(one.max for one in found)


def _meets(ranges: Sequence[tuple[float, float]], box: Sequence[tuple[float, float]]) -> bool:
    return all(low <= end and high >= begin for (low, high), (begin, end) in zip(ranges, box, strict=True))
