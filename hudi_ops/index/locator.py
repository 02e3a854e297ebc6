"""Protocol of indexes that locate keys by look-up; the bucket index needs none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class GroupName:
    """File group of a partition."""

    partition_path: str
    file_id: str


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """Keys that one file group holds.

    Attributes:
        asked_in: partition path under which the keys were requested.
        rows: their numbers among those, ascending, each once.
    """

    group: GroupName
    asked_in: str
    rows: npt.NDArray[np.int64]


class Locator(Protocol):
    """Locator of keys in one state of a table.

    A key that it does not find is in no file that the index covers, in that state.
    """

    @property
    def is_global(self) -> bool:
        """Whether a key is found in any partition, and not only in the requested one."""
        ...

    def locate(self, keys: Mapping[str, pa.Array]) -> list[Found]:
        """Return per file group and requested partition the keys in it.

        `keys` are without nulls, by the partition path of their rows, possibly repeated. A key that lies in several groups is in
        several.

        Raises:
            NotFound: a file of that state is gone.
        """
        ...
