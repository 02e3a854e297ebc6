"""Registry of index kinds, by the names of their partitions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from hudi_ops.metadata.index_kind import IndexKind, WantedFacts
from hudi_ops.metadata.kinds.bloom_filters import BLOOM_FILTERS
from hudi_ops.metadata.kinds.column_stats import COLUMN_STATS
from hudi_ops.metadata.kinds.files import FILES
from hudi_ops.metadata.kinds.partition_stats import PARTITION_STATS
from hudi_ops.metadata.kinds.record_index import RECORD_INDEX
from hudi_ops.metadata.kinds.secondary_index import secondary_kind
from hudi_ops.metadata.records.partitions import add_form, form_of, is_secondary

_KINDS: dict[str, IndexKind] = {
    kind.name: kind for kind in (FILES, COLUMN_STATS, BLOOM_FILTERS, RECORD_INDEX, PARTITION_STATS)
}


def register(kind: IndexKind) -> IndexKind:
    """Add an index kind to the registry and return it.

    Writes, cleans and builds then keep its partition in each table that names it.

    Raises:
        Internal: another kind has this name, with another form.
    """
    add_form(kind.form)
    _KINDS[kind.name] = kind
    return kind


def kind_of(partition: str) -> IndexKind:
    """Return the index kind of a partition that this library maintains.

    Raises:
        Internal: it maintains no partition of this name.
    """
    return secondary_kind(partition) if is_secondary(partition) else _KINDS[form_of(partition).name]


def kinds_of(partitions: Iterable[str]) -> tuple[IndexKind, ...]:
    """Return the kinds of partitions, in their order; raise as `kind_of` does."""
    return tuple(kind_of(partition) for partition in partitions)


def wanted_by(kinds: Iterable[IndexKind]) -> WantedFacts:
    """Return all facts that these kinds want."""
    return reduce(or_, (kind.facts for kind in kinds), WantedFacts())
