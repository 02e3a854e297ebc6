"""HFiles of any entries: written and read again, looked up, and read in the ways of other writers."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from hudi_ops.formats.hfile.reader import HFile, HFileReader, read_hfile, write_hfile
from tests.bounds import examples
from tests.unit.formats.hand_made_hfile import GZ, NONE, SUFFIX, hand_made

PATH = "f-0.hfile"
EXAMPLES = settings(max_examples=examples(80))
BYTES = st.binary(max_size=12) | st.sampled_from([b"\xff", b"\xff\xff", b"\x00", SUFFIX, b"k" * 130, b"k" * 300])
ROWS = st.dictionaries(BYTES, BYTES | st.binary(max_size=400), max_size=40)
BLOCK_BYTES = st.sampled_from([1, 40, 200, 1000, 1 << 16])


def arrays(rows: dict[bytes, bytes]) -> tuple[pa.Array, pa.Array]:
    keys = sorted(rows)
    return pa.array(keys, pa.binary()), pa.array([rows[key] for key in keys], pa.binary())


def plain(found: HFile) -> list[tuple[bytes, bytes]]:
    found.keys.validate(full=True)
    found.values.validate(full=True)
    return list(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True))


@EXAMPLES
@given(ROWS, BLOCK_BYTES, st.none() | st.text(max_size=20))
def test_what_is_written_is_read(rows, block_bytes, schema):
    keys, values = arrays(rows)
    data = write_hfile(keys, values, schema=schema, block_bytes=block_bytes)
    assert data == write_hfile(keys, values, schema=schema, block_bytes=block_bytes)
    assert plain(read_hfile(data, PATH)) == sorted(rows.items())


@EXAMPLES
@given(
    ROWS, st.integers(1, 7), st.sampled_from([GZ, NONE]), st.sampled_from([SUFFIX, b""]), st.sampled_from([SUFFIX, b""])
)
def test_what_others_write_is_read(rows, per_block, codec, suffix, index_suffix):
    data = hand_made(sorted(rows.items()), per_block, suffix=suffix, codec=codec, index_suffix=index_suffix).bytes()
    assert plain(read_hfile(data, PATH)) == sorted(rows.items())


@EXAMPLES
@given(ROWS, BLOCK_BYTES, st.data())
def test_lookups_and_prefixes_are_filters(rows, block_bytes, data):
    keys, values = arrays(rows)
    reader = HFileReader(pa.BufferReader(write_hfile(keys, values, schema=None, block_bytes=block_bytes)), PATH)
    known = st.sampled_from(sorted(rows)) if rows else BYTES
    wanted = data.draw(st.sets(known | BYTES, max_size=60))
    assert plain(reader.lookup(pa.array(sorted(wanted), pa.binary()))) == sorted(
        (key, value) for key, value in rows.items() if key in wanted
    )
    prefixes = data.draw(st.lists((known | BYTES).map(lambda key: key[: len(key) // 2 + 1]), max_size=5))
    assert plain(reader.prefixes(prefixes)) == sorted(
        (key, value) for key, value in rows.items() if key.startswith(tuple(prefixes))
    )
