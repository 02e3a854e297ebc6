"""Define the Python data source `hudi_ops` of Spark, and return tables as DataFrames.

Options of a read: `columns` (names separated by commas), `where` (a SQL condition as in `Table.read`), `as_of` (an instant or an
ISO time), `query` (`snapshot` or `read_optimized`), `listing` (`auto`, `storage` or `metadata`), `meta_columns` (`true`: with the
columns that Apache Hudi adds); and for changes instead of all rows: `since`, `until`, `fence`, as in `Table.changes`. The table is
looked at anew for each action; `as_of` pins it, and `until` pins changes. The options of a write are in `writer.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from hudi_ops.datasource.options import FORMAT, READ_OPTIONS, Asked, given_options, storage_of
from hudi_ops.datasource.plain_errors import plain_errors
from hudi_ops.datasource.reader import HudiOpsReader
from hudi_ops.datasource.saving import WRITE_OPTIONS, Saving
from hudi_ops.datasource.writer import HudiOpsWriter
from hudi_ops.engine.classic_spark import require_classic_spark
from hudi_ops.engine.spark import use_this_python
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.storage.protocol import Storage


def register(spark: Any) -> None:
    """Make the format `hudi_ops` known to a session; a second call changes nothing."""
    use_this_python(spark)
    spark.dataSource.register(HudiOpsDataSource)


def frame_of(
    spark: Any, storage: Storage, columns: Sequence[str] | None, wanted: Mapping[str, str | None] | None = None
) -> Any:
    """Return a DataFrame over the table at a storage's root.

    `spark` is a classic session; None: the active one, or a new one. `wanted` are the other options, by name.

    Raises:
        InvalidRequest: an unknown column or instant, a filter that is no text, or one that does not fit.
        Unsupported: how log files are merged is not known here, or Spark has no type for a column.
    """
    where = (wanted or {}).get("where")
    if where is not None and not isinstance(where, str):
        raise InvalidRequest(
            "the filter of a DataFrame is SQL text", expected="a str", found=type(where).__name__, field="where"
        )
    for name in columns or ():
        if "," in name:
            raise InvalidRequest(f"the column {name!r} cannot be named to Spark: it holds a comma", field=name)
    options = {**(wanted or {}), "path": storage.uri}
    if columns is not None:
        options["columns"] = ",".join(columns)
    given = {name: value for name, value in options.items() if value is not None}
    # Planned here first: a wrong request raises an error of ours, not one of Spark's around it.
    spark_schema(Asked.of(storage, given).plan().schema)
    session = spark if spark is not None else _session()
    register(session)
    return session.read.format(FORMAT).options(**given).load()


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the table's columns in Spark's types.

    Raises:
        Unsupported: a type that Spark does not have, such as a time of day.
    """
    try:
        return from_arrow_schema(schema, prefer_timestamp_ntz=True)
    except PySparkException as error:
        raise Unsupported(
            f"Spark has no type for a column of this table: {error}",
            expected="types that Spark's own sources can give",
            found=", ".join(f"{one.name}: {one.type}" for one in schema),
            next_step="leave the column out by the option `columns`",
        ) from error


class HudiOpsDataSource(DataSource):  # type: ignore[misc]
    """The data source; Spark makes one in a Python worker for each `load` and `save`."""

    @classmethod
    def name(cls) -> str:
        """`hudi_ops`."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns that `load` gives: all of the table, or those of the option `columns`.

        Raises:
            InvalidRequest: an unknown option, column or instant, or a filter that does not fit.
        """
        with plain_errors():
            given = self._given()
            return spark_schema(Asked.of(storage_of(given), given).plan().schema)

    def reader(self, schema: StructType) -> HudiOpsReader:
        """Return a reader of the table; a user's own `schema` names the columns to read."""
        with plain_errors():
            given = {**self._given(), "columns": None, "meta_columns": None}
            asked = Asked.of(storage_of(given), given)
            return HudiOpsReader(replace(asked, read=replace(asked.read, columns=tuple(schema.names))), schema)

    def writer(self, schema: StructType, overwrite: bool) -> HudiOpsWriter:
        """Return a writer of one `save`; the columns and options are checked before a task starts.

        Raises:
            InvalidRequest: the mode is `overwrite`, an option is wrong, or the columns do not fit the table.
        """
        with plain_errors():
            given = given_options(self.options, WRITE_OPTIONS, "writing")
            return HudiOpsWriter(Saving.of(given, to_arrow_schema(schema), overwrites=overwrite))

    def _given(self) -> dict[str, str | None]:
        return given_options(self.options, READ_OPTIONS, "reading")


def _session() -> Any:
    require_classic_spark("a Spark session")
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return session if session is not None else SparkSession.builder.appName("hudi-ops").getOrCreate()
