"""Index kind `record_index`: the file group of each record key.

Records go with their keys, not with files: a removed file of an older slice held the keys that the newer one has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from hudi_ops.formats.large_arrays import joined
from hudi_ops.metadata.index_kind import (
    IndexKind,
    KeysAt,
    TableChange,
    TableContent,
    Terms,
    WantedFacts,
    WrittenFiles,
)
from hudi_ops.metadata.records.partitions import MetadataPartition, form_of
from hudi_ops.metadata.records.record_index import location_values, record_index_records
from hudi_ops.metadata.records.records import Records, no_keys, sorted_records
from hudi_ops.metadata.records.values import repeated

_FORM: Final = form_of(MetadataPartition.RECORD_INDEX)

_GROWTH: Final = 2
_RECORD_BYTES: Final = 48
_GROUP_BYTES_MAX: Final = 1 << 30
_GROUPS_MAX: Final = 10_000
"""Constants of Apache Hudi's count of the file groups of a record index."""


def _whole(content: TableContent, terms: Terms) -> Records:
    return _located(content.keys, no_keys(), version=terms.version)


def _changed(change: TableChange, terms: Terms) -> Records:
    return _located(change.keys, change.gone, version=terms.version)


def _of_write(written: WrittenFiles, terms: Terms) -> Records:
    return record_index_records(
        written.facts,
        written.instant_ms,
        version=terms.version,
        hidden=written.hidden,
        are_located=written.are_located,
    )


def _located(keys: Sequence[KeysAt], gone: pa.Array, *, version: int) -> Records:
    """Return records of keys; if a key has two locations, the later one stays."""
    held = [at for at in keys if len(at.keys)]
    values = location_values([(at.partition_path, at.file_id, at.instant_ms) for at in held], version=version)
    whole = joined([at.keys for at in held], pa.string())
    each = repeated(values, [len(at.keys) for at in held])
    return sorted_records(_FORM.name, whole, each, gone, version=version)


def _grown(records: int) -> int:
    """Return the number of file groups, as in Apache Hudi (docs/format §14.2)."""
    wanted = -(-records * _GROWTH * _RECORD_BYTES // _GROUP_BYTES_MAX)
    return min(max(wanted, _FORM.groups), _GROUPS_MAX)


RECORD_INDEX = IndexKind(_FORM, _whole, _changed, _of_write, facts=WantedFacts(keys=True), grown=_grown)
