"""Log files of the metadata table: an HFile, deleted keys, or an empty first block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from hudi_ops.errors import Internal, Unsupported
from hudi_ops.formats import large_arrays
from hudi_ops.formats.hfile.frame import fail
from hudi_ops.formats.hfile.reader import HFile, HFileReader, write_hfile
from hudi_ops.formats.large_arrays import byte_lengths, data_bytes, in_pieces, runs
from hudi_ops.formats.log.blocks import BlockKind, BlockSpan, HeaderKey, encode_block, scan_blocks
from hudi_ops.formats.log.deletes import Deletes, decode_deletes, encode_deletes

Bytes: TypeAlias = bytes | pa.Buffer

DELETE_BYTES: Final = 16
"""Bound of a deleted key's bytes in a block, besides key and partition."""


def encode_metadata_log(
    keys: pa.Array,
    values: pa.Array,
    deletes: Sequence[str] | pa.Array,
    instant: str,
    schema: str,
    partition: str,
) -> bytes:
    """Encode a log file of the metadata table; equal arguments give equal bytes.

    Content of 2 GiB or more before compression becomes several blocks.

    Args:
        keys: record keys, text or bytes, strictly ascending by unsigned bytes.
        instant: request time of the delta commit that writes the file.
        partition: of the metadata table, which deletes name.

    Raises:
        Internal: nulls, keys that do not ascend, or neither keys nor deletes.
        InvalidRequest: a key or a value is too long.

    Source: docs/format §13.6.
    """
    headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema}
    blocks = []
    for low, high in _of_one_block(keys, values):
        body = write_hfile(keys.slice(low, high - low), values.slice(low, high - low), schema=None)
        blocks.append(encode_block(BlockKind.HFILE_DATA, headers, body))
    if len(deletes):
        removed = deletes if isinstance(deletes, pa.Array) else pa.array(deletes, pa.string())
        parts = in_pieces(removed, each_bytes=DELETE_BYTES + len(partition))
        contents = [encode_deletes(Deletes(part, None), partition) for part in parts]
        blocks += [encode_block(BlockKind.DELETE, headers, content) for content in contents]
    if not blocks:
        raise Internal(
            "A log file of the metadata table would be empty",
            instant=instant,
            expected="new values or deleted keys",
            next_step="report it",
        )
    return b"".join(blocks)


def _of_one_block(keys: pa.Array, values: pa.Array) -> list[tuple[int, int]]:
    """Return ranges of entries per block: Java loads a block as an array, below 2 GiB."""
    if not len(keys):
        return []
    if data_bytes(keys) + data_bytes(values) <= large_arrays.ARRAY_BYTES_MAX:
        return [(0, len(keys))]
    return runs(byte_lengths(keys) + byte_lengths(values), large_arrays.ARRAY_BYTES_MAX)


def encode_empty_init_log(instant: str) -> bytes:
    """Encode an empty first log file of a metadata table's file group (docs/format §13.6).

    It is a list of deletes without entries.
    """
    none = Deletes(pa.array([], pa.string()), None)
    return encode_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: instant}, encode_deletes(none, ""))


def read_metadata_log(
    data: Bytes, path: str, visible: Callable[[str], bool]
) -> list[tuple[str, HFile | pa.StringArray]]:
    """Read a log file of the metadata table (docs/format §13.6).

    Args:
        visible: whether the blocks of an instant count; others are not decoded.

    Returns:
        Instant and entries, or instant and deleted keys, of the blocks in their order. Damaged stretches are left out, as by
        Apache Hudi.

    Raises:
        Corrupt: a block that is whole does not follow the format.
        Unsupported: a block that counts is of another kind, or was made by a log compaction.
    """
    found = open_metadata_log(pa.BufferReader(data), path, visible)
    return [
        (block.instant, block.held.read() if isinstance(block.held, HFileReader) else block.held) for block in found
    ]


@dataclass(frozen=True)
class MetadataBlock:
    """Block of a metadata table's log file.

    Attributes:
        instant: of the delta commit that wrote it.
        headers: of the block; SCHEMA among them is that of the values.
        held: an opened HFile, or deleted keys.
    """

    instant: str
    headers: Mapping[HeaderKey, str]
    held: HFileReader | pa.StringArray


def open_metadata_log(source: pa.NativeFile, path: str, visible: Callable[[str], bool]) -> list[MetadataBlock]:
    """Open the blocks that `read_metadata_log` reads, for lookups in large HFiles."""
    found = []
    for block in scan_blocks(source, path):
        if block.kind is BlockKind.CORRUPT or not visible(block.headers[HeaderKey.INSTANT_TIME]):
            continue
        found.append(MetadataBlock(block.headers[HeaderKey.INSTANT_TIME], block.headers, _open(source, block, path)))
    return found


def _open(source: pa.NativeFile, block: BlockSpan, path: str) -> HFileReader | pa.StringArray:
    if HeaderKey.COMPACTED_BLOCK_TIMES in block.headers:
        fail(path, block.offset, "a block of a log compaction", "blocks of their own instant", Unsupported)
    if block.kind is BlockKind.HFILE_DATA:
        return HFileReader(source, path, block.content_offset, block.content_bytes)
    if block.kind is not BlockKind.DELETE:
        fail(path, block.offset, f"a block {block.kind.name}", "an HFile or deletes", Unsupported)
    content = source.read_at(block.content_bytes, block.content_offset)
    keys = [run.keys for run in decode_deletes(content, path)]
    return pa.concat_arrays(keys) if keys else pa.array([], pa.string())
