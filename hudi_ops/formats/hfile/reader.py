"""Read HFiles, the sorted entries of the metadata table: whole, by keys or by prefixes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.formats.hfile.entries import Entries, decode_index, is_ascending, row_of, split_entries
from hudi_ops.formats.hfile.frame import DATA, FILE_INFO, INDEX, decode_hfile_block, fail
from hudi_ops.formats.hfile.trailer import LAST_KEY, TRAILER_BYTES, decode_info, decode_trailer
from hudi_ops.formats.hfile.writer import write_hfile
from hudi_ops.formats.large_arrays import as_bytes, joined

__all__ = ["HFile", "HFileReader", "read_hfile", "write_hfile"]

_TAIL_BYTES: Final = 1 << 16
"""Bytes read first: trailer, file info and index, and all of a small file."""
_GAP_BYTES: Final = 1 << 16
"""Largest gap that is read along, rather than splitting a request."""
_READ_BYTES: Final = 1 << 23
_CHUNK_BYTES: Final = 1 << 25


@dataclass(frozen=True)
class HFile:
    """Entries of an HFile.

    Attributes:
        keys: sorted by unsigned bytes; `large_binary` where they take 2 GiB or more.
        values: one for each key, likewise.
    """

    keys: pa.BinaryArray | pa.LargeBinaryArray
    values: pa.BinaryArray | pa.LargeBinaryArray
    info: Mapping[str, bytes]

    def __len__(self) -> int:
        return len(self.keys)


def read_hfile(data: bytes | pa.Buffer, path: str) -> HFile:
    """Read a whole HFile (docs/format §13).

    Raises:
        Corrupt: it does not follow the format; names the offset.
        Unsupported: it has another major version, a codec other than GZ, an index of several levels, or is encrypted.
    """
    return HFileReader(pa.BufferReader(data), path).read()


class HFileReader:
    """HFile of which only requested blocks are read; trailer, index and file info at once.

    Args:
        start: where the file begins in the source; it is not 0 in a log block.
        size_bytes: of the file; None: up to the source's end.

    Attributes:
        info: the writer's file info, by key.

    Raises:
        Corrupt: the file does not follow the format; names the offset.
        Unsupported: it has another major version, a codec other than GZ, an index of several levels, or is encrypted.

    Source: docs/format §13.
    """

    def __init__(self, source: pa.NativeFile, path: str, start: int = 0, size_bytes: int | None = None) -> None:
        self._source = source
        self._path = path
        self._start = start
        self._size_bytes = int(source.size()) - start if size_bytes is None else size_bytes
        trailer_at = self._size_bytes - TRAILER_BYTES
        if trailer_at < 0:
            fail(path, 0, f"{self._size_bytes} bytes", f"a trailer of {TRAILER_BYTES} bytes")
        self._tail_at = max(0, self._size_bytes - _TAIL_BYTES)
        self._tail = self._read(self._tail_at, self._size_bytes - self._tail_at)
        end = decode_trailer(self._bytes(trailer_at, TRAILER_BYTES), trailer_at, path)
        self._codec = end.codec
        self.entries = end.entries
        at = end.load_on_open
        opened = self._bytes(at, trailer_at - at)
        index, index_bytes = decode_hfile_block(opened, at, INDEX, self._codec, path)
        # The index of meta blocks is not used here, but every reader requires it.
        decode_hfile_block(opened[index_bytes : end.file_info - at], at + index_bytes, INDEX, self._codec, path)
        info, _ = decode_hfile_block(opened[end.file_info - at :], end.file_info, FILE_INFO, self._codec, path)
        self.info: Mapping[str, bytes] = MappingProxyType(decode_info(info, end.file_info, path))
        self._blocks = decode_index(index, end.data_blocks, at, path)
        self._firsts = [block.key for block in self._blocks]
        if last := self.info.get(LAST_KEY):  # empty in an empty file
            row_of(last, end.file_info, path)  # A file that contradicts itself is not read.

    def read(self) -> HFile:
        """Read all entries.

        Raises:
            Corrupt: a data block does not follow the format.
        """
        found = self._gather(range(len(self._blocks)), lambda keys: None)
        if len(found) != self.entries:
            expected = f"{self.entries}, as the trailer says"
            fail(self._path, self._size_bytes - TRAILER_BYTES, f"{len(found)} entries", expected)
        return found

    def lookup(self, keys: pa.Array) -> HFile:
        """Read the entries with these keys (text or bytes, sorted by bytes, unique).

        Only data blocks that may hold one are read.

        Raises:
            Corrupt: a data block does not follow the format.
        """
        wanted = as_bytes(keys)

        def found(held: pa.BinaryArray) -> np.ndarray:
            low, high = _place(wanted, held[0].as_py()), _place(wanted, held[-1].as_py() + b"\x00")
            near = wanted.slice(low, high - low)
            return np.flatnonzero(pc.is_in(held, value_set=near).to_numpy(zero_copy_only=False))

        return self._gather(self._blocks_of(wanted), found)

    def prefixes(self, prefixes: Sequence[bytes]) -> HFile:
        """Read the entries whose keys begin with one of these prefixes, given in any order.

        Only data blocks that may hold one are read.

        Raises:
            Corrupt: a data block does not follow the format.
        """
        ranges = [(prefix, _behind(prefix)) for prefix in sorted(set(prefixes))]
        needed = np.zeros(len(self._blocks), bool)
        for low, high in ranges:
            first = max(0, bisect_right(self._firsts, low) - 1)
            needed[first : None if high is None else bisect_left(self._firsts, high)] = True

        def found(held: pa.BinaryArray) -> np.ndarray:
            is_in = np.zeros(len(held), bool)
            for low, high in ranges:
                is_in[_place(held, low) : None if high is None else _place(held, high)] = True
            return np.flatnonzero(is_in)

        return self._gather(np.flatnonzero(needed).tolist(), found)

    def _blocks_of(self, wanted: pa.BinaryArray) -> Sequence[int]:
        """Return the numbers of the data blocks whose key range holds a wanted key."""
        if len(wanted) <= len(self._firsts):
            places = {bisect_right(self._firsts, key) - 1 for key in wanted.to_pylist()}
            return sorted(places - {-1})
        edges = [*(_place(wanted, first) for first in self._firsts), len(wanted)]
        return np.flatnonzero(np.diff(edges)).tolist() if self._firsts else []

    def _gather(self, numbers: Sequence[int], pick: Callable[[pa.BinaryArray], np.ndarray | None]) -> HFile:
        """Return entries of data blocks: the positions that `pick` gives, or all for None."""
        keys: list[pa.Array] = []
        values: list[pa.Array] = []
        for some, payloads in self._payloads(numbers):
            entries, held = self._split(some, payloads)
            wanted = pick(held)
            keys.append(held if wanted is None else held.take(pa.array(wanted)))
            values.append(entries.values(wanted))
        return HFile(joined(keys, pa.binary()), joined(values, pa.binary()), self.info)

    def _split(self, numbers: list[int], payloads: list[bytes]) -> tuple[Entries, pa.BinaryArray]:
        blocks = [self._blocks[number] for number in numbers]
        entries = split_entries(payloads, [block.offset for block in blocks], self._path)
        keys = entries.keys()
        # `read` would find a key that lies in another block than the index says, and `lookup` would not.
        starts = np.concatenate([np.zeros(1, np.int64), entries.behind[:-1]])
        least, greatest = keys.take(pa.array(starts)), keys.take(pa.array(entries.behind - 1))
        limits = [self._firsts[number + 1] if number + 1 < len(self._firsts) else None for number in numbers]
        is_good = pc.greater_equal(least, pa.array([block.key for block in blocks], pa.binary()))
        is_good = pc.and_(is_good, pc.less(greatest, pa.array(limits, pa.binary())).fill_null(True))
        if not pc.all(is_good).as_py():
            at = blocks[is_good.index(False).as_py()].offset
            fail(self._path, at, "a key that is not where the index says", "keys between those of the index")
        if not is_ascending(keys, strictly=False):
            fail(self._path, blocks[0].offset, "keys that do not ascend, here or in later blocks", "sorted keys")
        return entries, keys

    def _payloads(self, numbers: Sequence[int]) -> Iterator[tuple[list[int], list[bytes]]]:
        """Yield data blocks without their frames, some megabytes at a time."""
        held: list[int] = []
        payloads: list[bytes] = []
        size_bytes = 0
        for run in self._runs(numbers):
            begin = self._blocks[run[0]].offset
            data = self._bytes(begin, self._blocks[run[-1]].end - begin)
            for number in run:
                block = self._blocks[number]
                body = data[block.offset - begin : block.end - begin]
                payload, used = decode_hfile_block(body, block.offset, DATA, self._codec, self._path)
                if used != block.size_bytes or not payload:
                    found = f"a data block of {used} bytes that holds {len(payload)}"
                    fail(self._path, block.offset, found, f"{block.size_bytes} bytes, as the index says")
                held.append(number)
                payloads.append(payload)
                size_bytes += len(payload)
                if size_bytes >= _CHUNK_BYTES:
                    yield held, payloads
                    held, payloads, size_bytes = [], [], 0
        if held:
            yield held, payloads

    def _runs(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Yield the numbers of data blocks that are read together."""
        run: list[int] = []
        for number in numbers:
            block = self._blocks[number]
            if run:
                gap = block.offset - self._blocks[run[-1]].end
                if gap > _GAP_BYTES or block.end - self._blocks[run[0]].offset > _READ_BYTES:
                    yield run
                    run = []
            run.append(number)
        if run:
            yield run

    def _bytes(self, at: int, length: int) -> memoryview:
        if at >= self._tail_at:
            return self._tail[at - self._tail_at : at - self._tail_at + length]
        return self._read(at, length)

    def _read(self, at: int, length: int) -> memoryview:
        read: bytes = self._source.read_at(length, self._start + at)
        if len(read) != length:
            fail(self._path, at, f"{len(read)} bytes", f"{length} bytes: the file has become shorter")
        return memoryview(read)


def _place(keys: pa.BinaryArray, key: bytes) -> int:
    """Return the number of sorted keys that are less than a key."""
    return bisect_left(range(len(keys)), key, key=lambda place: keys[place].as_py())


def _behind(prefix: bytes) -> bytes | None:
    """Return the smallest key above all keys with this prefix, or None."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
