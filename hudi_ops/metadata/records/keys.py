"""Keys of the metadata table's records (docs/format §14.5)."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

ALL_PARTITIONS_KEY: Final = "__all_partitions__"
"""Key of the record in `files` that lists the partitions."""

_SEPARATOR: Final = "$"
"""Between a value and a record key, in the keys of secondary indexes."""

SECONDARY_V2: Final = 9
"""First table version with version 2 of secondary indexes: they have keys of null, and file groups by values."""

_SPECIAL: Final = r"([\\$\x00])"
_SPECIAL_BEFORE: Final = r"([\\$])"
_ESCAPED: Final = r"(?s)\\(.)"
_PARTS: Final = r"(?s)^(?P<value>(?:[^\\$]|\\.)*)\$(?P<key>.*)$"
_NULL_VALUE: Final = "\x00"
_ROOT: Final = "."
_SEED: Final = 0xFFFFFFFFDABADABA


def partition_name(partition_path: str) -> str:
    """Return the metadata table's name of a data partition; the root's is `.`."""
    return partition_path or _ROOT


def partition_path(name: str) -> str:
    """Return the partition path of a name."""
    return "" if name == _ROOT else name


@lru_cache(maxsize=1 << 16)
def _hash(text: str) -> str:
    return b64encode(xxhash.xxh64_digest(text.encode(), seed=_SEED)).decode()


def column_hash(column: str) -> str:
    """Return the prefix of a column's keys in column_stats and partition_stats."""
    return _hash(column)


def partition_hash(partition_path: str) -> str:
    """Return a partition's part of a key."""
    return _hash(partition_name(partition_path))


def file_hash(name: str) -> str:
    """Return a file's part of a key: MD5 of its name, including the leading dot of log files."""
    return b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest()).decode()


def column_stats_key(column: str, partition_path: str, file_name: str) -> str:
    """Return the key of one file's range in one column."""
    return column_hash(column) + partition_hash(partition_path) + file_hash(file_name)


def partition_stats_key(column: str, partition_path: str) -> str:
    """Return the key of one partition's range in one column."""
    return column_hash(column) + partition_hash(partition_path)


def bloom_filter_key(partition_path: str, file_name: str) -> str:
    """Return the key of one base file's filter."""
    return partition_hash(partition_path) + file_hash(file_name)


def product_keys(columns: Sequence[str], places: pa.Array, column_at: pa.Array, place_at: pa.Array) -> pa.StringArray:
    """Return keys of many ranges, with each part computed once.

    A key is a column's hash before the part of a file (`bloom_filter_key`) or partition (`partition_hash`), given in `places`;
    `column_at` and `place_at` are positions in `columns` and `places`.
    """
    hashes = pa.array([column_hash(column) for column in columns], pa.string())
    return pc.binary_join_element_wise(hashes.take(column_at), places.take(place_at), "")


def secondary_keys(values: pa.Array, keys: pa.Array, version: int) -> pa.StringArray:
    """Return the keys of a secondary index: value and record key of each row, escaped.

    `values` are texts or null. From table version 9 on the text of null is one zero character, and a zero character in a text is
    escaped; version 8 has no keys of null.
    """
    if version < SECONDARY_V2:
        is_held = values.is_valid()
        values, keys = values.filter(is_held), keys.filter(is_held)
    texts = pc.fill_null(_escaped(values, version), _NULL_VALUE)
    return pc.binary_join_element_wise(texts, _escaped(keys, version), _SEPARATOR)


def secondary_prefix(value: str, version: int) -> str:
    """Return the prefix of a value's keys in a secondary index of a table of this version."""
    escaped: str = _escaped(pa.array([value], pa.string()), version)[0].as_py()
    return escaped + _SEPARATOR


def record_keys_of(secondary: pa.Array) -> pa.StringArray:
    """Return the record keys in keys of a secondary index."""
    return _unescaped(pc.extract_regex(secondary, _PARTS).field("key"))


def hashed_part(secondary: pa.Array) -> pa.StringArray:
    """Return the part of a secondary index's keys by which version 2 of it chooses file groups.

    It is the escaped value and the separator.
    """
    values = pc.extract_regex(secondary, _PARTS).field("value")
    return pc.binary_join_element_wise(values, pa.scalar(_SEPARATOR), "")


def _escaped(texts: pa.Array, version: int) -> pa.Array:
    return pc.replace_substring_regex(texts, _SPECIAL if version >= SECONDARY_V2 else _SPECIAL_BEFORE, r"\\\1")


def _unescaped(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, _ESCAPED, r"\1")
