"""The covering set: every pair of choices that a table and a write can have, and how a choice is carried out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hudi_ops.index.simple_bucket import Tagger
from tests.bounds import SOAK
from tests.interop.table_shapes import (
    MS_BY_DAY,
    SECONDS_BY_HOUR,
    TEXT_BY_DAY,
    Row,
    ShapedTable,
    TableShape,
    as_table,
    rows,
)
from tests.property.table_model import REMOVING

# Fields, hive style, url encoding.
PARTITIONINGS: dict[str, tuple[tuple[str, ...], bool, bool]] = {
    "none": ((), True, True),
    "hive": (("region",), True, True),
    "plain": (("plain",), False, False),
    "encoded": (("region",), False, True),
    "two hive": (("region", "month"), True, True),
    "two plain": (("plain", "week"), False, False),
}
TIMES = {"hive": ("seconds", SECONDS_BY_HOUR), "plain": ("ms", MS_BY_DAY), "encoded": ("text_time", TEXT_BY_DAY)}
AXES: dict[str, Sequence[Any]] = {
    "operation": (
        *("upsert", "insert", "delete", "bulk_insert"),
        *("insert_overwrite", "insert_overwrite_table", "delete_partition", "truncate"),
    ),
    "partitioning": tuple(PARTITIONINGS),
    "key_generator": ("simple", "complex", "timestamp", "non_partitioned"),
    "ordering": (None, "seq", "at"),
    "keys": (("id",), ("id", "number")),
    "table_type": ("cow", "mor"),
    "engine": ("local", "spark"),
    "version": (9, 8),
    "meta_fields": (True, False),
}


def is_possible(values: Sequence[Any]) -> bool:
    """Whether such a table is made at all: what `Table.create` refuses, with the reason, is left out."""
    chosen = dict(zip(AXES, values, strict=True))
    partitioning, generator = chosen["partitioning"], chosen["key_generator"]
    return not (
        (chosen["operation"] == "delete_partition" and partitioning == "none")
        or (generator == "non_partitioned") != (partitioning == "none")
        or (generator != "complex" and partitioning.startswith("two"))
        or (generator in {"simple", "timestamp"} and len(chosen["keys"]) > 1)
        or (generator == "timestamp" and not chosen["meta_fields"])
        or (chosen["version"], chosen["table_type"], chosen["meta_fields"]) == (8, "mor", False)
    )


def covering(product: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Few members of a product that hold every pair of values which its members hold: always the one with most new pairs."""
    numbers: dict[Any, int] = {}
    pairs = np.array([
        [numbers.setdefault(pair, len(numbers)) for pair in itertools.combinations(enumerate(values), 2)]
        for values in product
    ])
    missing, chosen = np.ones(len(numbers), bool), []
    while missing.any():
        best = int(missing[pairs].sum(axis=1).argmax())
        missing[pairs[best]] = False
        chosen.append(product[best])
    return chosen


@dataclass(frozen=True)
class Choice:
    """One table of the set, and the operation that it is about."""

    operation: str
    engine: str
    shape: TableShape

    @classmethod
    def of(cls, values: Sequence[Any]) -> Choice:
        """The table that a choice on each axis means."""
        chosen = dict(zip(AXES, values, strict=True))
        fields, hive_style, url_encode = PARTITIONINGS[chosen["partitioning"]]
        time = None
        if chosen["key_generator"] == "timestamp":
            field, time = TIMES[chosen["partitioning"]]
            fields = (field,)
        shape = TableShape(
            keys=chosen["keys"],
            partitions=fields,
            ordering=chosen["ordering"],
            table_type=chosen["table_type"],
            version=chosen["version"],
            key_generator=chosen["key_generator"],
            time=time,
            hive_style=hive_style,
            url_encode=url_encode,
            meta_fields=chosen["meta_fields"],
        )
        return cls(chosen["operation"], chosen["engine"], shape)

    def __str__(self) -> str:
        return f"{self.operation} {self.engine} {self.shape}"


def possible() -> list[Sequence[Any]]:
    """Return every table that can be made."""
    return [values for values in itertools.product(*AXES.values()) if is_possible(values)]


def possible_pairwise() -> list[Sequence[Any]]:
    """Return few tables that hold every possible pair of choices."""
    return covering(possible())


CHOICES = [Choice.of(values) for values in (possible() if SOAK else possible_pairwise())]
"""Every pair once at least; everything in a soak."""


AS_OF = frozenset(
    map(str, CHOICES if SOAK else {(one.operation, one.shape.table_type): one for one in CHOICES}.values())
)
"""Tables that Apache Hudi reads as of an instant: one of each operation and type."""


def perform(choice: Choice, shaped: ShapedTable) -> None:
    """The operation under test, on the table and on its model."""
    content = {
        "upsert": rows(range(6), 2, 20) + rows((6, 7), 2, 5) + rows((8, 9), 2, 20, deleted=True) + rows((20,), 2, 20),
        "insert": rows(range(20, 26), 2, 20),
        "delete": rows((*range(5), 40), 0, 0),
        "bulk_insert": rows(range(20, 26), 2, 20),
        "insert_overwrite": rows((3, 11, 23), 2, 20),
        "insert_overwrite_table": rows((3, 11, 23), 2, 1),
        "delete_partition": rows((3,), 0, 0),
        "truncate": [],
    }[choice.operation]
    if choice.operation not in REMOVING:
        shaped.ingest(choice.operation, content, choice.engine)
        return
    if choice.operation == "truncate":
        result = shaped.table.truncate()
    else:
        result = shaped.table.delete_partition([folder_of(shaped, content[0])])
    held = len(shaped.model.rows)
    shaped.model.apply(choice.operation, content, str(result.instant))
    assert result.rows == held - len(shaped.model.rows) > 0


def folder_of(shaped: ShapedTable, row: Row) -> str:
    """The partition path of a row."""
    state = shaped.table._session.loader.load()
    ((path, _, _),) = Tagger.of(state.config, state.log.properties.facts).split(as_table([row]))
    return path
