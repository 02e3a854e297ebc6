"""Location of record keys by the record index and by bloom filters (docs/format §14.7)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import Corrupt
from hudi_ops.formats.parquet.bloom_probe import may_contain
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.bloom_filters import decoded_filters
from hudi_ops.metadata.records.keys import bloom_filter_key, record_keys_of
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition
from hudi_ops.metadata.records.record_index import decoded_locations

logger = logging.getLogger(__name__)


def groups_of_keys(metadata: MetadataTable, keys: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return partition path and file id of every file group with one of these keys.

    `metadata` holds `record_index`, and is current.
    """
    partition = MetadataPartition.RECORD_INDEX
    found = decoded_locations(metadata.lookup(partition, keys), f"{FOLDER}/{partition.value}")
    columns = (found[name].cast(pa.string()).to_pylist() for name in ("partition_path", "file_id"))
    return frozenset(zip(*columns, strict=True))


def keys_of_values(metadata: MetadataTable, index: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return the record keys of all rows with one of these values, by a secondary index.

    `metadata` holds the index, and is current.
    """
    found = record_keys_of(metadata.of_values(index, values).keys)
    return tuple(found.unique().to_pylist())


def files_for_keys(
    metadata: MetadataTable, files: Sequence[tuple[str, str]], keys: Sequence[str]
) -> npt.NDArray[np.bool_]:
    """Return which base files may hold one of these keys, by `bloom_filters`.

    `files` are partition paths and names. A file without a filter may.
    """
    partition = MetadataPartition.BLOOM_FILTERS
    where = f"{FOLDER}/{partition.value}"
    wanted = pa.array([bloom_filter_key(*file) for file in files], pa.string())
    found = decoded_filters(metadata.lookup(partition, wanted), where)
    answers = [
        _may_hold(code, text.encode(), tuple(keys), where)
        for code, text in zip(found["type"].to_pylist(), found["filter"].to_pylist(), strict=True)
    ]
    at = pc.index_in(wanted, found["key"])
    may: npt.NDArray[np.bool_] = pc.fill_null(pa.array(answers, pa.bool_()).take(at), True).to_numpy(
        zero_copy_only=False
    )
    return may


def _may_hold(code: str, text: bytes, keys: tuple[str, ...], where: str) -> bool:
    try:
        return bool(may_contain(code, text, keys, where).any())
    except Corrupt as error:
        # The file's own footer is checked when it is opened; `verify` reports that this filter is broken.
        logger.warning("a bloom filter is ignored: %s", error)
        return True
