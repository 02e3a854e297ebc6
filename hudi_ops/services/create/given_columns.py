"""Return the columns of a new table from a schema, a text or a sample file."""

from __future__ import annotations

import os
from typing import TypeAlias

import pyarrow as pa

from hudi_ops.errors import InvalidRequest
from hudi_ops.sources.column_list import parse_columns
from hudi_ops.sources.sample_schema import is_file_name, sample_schema

GivenColumns: TypeAlias = pa.Schema | str | os.PathLike[str]
"""A schema; a text such as `id string, fare double`; or the path or URI of a sample file."""


def given_columns(columns: GivenColumns) -> pa.Schema:
    """Return the schema of a new table.

    A text that ends as a source file does (`.csv`, `.parquet`, …) names a file.

    Raises:
        InvalidRequest: the text cannot be read, or the file does not show its columns.
    """
    if isinstance(columns, pa.Schema):
        return columns
    if isinstance(columns, os.PathLike) or (isinstance(columns, str) and is_file_name(columns)):
        return sample_schema(os.fspath(columns))
    if isinstance(columns, str):
        return parse_columns(columns)
    raise InvalidRequest(
        "the table's columns are given as an unknown kind of value",
        expected='a pyarrow.Schema, a text such as "id string, fare double", or a sample file',
        found=type(columns).__name__,
        next_step="pass schema=table.schema of an Arrow table, or one of the others",
        field="schema",
    )
