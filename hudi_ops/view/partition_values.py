"""Read partition columns from paths: values if no file holds the columns, otherwise bounds.

If files hold the columns, a path is only used when exactly one value can have produced it: the key generator is a plain one, the
path has as many levels as there are partition fields, and the text is the printed form of one value of the column's type. Otherwise
the value is unknown, and the partition is never left out. If no file holds the columns, the path is the only source.

Source: docs/format §6.6, §6.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Corrupt, HudiOpsError
from hudi_ops.kernels.bounds import ColumnBounds, bounds_table
from hudi_ops.kernels.keys.keys import DEFAULT_PARTITION, PartitionSpec, partition_paths

_OLD_DEFAULT_PARTITION = "default"
"""Name of the default partition before release 0.12. It says nothing about the value: a text may be equal to it."""

PLAIN_GENERATORS = frozenset({"SIMPLE", "COMPLEX", "SIMPLE_AVRO", "COMPLEX_AVRO"})
"""Key generators whose paths print the values of the partition columns."""

_PLAIN_CLASSES = ("SimpleKeyGenerator", "ComplexKeyGenerator", "SimpleAvroKeyGenerator", "ComplexAvroKeyGenerator")
_ESCAPED = re.compile("%([0-9A-F]{2})")


@dataclass(frozen=True)
class PartitionPaths:
    """Reads partition paths of one table.

    Attributes:
        kinds: type of each partition field.
        speaking: for each field, whether its level prints the column's own value.
        fills: no file holds the columns.
    """

    spec: PartitionSpec
    kinds: tuple[pa.DataType, ...]
    speaking: tuple[bool, ...]
    fills: bool = False

    @classmethod
    def of(cls, config: TableConfig, schema: pa.Schema) -> PartitionPaths:
        """Return the reader for a table; it ignores fields that no plain key generator formats."""
        spec = PartitionSpec(config.partition_fields, config.hive_style, config.url_encode)
        kinds = tuple(
            schema.field(name).type if name in schema.names else pa.null() for name in config.partition_fields
        )
        plain = _prints_values(config)
        speaking = tuple(p and is_read_from_paths(kind) for p, kind in zip(plain, kinds, strict=True))
        return cls(spec, kinds, speaking, config.drop_partition_columns)

    @property
    def may_prune_folders(self) -> bool:
        """Whether folders may be left out with everything below them.

        Not if slashes in texts are not escaped: folder `a` may then be the beginning of the value `a/b`.
        """
        return self.spec.url_encode or not any(map(_is_text, self.kinds))

    def bounds(self, paths: Sequence[str], columns: Sequence[str], schema: pa.Schema) -> pa.Table:
        """Return bounds of some columns in n partitions, or in all partitions below n folders.

        The bounds of a column that is no partition field are unknown.
        """
        levels = [path.split("/") if path else [] for path in paths]
        made = {}
        for name in columns:
            kind, place = schema.field(name).type, _place(self.spec.fields, name)
            if place is not None and self.fills:
                made[name] = self._filled_bounds(name, kind, paths)
            elif place is None or not self.speaking[place]:
                made[name] = ColumnBounds.unknown(kind, len(paths))
            else:
                made[name] = self._field_bounds(place, levels)
        return bounds_table(made, len(paths))

    def decides(self, columns: Sequence[str]) -> bool:
        """Return whether a path tells the values of all of these columns; no columns: False."""
        places = [_place(self.spec.fields, name) for name in columns]
        return bool(places) and all(place is not None and (self.fills or self.speaking[place]) for place in places)

    def values(self, path: str) -> dict[str, Any]:
        """Return the values of partition columns that no file holds; empty if files hold them.

        Raises:
            Corrupt: the path does not tell the values.
        """
        if not self.fills:
            return {}
        texts = self._texts(path)
        found = {}
        for name, kind, text in zip(self.spec.fields, self.kinds, texts, strict=True):
            try:
                found[name] = None if text is None else pa.scalar(text).cast(kind).as_py()
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
                raise Corrupt(**_untold(path, f"a value of type {kind} for {name}", f"{text!r}: {error}")) from error
        return found

    def _texts(self, path: str) -> list[str | None]:
        """Return the text of each field in a path, None for null; a single field takes all levels.

        Raises:
            Corrupt: the number or the names of the levels do not match the table's partition fields.
        """
        fields = self.spec.fields
        folders = path.split("/") if len(fields) > 1 else [path]
        if len(folders) != len(fields):
            raise Corrupt(**_untold(path, f"{len(fields)} levels", f"{len(folders)}"))
        texts: list[str | None] = []
        for name, folder in zip(fields, folders, strict=True):
            if self.spec.hive_style and not folder.startswith(f"{name}="):
                raise Corrupt(**_untold(path, f"a level that begins with {name}=", folder))
            text = folder[len(name) + 1 :] if self.spec.hive_style else folder
            plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if self.spec.url_encode else text
            texts.append(None if text == DEFAULT_PARTITION else plain)
        return texts

    def _field_bounds(self, place: int, levels: Sequence[Sequence[str]]) -> ColumnBounds:
        width = len(self.spec.fields)
        folders = [found[place] if place < len(found) <= width else "" for found in levels]
        read = self._values(place, {*folders} - {""})
        values = pa.array([read.get(folder) for folder in folders], self.kinds[place])
        return ColumnBounds.exactly(values, pa.array([folder in read for folder in folders], pa.bool_()))

    def _filled_bounds(self, name: str, kind: pa.DataType, paths: Sequence[str]) -> ColumnBounds:
        """Return exact bounds for partitions, and unknown ones for folders above partitions."""
        values = []
        for path in paths:
            try:
                values.append(self.values(path))
            except Corrupt:
                values.append({})  # a read of the partition raises the error
        known = pa.array([name in one for one in values], pa.bool_())
        return ColumnBounds.exactly(pa.array([one.get(name) for one in values], kind), known)

    def _values(self, place: int, folders: Iterable[str]) -> dict[str, Any]:
        """Return the values in folders' names, as far as they are known."""
        field, kind = self.spec.fields[place], self.kinds[place]
        is_text, prefix = _is_text(kind), f"{field}=" if self.spec.hive_style else ""
        found: dict[str, Any] = {}
        unread: dict[str, str] = {}
        for folder in folders:
            text = folder[len(prefix) :]
            if not folder.startswith(prefix) or text == _OLD_DEFAULT_PARTITION:
                continue
            if text == DEFAULT_PARTITION:
                # Apache Hudi stores empty texts there, too, so the value is known to be null only for other types.
                if not is_text:
                    found[folder] = None
            elif is_text and text and "%" not in text:
                found[folder] = text
            else:
                unread[folder] = text
        if self.spec.url_encode:
            unread = {
                folder: _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) for folder, text in unread.items()
            }
        return found | self._same_on_return(field, kind, unread)

    def _same_on_return(self, field: str, kind: pa.DataType, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of texts that are printed as the folders by which they are given."""
        if not texts:
            return {}
        try:
            values = pa.array(texts.values(), pa.string()).cast(kind)
            spec = PartitionSpec((field,), self.spec.hive_style, self.spec.url_encode)
            printed = partition_paths(pa.table({field: values}), spec).to_pylist()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, OverflowError, HudiOpsError):
            if len(texts) == 1:
                return {}  # not a text of this type: the folder says nothing about the value
            half = len(texts) // 2
            parts = dict(islice(texts.items(), half)), dict(islice(texts.items(), half, None))
            return {folder: one for part in parts for folder, one in self._same_on_return(field, kind, part).items()}
        made = zip(texts, values.to_pylist(), printed, strict=True)
        return {folder: value for folder, value, path in made if path == folder}


def _place(fields: Sequence[str], name: str) -> int | None:
    return fields.index(name) if fields.count(name) == 1 else None


def _untold(path: str, expected: str, found: str) -> dict[str, str]:
    return {
        "what": f"the path of partition {path} does not tell the values of its partition columns, which no file holds",
        "expected": expected,
        "found": found,
        "next_step": "run `hudi-ops verify`; another program may have put files there",
    }


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_read_from_paths(kind: pa.DataType) -> bool:
    """Whether a folder's name can be read as a value of a type."""
    is_kind = pa.types
    return bool(
        _is_text(kind)
        or is_kind.is_integer(kind)
        or is_kind.is_boolean(kind)
        or is_kind.is_date32(kind)
        or is_kind.is_decimal(kind)
    )


def constant_fields(config: TableConfig) -> frozenset[str]:
    """Return the partition fields of which all rows of one partition have the same value.

    Other key generators derive the path from the value, for example the day of a time.
    """
    plain = zip(config.partition_fields, _prints_values(config), strict=True)
    return frozenset(field for field, prints in plain if prints)


def _prints_values(config: TableConfig) -> list[bool]:
    """Return for each partition field whether its level is the field's value as printed."""
    fields = config.partition_fields
    generator = config.key_generator or config.raw.get("hoodie.table.keygenerator.class", "").rpartition(".")[2]
    if generator in PLAIN_GENERATORS or generator in _PLAIN_CLASSES:
        return [True] * len(fields)
    if generator in {"CUSTOM", "CUSTOM_AVRO", "CustomKeyGenerator", "CustomAvroKeyGenerator"}:
        declared = {part.strip() for part in config.raw.get("hoodie.table.partition.fields", "").split(",")}
        return [not declared.isdisjoint({f"{field}:simple", f"{field}:SIMPLE"}) for field in fields]
    return [False] * len(fields)
