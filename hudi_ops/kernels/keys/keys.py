"""Record keys and partition paths of a batch, byte for byte as Apache Hudi writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.key_generators import TimePartition
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.kernels.statistics import first_null_row
from hudi_ops.kernels.text import key_column, print_values
from hudi_ops.kernels.time_paths import time_paths

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
EMPTY_KEY_PART, NULL_KEY_PART = "__empty__", "__null__"
"""Texts of an empty string and of a null in the key of several fields.

We refuse nulls; Apache Hudi writes them.
"""

_ENCODED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_SLASH_DATE = re.compile(r"([0-9]{4})[-/]([0-9]{2})[-/]([0-9]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DENSE_PAIRS_MAX = 1 << 22
FOLDER_BYTES_MAX = 255
"""Longest name of one folder on every file system in wide use."""


@dataclass(frozen=True)
class KeySpec:
    """Rules by which a table's record keys are made.

    Attributes:
        encode_names: False prints the bare value of the one field; True prints `f1:v1,f2:v2`.
    """

    fields: tuple[str, ...]
    encode_names: bool


@dataclass(frozen=True)
class PartitionSpec:
    """Rules by which a table's partition paths are made.

    Attributes:
        fields: the partition fields, one level each; none for a table without partitions.
        hive_style: levels read `field=value`.
        url_encode: `hoodie.datasource.write.partitionpath.urlencode`.
        time: how the one field becomes a path, in tables with the time-based key generator.
        slash_dates: the one field's dates, `yyyy-MM-dd` or `yyyy/MM/dd`, make three levels.
    """

    fields: tuple[str, ...]
    hive_style: bool
    url_encode: bool
    time: TimePartition | None = None
    slash_dates: bool = False


def record_keys(data: pa.Table, spec: KeySpec, *, refuse_ambiguous: bool = False) -> pa.Array:
    """Return the record key of every row (docs/format §6.5).

    The text of a key of several fields has no escapes. Writers refuse values by which the keys of different rows could be equal.

    Raises:
        InvalidRequest: a key column is missing; a key field is null, or all of them are empty strings (details: `row`,
            `field`); a value or a field's name that `refuse_ambiguous` refuses; or several fields without names.
        Unsupported: a key field of a type without a safe text. Raised by `key_column`.
    """
    if not spec.fields or (len(spec.fields) > 1 and not spec.encode_names):
        raise InvalidRequest(
            f"A record key needs one field, or several with their names; got {', '.join(spec.fields) or 'none'}.",
            next_step="Set hoodie.table.recordkey.fields to one or more columns.",
        )
    if refuse_ambiguous and (name := ambiguous_name(spec.fields)) is not None:
        raise InvalidRequest(
            f"With the key field {name!r} two different rows could get one record key.",
            expected="names without commas and colons, where a key has several fields",
            found=repr(name),
            next_step="Rename the column, or choose other key fields, for example a single one.",
            field=name,
        )
    parts: list[pa.Array] = []
    blank: npt.NDArray[np.bool_] | None = None
    for field, following in zip(spec.fields, (*spec.fields[1:], None), strict=True):
        column = key_column(data, field)
        _refuse_null(column, field)
        text = print_values(column, field)
        if refuse_ambiguous and len(spec.fields) > 1:
            _refuse_ambiguous(text, field, following)
        is_blank = pc.equal(text, "")
        blank = np.asarray(is_blank) if blank is None else blank & np.asarray(is_blank)
        parts.append(pc.if_else(is_blank, EMPTY_KEY_PART, text) if spec.encode_names else text)
    if blank is not None and blank.any():
        _refuse_row(int(np.argmax(blank)), spec.fields[0], "is empty", ", ".join(spec.fields))
    if not spec.encode_names:
        return parts[0]
    pieces: list[pa.Array | pa.Scalar] = []
    for place, (field, part) in enumerate(zip(spec.fields, parts, strict=True)):
        pieces += [pa.scalar(f"{',' if place else ''}{field}:"), part]
    return pc.binary_join_element_wise(*pieces, "")


def ambiguous_name(fields: Sequence[str]) -> str | None:
    """Return the first field of a composite key whose name makes its text ambiguous, or None.

    Without commas in names, `,name:` cannot begin within another `,name:`, so that its first place in a key is where the next
    value begins. Parsers of Apache Hudi take the first colon for the end of a name.
    """
    return next((field for field in fields if len(fields) > 1 and not {",", ":"}.isdisjoint(field)), None)


def partition_paths(data: pa.Table, spec: PartitionSpec) -> pa.DictionaryArray:
    """Return the partition path of every row: int32 indices into ascending distinct paths.

    Only distinct values are printed and encoded. Source: docs/format §6.6.

    Raises:
        InvalidRequest: a partition column is missing; or a value does not name one folder below its parent (details: `row`,
            `field`).
        Unsupported: a field of a type without a safe text. Raised by `key_column`.
    """
    codes = np.zeros(data.num_rows, np.int64)
    paths = np.array([""] if data.num_rows else [], object)
    for level, field in enumerate(spec.fields):
        field_codes, texts = _distinct_texts(key_column(data, field), field, spec.time)
        folders = _folders(texts, field_codes, field, spec, level)
        codes, left, right = _pair(codes, field_codes, len(folders))
        paths = paths[left] + "/" + folders[right] if level else folders[right]
    # Different values may print the same (null and empty), but the dictionary must hold each path once. It is sorted, so a
    # path's rank does not depend on the order of rows.
    distinct = pa.array(sorted(set(paths.tolist())), pa.string())
    rank = np.asarray(pc.index_in(pa.array(paths.tolist(), pa.string()), value_set=distinct), np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(rank[codes], pa.int32()), distinct)


def _distinct_texts(
    column: pa.Array, field: str, time: TimePartition | None
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return a code per row, and its text; null is the default partition, or 1970 for times.

    Raises:
        InvalidRequest: an empty text, or the default partition's own name: Apache Hudi takes a partition column's value from
            the path and would read null for both.
        Unsupported: a timestamp column: Apache Hudi reads another value back from such a path.
    """
    if pa.types.is_timestamp(column.type):
        raise Unsupported(
            f"The timestamp column {field!r} cannot name partitions.",
            expected="a string, number, boolean or date column",
            found=str(column.type),
            next_step="Partition by a date column derived from it.",
            field=field,
        )
    if time is not None:
        # A day's folder may have as many values as rows: only the texts repeat.
        paths = time_paths(column, time, field).dictionary_encode()
        return paths.indices.to_numpy(zero_copy_only=False).astype(np.int64), paths.dictionary.to_pylist()
    encoded = column.dictionary_encode(null_encoding="encode")
    texts = print_values(encoded.dictionary, field).to_pylist()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    for code, text in enumerate(texts):
        if text in {"", DEFAULT_PARTITION}:
            row = int(np.argmax(codes == code))
            raise InvalidRequest(
                f"Row {row}: the value {text!r} of the partition field {field!r} would be read back as null.",
                expected="a null, or a text that is neither empty nor the default partition's name",
                found=repr(text),
                next_step="Write a null where there is no value.",
                row=row,
                field=field,
            )
    return codes, [DEFAULT_PARTITION if text is None else text for text in texts]


