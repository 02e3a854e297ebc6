"""Records of the partition `record_index`: the file group of each record key.

All keys of one file have one value, which is encoded, and decoded, once. Source: docs/format §14.7.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.formats.avro.encode import encode_column
from hudi_ops.formats.large_arrays import joined, narrowed
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records, sorted_records
from hudi_ops.metadata.records.values import field_node, framed, repeated, types_and_fields

_RECORD_INDEX: Final = MetadataPartition.RECORD_INDEX
_AS_UUID, _AS_TEXT = 0, 1
_UUID_CHARS: Final = 36
_NO_INDEX: Final = -1


def record_index_records(
    statistics: Sequence[FileStatistics],
    instant_ms: int,
    *,
    version: int,
    hidden: pa.Array | None = None,
    are_located: bool = False,
) -> Records:
    """Return records of the keys that these files added, and deletes of removed ones.

    A key that one file removes and another adds has moved, and is added. Of two files that add it, the later one in `statistics`
    wins. A key that a base file removes was in its group. The location of a key that a log file deletes is known only if the record
    index led there (`are_located`): else the key may live elsewhere, and a missing record loses the row, while a superfluous one
    costs only a useless look-up. `hidden` are keys of file groups that the action hides.
    """
    adding = [each for each in statistics if each.added is not None and len(each.added)]
    values = location_values([(each.partition_path, each.file_id, instant_ms) for each in adding], version=version)
    lengths = [len(each.added) for each in adding if each.added is not None]
    keys = joined([each.added for each in adding if each.added is not None], pa.string())
    removed = [each.removed for each in statistics if each.removed is not None and (are_located or not each.is_log)]
    gone = joined([*removed, hidden] if hidden is not None else removed, pa.string())
    return sorted_records(_RECORD_INDEX, keys, repeated(values, lengths), gone, version=version)


def location_values(locations: Sequence[tuple[str, str, int]], *, version: int) -> pa.BinaryArray:
    """Encode records of locations: partition path, file id and time of its instant in ms."""
    node = field_node(_RECORD_INDEX, version)
    rows = [_location(*each) for each in locations]
    structs = pa.array(rows, node.arrow)
    return framed(_RECORD_INDEX, encode_column(node, structs, "recordIndexMetadata"), len(rows))


def _location(partition_path: str, file_id: str, instant_ms: int) -> Mapping[str, Any]:
    parts = _uuid_parts(file_id)
    return {
        "partitionName": partition_path,
        "fileIdHighBits": _NO_INDEX if parts is None else parts[0],
        "fileIdLowBits": _NO_INDEX if parts is None else parts[1],
        "fileIndex": _NO_INDEX if parts is None else parts[2],
        "fileId": file_id if parts is None else "",
        "instantTime": instant_ms,
        "fileIdEncoding": _AS_TEXT if parts is None else _AS_UUID,
        "position": None,
    }


def _uuid_parts(file_id: str) -> tuple[int, int, int] | None:
    """Split a file id into high bits, low bits and number; None if it is not reversible."""
    text, behind = file_id[:_UUID_CHARS], file_id[_UUID_CHARS:]
    number = behind[1:]
    if behind and not (behind[0] == "-" and number.isascii() and number.isdigit() and str(int(number)) == number):
        return None
    try:
        bits = uuid.UUID(text)
    except ValueError:
        return None
    index = int(number) if behind else _NO_INDEX
    if str(bits) != text or index >= 1 << 31:
        return None
    high, low = np.frombuffer(bits.bytes, ">i8").tolist()
    return high, low, index


def decoded_locations(records: Records, where: str) -> pa.Table:
    """Decode rows `key`, `partition_path`, `file_id`, `instant_ms`; texts are dictionaries."""
    encoded = records.values.dictionary_encode()
    _, structs = types_and_fields(_RECORD_INDEX, narrowed(encoded.dictionary), records.schema, where)
    fields = {name: structs.field(at) for at, name in enumerate(structs.type.names)}
    columns = ("fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "fileIdEncoding")
    names = [_file_id(*each) for each in zip(*(fields[name].to_pylist() for name in columns), strict=True)]
    return pa.table({
        "key": records.keys,
        "partition_path": pa.DictionaryArray.from_arrays(encoded.indices, fields["partitionName"]),
        "file_id": pa.DictionaryArray.from_arrays(encoded.indices, pa.array(names, pa.string())),
        "instant_ms": fields["instantTime"].take(encoded.indices),
    })


def _file_id(high: int, low: int, index: int, text: str, encoding: int) -> str:
    if encoding == _AS_TEXT:
        return text
    bits = uuid.UUID(bytes=np.array([high, low], ">i8").tobytes())
    return str(bits) if index == _NO_INDEX else f"{bits}-{index}"
