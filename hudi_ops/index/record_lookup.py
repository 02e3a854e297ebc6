"""Record index: the metadata table names a key's file group, in any partition.

Source: docs/format §10.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.formats.large_arrays import places_in
from hudi_ops.index.locator import Found, GroupName
from hudi_ops.kernels.merging.split import split_groups

RecordLookup: TypeAlias = Callable[[pa.Array], pa.Table]
"""Function that looks up record keys, each once, and returns those in the index: columns `key`, `partition_path` and `file_id`,
in any order.
"""


@dataclass(frozen=True)
class RecordIndexLocator:
    """Locator that uses the record index."""

    lookup: RecordLookup

    @property
    def is_global(self) -> bool:
        """True: a key is one row of the whole table."""
        return True

    def locate(self, keys: Mapping[str, pa.Array]) -> list[Found]:
        """Return the file groups that hold some of the keys, also in other partitions."""
        asked = {path: column for path, column in keys.items() if len(column)}
        if not asked:
            return []
        told = self.lookup(pc.unique(pa.chunked_array(list(asked.values()))))
        if not told.num_rows:
            return []
        held = told.column("key").combine_chunks()
        # Encoded again: the index's own dictionaries hold a location once for each instant that named it.
        paths, ids = (
            told.column(name).combine_chunks().cast(pa.string()).dictionary_encode()
            for name in ("partition_path", "file_id")
        )
        width = len(ids.dictionary)
        of_key = paths.indices.to_numpy(zero_copy_only=False).astype(np.int64) * width + ids.indices.to_numpy()
        found = []
        for path, column in asked.items():
            places = pc.fill_null(places_in(column, held), -1).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(places >= 0)
            for group in split_groups(np.zeros(len(rows), np.int64), of_key[places[rows]]):
                in_path, of_id = divmod(group.bucket, width)
                name = GroupName(paths.dictionary[in_path].as_py(), ids.dictionary[of_id].as_py())
                found.append(Found(name, path, rows[group.rows].astype(np.int64)))
        return found