def _folders(
    texts: list[str], codes: npt.NDArray[np.int64], field: str, spec: PartitionSpec, level: int
) -> npt.NDArray[np.object_]:
    """Return the folder name of each distinct text of one field.

    Raises:
        InvalidRequest: a text that is no folder name.
    """
    folders = np.empty(len(texts), object)
    forbidden = _forbidden(spec)
    for code, text in enumerate(texts):
        if spec.slash_dates:
            folders[code] = _slash_date(text, codes, code, field)
            continue
        value = _ENCODED.sub(lambda match: f"%{ord(match[0]):02X}", text) if spec.url_encode else text
        folder = f"{field}={value}" if spec.hive_style else value
        # `.hoodie` at the top is the table's own folder: data there would be read as metadata.
        if (
            any(char in value for char in forbidden)
            or folder in {".", ".."}
            or _CONTROL.search(value)
            or (level == 0 and folder.startswith(".hoodie"))
        ):
            row = int(np.argmax(codes == code))
            raise InvalidRequest(
                f"Row {row}: the value {text!r} of the partition field {field!r} is not the name of a folder.",
                expected=f"none of [{' '.join(forbidden)}], no control characters, not '.' or '..', not beginning with '.hoodie'",
                found=repr(text),
                next_step="Create the table with hoodie.datasource.write.partitionpath.urlencode=true, which encodes "
                "'/' and control characters, or change the value.",
                row=row,
                field=field,
                setting="hoodie.datasource.write.partitionpath.urlencode",
            )
        if len(folder.encode()) > FOLDER_BYTES_MAX:
            row = int(np.argmax(codes == code))
            raise InvalidRequest(
                f"Row {row}: the value {text[:40]!r}… of the partition field {field!r} is too long for the name of a folder.",
                expected=f"at most {FOLDER_BYTES_MAX} bytes of UTF-8, encoded characters counted as written",
                found=f"{len(folder.encode())} bytes",
                next_step="Partition by a shorter value.",
                row=row,
                field=field,
            )
        folders[code] = folder
    return folders


