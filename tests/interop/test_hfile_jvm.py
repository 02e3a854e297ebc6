"""Metadata tables whose every HFile is ours, base files and log blocks: Apache Hudi and the `hudi` package work by them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_ops.formats.hfile.reader import HFile, read_hfile, write_hfile
from hudi_ops.formats.hfile.writer import BLOCK_BYTES
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey, encode_block, scan_blocks
from hudi_ops.formats.log.hfile_blocks import encode_empty_init_log, encode_metadata_log, read_metadata_log
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.expected import load_expected

ReadTable = Callable[..., pa.Table]
Keep = Callable[[str, HFile], HFile]

BY_METADATA = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
TABLES = ("v9_record_index_bloom_filters", "v9_txns_simple_meta_mor", "v8_trips_8i3u1d_mor")
COMPACTING = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.table.timeline.timezone": "LOCAL",
}
"""Writes keep the metadata table, and compact our log blocks and base files into HFiles of their own."""


class Rewritten(NamedTuple):
    """How many files of each kind became ours."""

    base_files: int
    logs: int
    init_logs: int


def everything(_: str, held: HFile) -> HFile:
    return held


def rewrite(table: Path, keep: Keep = everything, block_bytes: int = BLOCK_BYTES) -> Rewritten:
    """Every HFile of the table's metadata table as ours, under its name."""
    counts = {"hfile": 0, "log": 0, "init": 0}
    metadata = table / ".hoodie" / "metadata"
    for file in sorted(metadata.rglob("*")):
        is_log = ".log." in file.name
        if not file.is_file() or ".hoodie" in file.relative_to(metadata).parts or file.suffix == ".crc":
            continue
        if not is_log and file.suffix != ".hfile":
            continue
        body = file.read_bytes()
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        if is_log:
            ours = log_as_ours(body, file, keep, block_bytes)
            counts["init" if len(body) == 80 else "log"] += 1
            assert (ours == body) or len(body) != 80
        else:
            held = keep(file.parent.name, read_hfile(body, file.name))
            schema = held.info["schema"].decode()
            ours = write_hfile(held.keys, held.values, schema=schema, block_bytes=block_bytes)
            counts["hfile"] += 1
        file.write_bytes(ours)
    return Rewritten(counts["hfile"], counts["log"], counts["init"])


def log_as_ours(body: bytes, file: Path, keep: Keep, block_bytes: int) -> bytes:
    blocks = scan_blocks(pa.BufferReader(body), file.name)
    parts = []
    for block, (instant, held) in zip(blocks, read_metadata_log(body, file.name, lambda _: True), strict=True):
        schema = block.headers.get(HeaderKey.SCHEMA)
        if schema is None:
            parts.append(encode_empty_init_log(instant))
        elif not isinstance(held, HFile):
            parts.append(
                encode_metadata_log(
                    pa.array([], pa.string()), pa.array([], pa.binary()), held, instant, schema, "record_index"
                )
            )
        else:
            kept = keep(file.parent.name, held)
            content = write_hfile(kept.keys, kept.values, schema=None, block_bytes=block_bytes)
            if block_bytes == BLOCK_BYTES and len(kept):
                parts.append(encode_metadata_log(kept.keys, kept.values, [], instant, schema, "record_index"))
            else:
                parts.append(encode_block(BlockKind.HFILE_DATA, block.headers, content))
    return b"".join(parts)


def without(partition: str, key: bytes) -> Keep:
    """Drops one key of a partition of the metadata table."""

    def keep(name: str, held: HFile) -> HFile:
        if name != partition:
            return held
        kept = pc.not_equal(held.keys, pa.scalar(key, pa.binary()))
        return HFile(held.keys.filter(kept), held.values.filter(kept), held.info)

    return keep


def with_long_keys(name: str, held: HFile) -> HFile:
    """Adds keys of 200 bytes to the record index, before, between and behind those that are there."""
    if name != "record_index" or not len(held):
        return held
    long = pa.array([start + b"-%03d-" % n + b"x" * 193 for start in (b"a", b"k0007", b"z") for n in range(20)])
    keys = pa.concat_arrays([held.keys, long])
    values = pa.concat_arrays([held.values, pa.array([held.values[0].as_py()] * len(long), pa.binary())])
    order = pc.sort_indices(keys)
    return HFile(keys.take(order), values.take(order), held.info)


@pytest.fixture
def copied(tmp_path: Path, hudi_fixtures: Callable[[str], Path]) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(hudi_fixtures(name), tmp_path / name))


