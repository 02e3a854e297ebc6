"""Where keys are: what an index that has to be asked answers. The simple bucket index needs none of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class GroupName:
    """A file group."""

    partition_path: str
    file_id: str


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """Keys that one file group holds.

    Attributes:
        group: the file group.
        asked_in: partition path under which the keys were asked for.
        rows: their numbers among those, ascending, each once.
    """

    group: GroupName
    asked_in: str
    rows: npt.NDArray[np.int64]


class Locator(Protocol):
    """Finds keys in one state of a table. What it does not find is nowhere the index looks, in that state."""

    @property
    def is_global(self) -> bool:
        """Whether a key is found in any partition, and not only in the one that is asked for."""
        ...

    def locate(self, keys: Mapping[str, pa.Array]) -> list[Found]:
        """File groups that hold some of the keys.

        Args:
            keys: record keys by the partition path of their rows, repeated ones among them; no nulls.

        Returns:
            For each group and each partition asked for, the keys in it. A key that lies in several groups is in several.

        Raises:
            NotFound: a file of that state is gone.
        """
        ...
