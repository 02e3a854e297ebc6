"""Entries in the footer of a base file: bloom filter, key range, schema, columns with NaN."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import Corrupt
from hudi_ops.formats.parquet import bloom, bloom_probe
from hudi_ops.formats.parquet.bloom import BloomFilter

BLOOM: Final = "org.apache.hudi.bloomfilter"
"""Key of the bloom filter."""
_BLOOM_BEFORE_APACHE: Final = "com.uber.hoodie.bloomfilter"
_BLOOM_TYPE: Final = "hoodie_bloom_filter_type_code"
_VECTOR_COLUMNS: Final = "hoodie.vector.columns"
_MIN_KEY: Final = "hoodie_min_record_key"
_MAX_KEY: Final = "hoodie_max_record_key"
_AVRO_SCHEMA: Final = "parquet.avro.schema"
_WRITER_MODEL: Final = "writer.model.name"
NAN_COLUMNS_KEY: Final = "hudi_ops.nan_columns"
"""Our own key: other programs ignore it. Source: docs/format §14.7."""


@dataclass(frozen=True)
class BaseFileFooter:
    """Hudi's part of a base file's footer; None for what the file does not have.

    Attributes:
        bloom: filter over the file's record keys; Hudi's BLOOM index fails on files without one.
        min_key: smallest record key by UTF-8 bytes; None in a file without rows.
        max_key: largest record key by UTF-8 bytes; None in a file without rows.
        avro_schema: Avro schema of the file with meta columns, as JSON text.
        nan_columns: top-level float columns that hold NaN; None where the file does not say it.
        vector_columns: VECTOR columns, such as `emb:VECTOR(3)`; written, not read.
    """

    bloom: BloomFilter | None
    min_key: str | None
    max_key: str | None
    avro_schema: str | None
    nan_columns: tuple[str, ...] | None = None
    vector_columns: str = ""

    def might_hold(self, keys: pa.Array | pa.ChunkedArray) -> bool:
        """Return whether one of these keys may be in the file (docs/format §7); False is certain."""
        keys = keys.filter(pa.array(self.in_range(keys)))
        if len(keys) == 0 or self.bloom is None:
            return len(keys) > 0
        return bool(self.bloom.might_contain(keys).any())

    def in_range(self, keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Return which keys are in the key range; all are if it is missing or not reliable."""
        # A writer may have compared Java strings, by UTF-16 code units, where Arrow compares UTF-8 bytes: against bounds below
        # U+E000 both agree.
        bounds = (self.min_key, self.max_key)
        if not all(bound is not None and max(bound, default="") < "\ue000" for bound in bounds):
            return np.ones(len(keys), bool)
        return np.asarray(pc.and_(pc.greater_equal(keys, self.min_key), pc.less_equal(keys, self.max_key)), bool)


def encode_footer(footer: BaseFileFooter) -> dict[str, str]:
    """Encode the footer as Parquet key-value metadata (docs/format §6.3, §7)."""
    values: dict[str, str] = {}
    if footer.bloom is not None:
        values[_BLOOM_TYPE], values[BLOOM] = footer.bloom.encode()
    if footer.min_key is not None:
        values[_MIN_KEY] = footer.min_key
    if footer.max_key is not None:
        values[_MAX_KEY] = footer.max_key
    if footer.avro_schema is not None:
        values[_AVRO_SCHEMA] = footer.avro_schema
        values[_WRITER_MODEL] = "avro"
    if footer.vector_columns:
        values[_VECTOR_COLUMNS] = footer.vector_columns
    if footer.nan_columns is not None:
        values[NAN_COLUMNS_KEY] = json.dumps(footer.nan_columns, separators=(",", ":"))
    return values


def decode_footer(metadata: Mapping[bytes, bytes] | None, path: str = "") -> BaseFileFooter:
    """Read Hudi's part of a footer, if any; other keys are ignored (docs/format §6.3, §7).

    Raises:
        Corrupt: a value is not UTF-8, or the bloom filter is damaged.
    """
    values = metadata or {}
    return BaseFileFooter(
        bloom_of(values, path),
        _text(values, _MIN_KEY, path),
        _text(values, _MAX_KEY, path),
        _text(values, _AVRO_SCHEMA, path),
        nan_columns(values),
    )


def may_hold(metadata: Mapping[bytes, bytes] | None, keys: tuple[str, ...], path: str = "") -> bool:
    """Return whether one of a few keys may be in the file, by key range and filter.

    False is certain. It is `might_hold` of the decoded footer, in less time.

    Raises:
        Corrupt: a value is not UTF-8, or the bloom filter is damaged.
    """
    values = metadata or {}
    bounds = BaseFileFooter(None, _text(values, _MIN_KEY, path), _text(values, _MAX_KEY, path), None)
    found = bounds.in_range(pa.array(keys, pa.string()))
    text = values.get(_bloom_key(values).encode())
    if text is not None and found.any():
        found &= bloom_probe.may_contain(type_code_of(values, path), text, keys, path)
    return bool(found.any())


def nan_columns(metadata: Mapping[bytes, bytes] | None) -> tuple[str, ...] | None:
    """Return the top-level float columns that hold NaN; None where the footer does not say it.

    A value of another form says nothing: the columns are read then, as those of a file without the key.
    """
    text = (metadata or {}).get(NAN_COLUMNS_KEY.encode())
    if text is None:
        return None
    try:
        names = json.loads(text)
    except ValueError:
        return None
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_list else None


def bloom_of(metadata: Mapping[bytes, bytes] | None, path: str = "") -> BloomFilter | None:
    """Return the bloom filter, if there is one.

    Raises:
        Corrupt: it is damaged.
    """
    # Not by `filter_text`: the text is long, and each form of it takes its size in memory.
    values = metadata or {}
    text = values.get(_bloom_key(values).encode())
    return bloom.decode_filter(type_code_of(values, path), text, path) if text is not None else None


def type_code_of(metadata: Mapping[bytes, bytes] | None, path: str = "") -> str:
    """Return the type code of the bloom filter.

    Files that are older than the kinds of filters have none.

    Raises:
        Corrupt: it is not UTF-8.
    """
    return _text(metadata or {}, _BLOOM_TYPE, path) or bloom.SIMPLE


def filter_text(metadata: Mapping[bytes, bytes] | None, path: str = "") -> tuple[str, str] | None:
    """Return type code and undecoded text of the bloom filter, or None (docs/format §7).

    Raises:
        Corrupt: it is not UTF-8.
    """
    values = metadata or {}
    text = _text(values, _bloom_key(values), path)
    return None if text is None else (type_code_of(values, path), text)


def _bloom_key(values: Mapping[bytes, bytes]) -> str:
    return BLOOM if BLOOM.encode() in values else _BLOOM_BEFORE_APACHE


def _text(values: Mapping[bytes, bytes], key: str, path: str) -> str | None:
    value = values.get(key.encode())
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Corrupt(
            f"The footer of {path or 'a base file'} is damaged",
            expected=f"UTF-8 text under {key}",
            found=str(error),
            next_step="run `hudi-ops verify` on the table; rewrite the base file",
            path=path,
        ) from error