@pytest.mark.parametrize(("name", "block_bytes"), [*((name, BLOCK_BYTES) for name in TABLES), (TABLES[0], 100)])
def test_both_readers_read_by_our_hfiles(
    name: str, block_bytes: int, copied: Callable[[str], Path], apache_hudi: HudiPeer, hudi_rs: ReadTable
) -> None:
    table = copied(name)
    made = rewrite(table, block_bytes=block_bytes)
    assert made.base_files
    assert made.logs
    assert made.init_logs
    expected = load_expected(name)
    assert_same_rows(hudi_rs(table), expected, with_meta=True)
    assert_same_rows(apache_hudi.read(table, options=BY_METADATA), expected, with_meta=True)


def test_what_our_hfiles_lack_no_reader_finds(
    copied: Callable[[str], Path], apache_hudi: HudiPeer, hudi_rs: ReadTable
) -> None:
    """So the tests beside this one do not read by listing folders."""
    name = "v9_record_index_bloom_filters"
    table = copied(name)
    rewrite(table, without("files", b"p=a"))
    expected = load_expected(name)
    left = expected.filter(pc.not_equal(expected.column("p"), pa.scalar("a")))
    assert 0 < left.num_rows < expected.num_rows
    assert_same_rows(hudi_rs(table), left, with_meta=True)
    assert_same_rows(apache_hudi.read(table, options=BY_METADATA), left, with_meta=True)


@pytest.mark.parametrize(
    ("keep", "block_bytes", "ids"),
    [
        (everything, BLOCK_BYTES, ["k0007"]),
        (with_long_keys, BLOCK_BYTES, ["k0007"]),
        (with_long_keys, 400, ["k0007"]),
        (without("record_index", b"k0007"), BLOCK_BYTES, []),
    ],
    ids=["as it was", "long keys", "long keys in many blocks", "without the key"],
)
def test_apache_hudi_finds_a_key_by_our_record_index(
    keep: Keep, block_bytes: int, ids: list[str], copied: Callable[[str], Path], apache_hudi: HudiPeer
) -> None:
    table = copied("v9_record_index_bloom_filters")
    rewrite(table, keep, block_bytes)
    assert apache_hudi.read(table, where="id = 'k0007'", options=BY_METADATA).column("id").to_pylist() == ids


def test_release_1_0_reads_by_our_hfiles_and_compacts_them(
    copied: Callable[[str], Path], apache_hudi_1_0: HudiPeer
) -> None:
    table = copied("v8_trips_8i3u1d_mor")
    rewrite(table)
    expected = load_expected("v8_trips_8i3u1d_mor")
    assert_same_rows(apache_hudi_1_0.read(table, options=BY_METADATA), expected, with_meta=True)
    data = expected.drop_columns([name for name in expected.column_names if name.startswith("_hoodie_")])
    before = set((table / ".hoodie" / "metadata").rglob("*.hfile"))
    apache_hudi_1_0.write(table, data, options={**COMPACTING, "hoodie.index.type": "RECORD_INDEX"})
    assert {file.parent.name for file in set((table / ".hoodie" / "metadata").rglob("*.hfile")) - before} >= {"files"}
    assert_same_rows(apache_hudi_1_0.read(table, options=BY_METADATA), expected)


def test_apache_hudi_writes_by_our_record_index_and_compacts_our_hfiles(
    copied: Callable[[str], Path], apache_hudi: HudiPeer, hudi_rs: ReadTable
) -> None:
    name = "v9_record_index_bloom_filters"
    table = copied(name)
    rewrite(table)
    expected = load_expected(name)
    known = expected.select(["id", "p", "v", "ts"]).sort_by("id").slice(0, 7)
    changed = known.set_column(2, "v", pa.array([77] * 7, pa.int32())).set_column(3, "ts", pa.array([9000] * 7))
    theirs_before = set((table / ".hoodie" / "metadata").rglob("*.hfile"))
    options = {**COMPACTING, "hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.index.bloom.filter.enable": "true"}
    apache_hudi.write(table, changed, options=options)
    compacted = set((table / ".hoodie" / "metadata").rglob("*.hfile")) - theirs_before
    assert {file.parent.name for file in compacted} >= {"files", "column_stats", "record_index"}
    rest = expected.select(["id", "p", "v", "ts"]).sort_by("id").slice(7)
    after = pa.concat_tables([changed, rest]).cast(rest.schema)
    assert_same_rows(hudi_rs(table), after)
    assert_same_rows(apache_hudi.read(table, options=BY_METADATA), after)
