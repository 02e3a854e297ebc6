"""Find the record keys, their buckets, and the indexed values that a condition allows.

A read skips the files that contain none of them.
"""

from __future__ import annotations

import logging
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Corrupt, HudiOpsError, Unsupported
from hudi_ops.index.bucket_engine import engine_of
from hudi_ops.kernels.condition import Condition
from hudi_ops.kernels.keys.keys import KeySpec, record_keys
from hudi_ops.metadata.definitions import secondary_columns
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import is_secondary
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.settings.properties_file import folded_slot
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import Flags
from hudi_ops.view.columns.slices import SliceColumns

logger = logging.getLogger(__name__)

KEYS_MAX = 1000
"""Largest number of keys to look up; of more keys, most files contain one."""

_PLAIN_GENERATORS = frozenset({"SIMPLE", "COMPLEX", "NON_PARTITION"})


def fixed_keys(condition: Condition, config: TableConfig, schema: pa.Schema) -> tuple[str, ...] | None:
    """Return the only record keys that rows matching a condition can have; None: any key."""
    named = condition.fixed.get(RECORD_KEY)
    if named is not None and all(isinstance(value, str) for value in named):
        return tuple(dict.fromkeys(named)) if len(named) <= KEYS_MAX else None
    fields = config.record_key_fields
    if not fields or config.key_generator not in _PLAIN_GENERATORS or not config.populate_meta_fields:
        return None
    lists = [condition.fixed.get(name, ()) for name in fields]
    count = 1
    for values in lists:
        count *= len(values)
    if not 0 < count <= KEYS_MAX:
        return None
    # Releases differ in whether such a key names its field, and table upgrades keep old keys: the table may hold either form.
    is_either = config.key_generator == "COMPLEX" and len(fields) == 1
    namings = (True, False) if is_either else (config.encodes_key_names,)
    columns = zip(*product(*lists), strict=True)
    try:
        rows = pa.table({
            name: pa.array(column, schema.field(name).type) for name, column in zip(fields, columns, strict=True)
        })
        found = [key for names in namings for key in record_keys(rows, KeySpec(fields, names)).to_pylist()]
    except (pa.ArrowInvalid, OverflowError, HudiOpsError):
        return None  # a value that no key can have: the condition itself finds no row
    return tuple(dict.fromkeys(found))


def buckets_of(
    keys: tuple[str, ...], storage: Storage, config: TableConfig, timeline: Timeline, commits: CommitReader
) -> tuple[int, ...] | None:
    """Return the only buckets of a partition that can hold one of some record keys.

    None: any file group can. A foreign writer may count other buckets, or none, so that its rows may lie in any file group: buckets
    tell something only if this library alone has written the table. Its number of buckets never changes.
    """
    try:
        entry = read_slot(storage, folded_slot(config.raw) or 0)
        facts = entry.facts if isinstance(entry, Properties) else None
        if facts is None or facts.index != "simple_bucket" or not commits.is_ours_alone(timeline):
            return None
        return tuple(np.unique(engine_of(facts).numbers(pa.array(keys, pa.string()))).tolist())
    except (Corrupt, Unsupported) as error:
        logger.warning("the buckets of record keys are not known: %s", error)
        return None


def in_buckets(slices: SliceColumns, buckets: tuple[int, ...]) -> Flags:
    """Return which slices are of one of some buckets.

    A slice whose file id names no bucket may be of any.
    """
    file_ids = slices.files.rows["file_id"].take(pa.array(slices.firsts))
    named = pc.utf8_slice_codeunits(file_ids, 0, BUCKET_DIGITS)
    wanted = pc.is_in(named, pa.array([f"{bucket:0{BUCKET_DIGITS}}" for bucket in buckets], pa.string()))
    is_bucket = pc.match_substring_regex(named, f"^[0-9]{{{BUCKET_DIGITS}}}$")
    return np.asarray(pc.or_(wanted, pc.invert(is_bucket)), bool)


def values_by_index(
    storage: Storage, condition: Condition, config: TableConfig, schema: pa.Schema
) -> dict[str, tuple[str, ...]]:
    """Return the values that a condition allows in indexed columns, by the index's name.

    `schema` holds the table's columns, without meta columns.
    """
    names = [name for name in config.metadata_partitions if is_secondary(name)]
    if not condition.fixed or not names:
        return {}
    found = {}
    try:
        definitions = load_index_definitions(storage)
    except Corrupt as error:
        logger.warning("secondary indexes are not used: %s", error)
        return {}
    for name in names:
        try:
            column = secondary_columns([name], schema, config, definitions)[name]
        except Unsupported:
            continue  # an index that only Apache Hudi maintains
        values = fixed_texts(condition, column, schema)
        if values is not None:
            found[name] = values
    return found


def fixed_texts(condition: Condition, column: str, schema: pa.Schema) -> tuple[str, ...] | None:
    """Return the only texts that matching rows can have in a column; None: any text.

    The column holds texts or whole numbers; numbers are returned as they are printed.
    """
    values = condition.fixed.get(column)
    if values is None or column not in schema.names or len(values) > KEYS_MAX:
        return None
    return tuple(dict.fromkeys(map(str, values)))
