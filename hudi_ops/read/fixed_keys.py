"""Find the record keys that a condition allows; files that exclude all of them are not read."""

from __future__ import annotations

from itertools import product

import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import HudiOpsError
from hudi_ops.kernels.condition import Condition
from hudi_ops.kernels.keys.keys import KeySpec, record_keys

KEYS_MAX = 1000
"""With more keys than these, most files hold one of them."""

_PLAIN_GENERATORS = frozenset({"SIMPLE", "COMPLEX", "NON_PARTITION"})


def fixed_keys(condition: Condition, config: TableConfig, schema: pa.Schema) -> tuple[str, ...] | None:
    """Record keys of which every row that passes has one; None when any key is possible."""
    named = condition.fixed.get(RECORD_KEY)
    if named is not None and all(isinstance(value, str) for value in named):
        return tuple(dict.fromkeys(named)) if len(named) <= KEYS_MAX else None
    fields = config.record_key_fields
    if not fields or config.key_generator not in _PLAIN_GENERATORS or not config.populate_meta_fields:
        return None
    lists = [condition.fixed.get(name, ()) for name in fields]
    count = 1
    for name, values in zip(fields, lists, strict=True):
        count *= len(values)
        if name not in schema.names or not all(_is_exact(value, schema.field(name).type) for value in values):
            return None
    if not 0 < count <= KEYS_MAX:
        return None
    # Releases differ in whether such a key names its field, and no upgrade of a table changes its keys: either may be there.
    is_either = config.key_generator == "COMPLEX" and len(fields) == 1
    namings = (True, False) if is_either else (config.encodes_key_names,)
    columns = zip(*product(*lists), strict=True)
    try:
        rows = pa.table({
            name: pa.array(column, schema.field(name).type) for name, column in zip(fields, columns, strict=True)
        })
        found = [key for names in namings for key in record_keys(rows, KeySpec(fields, names)).to_pylist()]
    except (pa.ArrowInvalid, OverflowError, HudiOpsError):
        return None  # a value that can be no key: the condition itself will find no row
    return tuple(dict.fromkeys(found))


def _is_exact(value: object, kind: pa.DataType) -> bool:
    """Whether the column equals the value only where its key prints so: texts and whole numbers."""
    if isinstance(value, str):
        return bool(pa.types.is_string(kind))
    return isinstance(value, int) and not isinstance(value, bool) and bool(pa.types.is_integer(kind))
