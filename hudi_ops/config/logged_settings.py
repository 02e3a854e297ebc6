"""Settings that the commit log repeats: where a row lies, and which of two rows wins.

If one of these values changes, new rows are written where readers do not look, or existing rows are not found. Apache Hudi never
changes them by itself; values that it does change (name, version, partitions of the metadata table) are not among them. Values are
compared by their meaning and not as text, since table versions 8 and 9 name the ordering fields differently.

Source: docs/protocol §6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from hudi_ops.config.table import PARTITION_EXTRACTOR, SLASH_DATES, has_slash_dates, inferred_mode, is_set, listed_in

TABLE_TYPE = "hoodie.table.type"
RECORD_KEYS = "hoodie.table.recordkey.fields"
PARTITION_FIELDS = "hoodie.table.partition.fields"
ORDERING_FIELDS = "hoodie.table.ordering.fields"
_PRECOMBINE_FIELD = "hoodie.table.precombine.field"
_KEY_GENERATOR = "hoodie.table.keygenerator.type"
_MERGE_MODE = "hoodie.record.merge.mode"
_PAYLOAD = "hoodie.compaction.payload.class"
_TIME_OPTIONS = "hoodie.keygen.timebased."

Settings = Mapping[str, str]
"""Properties and their values, as in the file."""

SettingsSource = Literal["log", "file"]
"""The right one of the two, where commit log and file contradict each other."""


@dataclass(frozen=True)
class Difference:
    """A property that contradicts the commit log; an empty value means an absent property."""

    key: str
    logged: str
    found: str

    def __str__(self) -> str:
        return f"{self.key} is {self.found or 'absent'}, the commit log says {self.logged or 'absent'}"


def _flag(key: str, default: bool = False) -> Callable[[Settings], str]:
    return lambda raw: str(is_set(raw, key, default)).lower()


def _word(key: str, default: str = "") -> Callable[[Settings], str]:
    return lambda raw: raw.get(key, "").strip().upper() or default


def _names(key: str) -> Callable[[Settings], str]:
    return lambda raw: ",".join(listed_in(raw, key))


def _partition_fields(raw: Settings) -> str:
    # Custom key generators write `field:type`, and releases differ in whether they do.
    return ",".join(name.split(":")[0] for name in listed_in(raw, PARTITION_FIELDS))


def _ordering(raw: Settings) -> tuple[str, ...]:
    return listed_in(raw, ORDERING_FIELDS) or listed_in(raw, _PRECOMBINE_FIELD)


def _ordering_fields(raw: Settings) -> str:
    return ",".join(_ordering(raw))


def _merge_mode(raw: Settings) -> str:
    return _word(_MERGE_MODE)(raw) or inferred_mode(raw, _ordering(raw))


_MEANING: dict[str, Callable[[Settings], str]] = {
    TABLE_TYPE: _word(TABLE_TYPE, "COPY_ON_WRITE"),
    RECORD_KEYS: _names(RECORD_KEYS),
    PARTITION_FIELDS: _partition_fields,
    ORDERING_FIELDS: _ordering_fields,
    _KEY_GENERATOR: _word(_KEY_GENERATOR),
    _MERGE_MODE: _merge_mode,
    **{
        key: _flag(key, default)
        for key, default in {
            "hoodie.datasource.write.hive_style_partitioning": False,
            "hoodie.datasource.write.partitionpath.urlencode": False,
            "hoodie.datasource.write.drop.partition.columns": False,
            "hoodie.populate.meta.fields": True,
        }.items()
    },
    # One fact with two names, of which a writer may add the other one.
    **dict.fromkeys((SLASH_DATES, PARTITION_EXTRACTOR), lambda raw: str(has_slash_dates(raw)).lower()),
    "hoodie.table.base.file.format": _word("hoodie.table.base.file.format", "PARQUET"),
    "hoodie.timeline.path": lambda raw: raw.get("hoodie.timeline.path", "timeline"),
    "hoodie.timeline.history.path": lambda raw: raw.get("hoodie.timeline.history.path", "history"),
    "hoodie.table.timeline.timezone": _word("hoodie.table.timeline.timezone", "LOCAL"),
}
"""What each property means, defaults filled in."""

_NOT_HELD_AGAINST = {_KEY_GENERATOR: "", _MERGE_MODE: "CUSTOM"}
"""Logged values that Apache Hudi may replace: it names the key generator, and an upgrade the mode of an old payload class."""


def settings_of(raw: Settings) -> dict[str, str]:
    """Return the properties that the commit log keeps; the table type is always among them."""
    kept = {key: value for key, value in raw.items() if key in _MEANING or key in {_PRECOMBINE_FIELD, _PAYLOAD}}
    options = {key: value for key, value in raw.items() if key.startswith(_TIME_OPTIONS)}
    return {TABLE_TYPE: _MEANING[TABLE_TYPE](raw), **kept, **options}


def differences(logged: Settings, raw: Settings, *, with_type: bool = True) -> tuple[Difference, ...]:
    """Return the properties of a table that contradict the commit log, by name.

    Args:
        logged: values of the commit log, from `settings_of`; empty if it has none.
        raw: the properties of the table.
        with_type: compare the table's type, too.
    """
    if logged == settings_of(raw):
        return ()
    found: list[Difference] = []
    for key, meaning in _MEANING.items() if logged else ():
        said, now = meaning(logged), meaning(raw)
        if key == ORDERING_FIELDS and _merge_mode(logged) == "CUSTOM":
            continue  # an upgrade names the fields by which the old payload class ordered rows
        if said not in {now, _NOT_HELD_AGAINST.get(key)} and (with_type or key != TABLE_TYPE):
            found.append(Difference(key, said, _ordering_fields(raw) if key == ORDERING_FIELDS else raw.get(key, "")))
    found += [
        Difference(key, value, raw.get(key, ""))
        for key, value in logged.items()
        if key.startswith(_TIME_OPTIONS) and raw.get(key, "").strip() != value.strip()
    ]
    return tuple(sorted(found, key=lambda one: one.key))


def as_logged(raw: Settings, logged: Settings) -> dict[str, str]:
    """Return a table's properties with the values of the commit log where they differ."""
    values = dict(raw)
    for one in differences(logged, raw):
        if one.key == ORDERING_FIELDS:
            # Apache Hudi 1.0 knows only the older name; a writer of version 8 with 1.1 sets the newer one.
            is_older = raw.get("hoodie.table.version") != "9"
            keys = {_PRECOMBINE_FIELD, *({ORDERING_FIELDS} & raw.keys())} if is_older else {ORDERING_FIELDS}
            values = {key: value for key, value in values.items() if key not in {ORDERING_FIELDS, _PRECOMBINE_FIELD}}
            values |= dict.fromkeys(keys, one.logged) if one.logged else {}
        elif one.key in logged:
            values[one.key] = logged[one.key]
        else:
            values.pop(one.key, None)
    return values
