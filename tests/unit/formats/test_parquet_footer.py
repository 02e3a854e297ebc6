"""Base file footers: Hudi's key names, and what old and foreign files have."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.errors import Corrupt
from hudi_ops.formats.parquet import footer as parquet_footer
from hudi_ops.formats.parquet.bloom import BloomFilter
from hudi_ops.formats.parquet.footer import BaseFileFooter

BLOOM = BloomFilter.build(pa.array(["a", "\u00fc"]), capacity=10)
FULL = BaseFileFooter(BLOOM, "a", "\u00fc", '{"type":"record"}')


def _stored(values: dict[str, str]) -> dict[bytes, bytes]:
    """The values after a real Parquet file."""
    out = io.BytesIO()
    pq.write_table(pa.table({"c": [1]}).replace_schema_metadata(values), out)
    return pq.read_metadata(out).metadata


def test_footer_survives_a_parquet_file():
    values = parquet_footer.encode_footer(FULL)
    assert set(values) == {
        "org.apache.hudi.bloomfilter",
        "hoodie_bloom_filter_type_code",
        "hoodie_min_record_key",
        "hoodie_max_record_key",
        "parquet.avro.schema",
        "writer.model.name",
    }
    assert values["writer.model.name"] == "avro"
    assert parquet_footer.decode_footer(_stored(values)) == FULL


def test_nothing_in_nothing_out():
    nothing = BaseFileFooter(None, None, None, None)
    assert parquet_footer.encode_footer(nothing) == {}
    assert parquet_footer.decode_footer(None) == nothing
    assert parquet_footer.decode_footer({b"org.apache.spark.version": b"3.5.7"}) == nothing


@pytest.mark.parametrize("names", [(), ("price", "größe")])
def test_columns_with_nan_survive(names: tuple[str, ...]):
    footer = BaseFileFooter(None, None, None, None, nan_columns=names)
    assert parquet_footer.decode_footer(_stored(parquet_footer.encode_footer(footer))) == footer
    assert set(parquet_footer.encode_footer(footer)) == {"hudi_ops.nan_columns"}


def test_empty_keys_are_keys():
    footer = BaseFileFooter(None, "", "", None)
    assert parquet_footer.decode_footer(_stored(parquet_footer.encode_footer(footer))) == footer


def test_name_from_before_apache_is_read_as_simple():
    text = BLOOM.encode()[1].encode()
    assert parquet_footer.decode_footer({b"com.uber.hoodie.bloomfilter": text}).bloom == BLOOM


@pytest.mark.parametrize(
    "values",
    [
        {b"hoodie_min_record_key": b"\xff"},
        {b"org.apache.hudi.bloomfilter": b"####"},
        {b"org.apache.hudi.bloomfilter": b""},
    ],
)
def test_damage_names_the_file(values):
    with pytest.raises(Corrupt, match=r"f\.parquet"):
        parquet_footer.decode_footer(values, "f.parquet")


@pytest.mark.parametrize(
    ("low", "high", "key", "expected"),
    [
        ("b", "d", "c", True),
        ("b", "d", "a", False),
        ("b", "d", "😀", False),
        ("b", "é", "日本", False),
        # In UTF-16 the first sorts below the second, in UTF-8 above it: such a range proves nothing.
        ("😀", "\ufffd", "😀", True),
        ("😀", "\ufffd", "a", True),
        ("a", "\ufffd", "😀", True),
        (None, None, "a", True),
    ],
)
def test_a_key_range_is_believed_where_both_orders_agree(
    low: str | None, high: str | None, key: str, expected: bool
) -> None:
    assert BaseFileFooter(None, low, high, None).might_hold(pa.array([key])) is expected


def test_the_filter_is_asked_of_the_keys_inside_the_range() -> None:
    footer = BaseFileFooter(BloomFilter.build(pa.array(["b", "c"]), capacity=64, fpp=1e-9), "b", "c", None)
    assert footer.might_hold(pa.array(["a", "c"]))
    assert not footer.might_hold(pa.array(["a", "d", "bb"]))
    assert not footer.might_hold(pa.array([], pa.string()))
