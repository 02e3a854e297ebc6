"""Find the record keys and indexed values that a condition allows.

A read skips the files that contain none of them.
"""

from __future__ import annotations

import logging
from itertools import product

import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Corrupt, HudiOpsError, Unsupported
from hudi_ops.kernels.condition import Condition
from hudi_ops.kernels.keys.keys import KeySpec, record_keys
from hudi_ops.metadata.definitions import secondary_columns
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import is_secondary
from hudi_ops.storage.protocol import Storage

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