def _slash_date(text: str, codes: npt.NDArray[np.int64], code: int, field: str) -> str:
    """Return the folders of a date.

    Raises:
        InvalidRequest: another text.
    """
    if text == DEFAULT_PARTITION:
        return text
    found = _SLASH_DATE.fullmatch(text)
    if found is None:
        row = int(np.argmax(codes == code))
        raise InvalidRequest(
            f"Row {row}: the value {text[:40]!r} of the partition field {field!r} is not a date, as the folders are.",
            expected="yyyy-MM-dd or yyyy/MM/dd, or null: the table has slash-separated dates",
            found=repr(text[:40]),
            next_step="Correct the row.",
            row=row,
            field=field,
        )
    return "/".join(found.groups())


def _forbidden(spec: PartitionSpec) -> tuple[str, ...]:
    """Return the characters that readers would misread in a value without an escape."""
    if spec.url_encode:
        return ()
    # A slash in the text of a time is intended: it makes a level. `x=y` without hive style is read as column x.
    return (*(() if spec.time else ("/",)), ":", "%", *(() if spec.hive_style else ("=",)))


def _pair(
    left: npt.NDArray[np.int64], right: npt.NDArray[np.int64], width: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return codes of the pairs (left, right) that occur, and both halves of each pair."""
    combined = left * max(width, 1) + right
    size = int(combined.max()) + 1 if len(combined) else 0
    if size <= _DENSE_PAIRS_MAX:  # A table of all pairs is cheaper than sorting the rows.
        seen = np.zeros(size, bool)
        seen[combined] = True
        pairs = np.flatnonzero(seen)
        codes = (np.cumsum(seen) - 1)[combined]
    else:
        pairs, codes = np.unique(combined, return_inverse=True)
    return codes, pairs // max(width, 1), pairs % max(width, 1)


def _refuse_null(column: pa.Array, field: str) -> None:
    row = first_null_row(column)
    if row is not None:
        _refuse_row(row, field, "is null", field)


def _refuse_ambiguous(text: pa.Array, field: str, following: str | None) -> None:
    """Refuse a text that holds the beginning of the next field, or stands for an empty value.

    In other keys, the next field begins at the first text that looks like its beginning, so that one row alone makes each key.

    Raises:
        InvalidRequest: names the first such row.
    """
    found = pc.is_in(text, value_set=pa.array([EMPTY_KEY_PART, NULL_KEY_PART], text.type))
    if following is not None:
        found = pc.or_(found, pc.match_substring(text, f",{following}:"))
    if pc.any(found).as_py():
        row = pc.index(found, True).as_py()
        raise InvalidRequest(
            f"Row {row}: with this value of the key field {field!r} two different rows could get one record key.",
            expected=f"neither {EMPTY_KEY_PART} nor {NULL_KEY_PART}"
            + (f", nor a text that contains ',{following}:'" if following is not None else ""),
            found=repr(text[row].as_py())[:200],
            next_step="Correct the row, or choose other key fields, for example a single one.",
            row=row,
            field=field,
        )


def _refuse_row(row: int, field: str, state: str, fields: str) -> None:
    raise InvalidRequest(
        f"Row {row}: the record key {state} (field {fields}).",
        expected="a value in every row",
        found="null" if state == "is null" else "an empty string",
        next_step="Correct the row, or choose key fields that always have a value.",
        row=row,
        field=field,
    )
