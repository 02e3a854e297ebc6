"""Records of one partition: keys, their values as Avro, and deleted keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.formats.large_arrays import decoded, narrowed, places_in
from hudi_ops.kernels.text_order import ascending
from hudi_ops.metadata.records.partitions import group_numbers
from hudi_ops.metadata.records.schema import record_schema, schema_version


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one partition: of a base file, a log file, or a planned change.

    Keys ascend by their bytes and each occurs once; no key is both among `keys` and `deletes`. A value is a
    HoodieMetadataRecord with its key left blank, without framing, in the Avro JSON `schema`. Deletes go to a DELETE block.

    Values that repeat may come as a dictionary (`decoded` has each by itself), and texts and bytes of 2 GiB and more as
    `large_string` and `large_binary`: those of a whole record index. Source: docs/format §14.6, §14.7.
    """

    partition: str
    keys: pa.StringArray | pa.LargeStringArray
    values: pa.BinaryArray | pa.LargeBinaryArray | pa.DictionaryArray
    deletes: pa.StringArray | pa.LargeStringArray
    schema: str

    def __len__(self) -> int:
        return len(self.keys) + len(self.deletes)

    def __bool__(self) -> bool:
        return len(self) > 0

    def by_group(self, groups: int) -> dict[int, Records]:
        """Return the records of each of `groups` file groups, in the order of their keys.

        Values stay dictionary-encoded: decoded ones of a large partition take many times what the keys do.
        """
        if groups == 1:
            return {0: self} if self else {}
        made: dict[int, Records] = {}
        version = schema_version(self.schema)
        of_key, of_delete = (group_numbers(keys, groups, self.partition, version) for keys in (self.keys, self.deletes))
        for number in np.unique(np.concatenate([of_key, of_delete])).tolist():
            kept, gone = pa.array(np.flatnonzero(of_key == number)), pa.array(np.flatnonzero(of_delete == number))
            keys, values, deletes = self.keys.take(kept), self.values.take(kept), self.deletes.take(gone)
            made[number] = Records(self.partition, narrowed(keys), narrowed(values), narrowed(deletes), self.schema)
        return made

    def decoded(self) -> Records:
        """Return the records without dictionary encoding."""
        return replace(self, values=decoded(self.values))


def no_keys() -> pa.StringArray:
    """Return an empty array of keys."""
    return pa.array([], pa.string())


def empty(partition: str, schema: str) -> Records:
    """Return no records."""
    return Records(partition, no_keys(), pa.array([], pa.binary()), no_keys(), schema)


def deletes_only(partition: str, keys: Iterable[str], *, version: int) -> Records:
    """Return deletes of these keys, in any order."""
    return sorted_records(partition, no_keys(), pa.array([], pa.binary()), list(keys), version=version)


def sorted_records(
    partition: str,
    keys: pa.Array,
    values: pa.Array,
    deletes: pa.Array | Sequence[str] = (),
    *,
    version: int,
) -> Records:
    """Sort records by their keys; of equal keys the last one stays, and wins over a delete."""
    gone = deletes if isinstance(deletes, pa.Array) else pa.array(deletes, pa.string())
    if not _ascends(keys):
        places = ascending(keys)
        ordered = keys.take(pa.array(places))
        is_last = np.ones(len(keys), bool)
        is_last[:-1] = pc.not_equal(ordered.slice(0, len(keys) - 1), ordered.slice(1)).to_numpy(zero_copy_only=False)
        if not is_last.all():
            places = places[is_last]
            ordered = keys.take(pa.array(places))
        keys, values = ordered, values.take(pa.array(places))
    if len(gone):
        gone = pc.unique(gone)
        gone = gone.filter(places_in(gone, keys).is_null())
        gone = gone.take(pa.array(ascending(gone)))
    return Records(partition, keys, values, gone, record_schema(version))


def _ascends(keys: pa.Array) -> bool:
    """Return whether each key is above the one before it."""
    return len(keys) < 2 or bool(pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py())
