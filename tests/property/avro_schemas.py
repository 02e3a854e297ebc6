"""Random Avro schemas with rows for them, as fastavro takes them, and Arrow's values in that same raw form.

Raw means without logical types: dates and times are numbers, decimals their bytes; so nothing is lost on the way to Python.
"""

from __future__ import annotations

import io
import itertools
import struct
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTS = st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70)
LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70) | st.sampled_from([2**n for n in range(63)])
SINGLES = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)
LOGICAL = {
    ("int", "date"): INTS,
    ("int", "time-millis"): st.integers(0, 86_399_999),
    ("long", "time-micros"): st.integers(0, 86_399_999_999),
    ("long", "timestamp-millis"): LONGS,
    ("long", "timestamp-micros"): LONGS,
    ("long", "timestamp-nanos"): LONGS,
    ("long", "local-timestamp-millis"): LONGS,
    ("long", "local-timestamp-micros"): LONGS,
    ("string", "uuid"): TEXT,
}
PLAIN = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": SINGLES,
    "double": DOUBLES,
    "string": TEXT,
    "bytes": st.binary(max_size=12),
}
Typed = tuple[Any, st.SearchStrategy[Any]]


def _primitive() -> st.SearchStrategy[Typed]:
    plain = st.sampled_from(list(PLAIN.items()))
    logical = st.sampled_from([
        ({"type": kind, "logicalType": name}, values) for (kind, name), values in LOGICAL.items()
    ])
    return plain | logical


@st.composite
def _decimal(draw: st.DrawFn, name: str) -> Typed:
    precision = draw(st.integers(1, 50))
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    scale = draw(st.integers(0, precision))
    logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
    least = (10**precision).bit_length() // 8 + 1
    if draw(st.booleans()):
        size = least + draw(st.integers(0, 20))
        kind = {"type": "fixed", "name": name, "size": size, **logical}
        return kind, unscaled.map(lambda one: one.to_bytes(size, "big", signed=True))
    return {"type": "bytes", **logical}, unscaled.map(minimal)


def minimal(unscaled: int) -> bytes:
    """As Java's BigInteger gives them."""
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


@st.composite
def types(draw: st.DrawFn, names: Any, depth: int) -> Typed:
    """An Avro type, and the strategy of its raw values."""
    shapes = ["primitive", "primitive", "nullable", "decimal", "enum", "fixed", "alone"]
    if depth:
        shapes += ["array", "map", "record", "nullable", "union"]
    shape = draw(st.sampled_from(shapes))
    if shape == "primitive":
        return draw(_primitive())
    if shape == "decimal":
        return draw(_decimal(next(names)))
    if shape == "enum":
        symbols = [f"S{n}" for n in range(draw(st.integers(1, 70)))]
        return {"type": "enum", "name": next(names), "symbols": symbols}, st.sampled_from(symbols)
    if shape == "fixed":
        size = draw(st.integers(0, 20))
        return {"type": "fixed", "name": next(names), "size": size}, st.binary(min_size=size, max_size=size)
    if shape == "alone":
        kind, values = draw(_primitive())
        return [kind], values
    if shape == "union":
        # Not long beside double: fastavro picks the branch by value, and a whole number may be either.
        number = draw(st.sampled_from(["long", "double"]))
        branches = {name: PLAIN[name] for name in ("string", "boolean", "bytes", number)}
        chosen = draw(st.lists(st.sampled_from(sorted(branches)), min_size=2, unique=True))
        values = st.one_of([branches[name] for name in chosen])
        if draw(st.booleans()):
            chosen.insert(draw(st.integers(0, len(chosen))), "null")
            values |= st.none()
        return chosen, values
    if shape == "record":
        return draw(records(names, depth - 1))
    kind, values = draw(types(names, depth - 1).filter(lambda one: shape != "nullable" or not isinstance(one[0], list)))
    if shape == "nullable":
        return (["null", kind] if draw(st.booleans()) else [kind, "null"]), values | st.none()
    if shape == "array":
        return {"type": "array", "items": kind}, st.lists(values, max_size=4)
    return {"type": "map", "values": kind}, st.dictionaries(TEXT, values, max_size=3)


@st.composite
def records(draw: st.DrawFn, names: Any, depth: int, least: int = 0) -> Typed:
    """A record type, and the strategy of its raw values."""
    fields = draw(st.lists(types(names, depth), min_size=least, max_size=4))
    kind = {
        "type": "record",
        "name": next(names),
        "fields": [{"name": f"f{at}", "type": inner} for at, (inner, _) in enumerate(fields)],
    }
    return kind, st.fixed_dictionaries({f"f{at}": values for at, (_, values) in enumerate(fields)})


@st.composite
def schemas_and_rows(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A schema and raw rows of it."""
    names = (f"n{n}" for n in itertools.count())
    kind, values = draw(records(names, draw(st.integers(0, 3)), least=1))
    return kind, draw(st.lists(values, max_size=12))


def stripped(avro: Any) -> Any:
    """The schema without logical types."""
    if isinstance(avro, list):
        return [stripped(one) for one in avro]
    if not isinstance(avro, dict):
        return avro
    return {key: stripped(value) if key != "symbols" else value for key, value in avro.items() if key != "logicalType"}


def content_of(avro: dict[str, Any], rows: list[dict[str, Any]]) -> bytes:
    """The content of a block, by fastavro."""
    schema = fastavro.parse_schema(stripped(avro))
    parts = [struct.pack(">ii", 3, len(rows))]
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        parts.append(struct.pack(">i", out.tell()) + out.getvalue())
    return b"".join(parts)


def raw(values: pa.Array, avro: Any) -> list[Any]:
    """Arrow's values as fastavro would give them for the stripped schema."""
    kind = values.type
    if isinstance(avro, list):
        present = [one for one in avro if one != "null"]
        if len(present) == 1:
            return raw(values, present[0])
        return [one.as_py() for one in values]
    if isinstance(avro, dict) and isinstance(avro["type"], dict | list):
        return raw(values, avro["type"])
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return values.view(width).to_pylist()
    if pa.types.is_decimal(kind):
        unscaled = [None if one is None else int(one.scaleb(kind.scale)) for one in values.to_pylist()]
        if avro["type"] == "fixed":
            return [None if one is None else one.to_bytes(avro["size"], "big", signed=True) for one in unscaled]
        return [None if one is None else minimal(one) for one in unscaled]
    if pa.types.is_struct(kind):
        columns = [raw(values.field(at), field["type"]) for at, field in enumerate(avro["fields"])]
        names = [field["name"] for field in avro["fields"]]
        rows = zip(*columns, strict=True) if columns else ((),) * len(values)
        return [
            dict(zip(names, row, strict=True)) if ok.as_py() else None
            for row, ok in zip(rows, values.is_valid(), strict=True)
        ]
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        offsets = values.offsets.to_pylist()
        if pa.types.is_map(kind):
            items: list[Any] = list(zip(values.keys.to_pylist(), raw(values.items, avro["values"]), strict=True))
        else:
            items = raw(values.values, avro["items"])
        make = dict if pa.types.is_map(kind) else list
        pairs = zip(offsets[:-1], offsets[1:], values.is_valid(), strict=True)
        return [make(items[start:end]) if ok.as_py() else None for start, end, ok in pairs]
    return values.to_pylist()
