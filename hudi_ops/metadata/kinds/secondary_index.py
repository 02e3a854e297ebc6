"""Index kinds of secondary indexes: the record keys of each value of a column.

A record's key holds a value and a record key; the record itself says nothing more. Records go with their rows: a row that
moves to another file group, or into another file, keeps its record. Source: docs/format §14.11.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pyarrow as pa

from hudi_ops.formats.avro.encode import encode_column
from hudi_ops.formats.large_arrays import joined
from hudi_ops.metadata.index_kind import IndexKind, TableChange, TableContent, Terms, WantedFacts, WrittenFiles
from hudi_ops.metadata.records.partitions import form_of
from hudi_ops.metadata.records.records import Records, no_keys, sorted_records
from hudi_ops.metadata.records.values import field_node, framed, repeated


@cache
def secondary_kind(name: str) -> IndexKind:
    """Return the kind of the secondary index with this name.

    Raises:
        Internal: no secondary index has such a name.
    """

    def whole(content: TableContent, terms: Terms) -> Records:
        return _records(name, (at.entries[name] for at in content.keys), (), terms)

    def changed(change: TableChange, terms: Terms) -> Records:
        gone = change.gone_entries.get(name, no_keys())
        return _records(name, (at.entries[name] for at in change.keys), (gone,), terms)

    def of_write(written: WrittenFiles, terms: Terms) -> Records:
        change = written.entries.get(name)
        return _records(name, () if change is None else (change[0],), () if change is None else (change[1],), terms)

    return IndexKind(form_of(name), whole, changed, of_write, facts=WantedFacts(entries=(name,)))


def _records(name: str, added: Iterable[pa.Array], gone: Iterable[pa.Array], terms: Terms) -> Records:
    keys = joined(added, pa.string())
    values = repeated(_live_value(name, terms.version), [len(keys)])
    return sorted_records(name, keys, values, joined(gone, pa.string()), version=terms.version)


@cache
def _live_value(name: str, version: int) -> pa.BinaryArray:
    """Return the value that all records of a secondary index have."""
    node = field_node(name, version)
    structs = pa.array([{"isDeleted": False}], node.arrow)
    return framed(name, encode_column(node, structs, name), 1)
