"""Probe a stored bloom filter for a few keys.

Of its base64 text, only the probed bytes are decoded.
"""

from __future__ import annotations

import binascii
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.formats.parquet import bloom, key_hashes

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_STRANGE: Final = 64
_SIX_BITS: Final = np.full(256, _STRANGE, np.uint32)
_SIX_BITS[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64)
_HEAD_TEXT_BYTES: Final = 20
"""Bytes of text that hold the header."""


def may_contain(type_code: str, text: bytes, keys: tuple[str, ...], path: str = "") -> npt.NDArray[np.bool_]:
    """Return a boolean for each key, as `BloomFilter.might_contain` of the decoded filter does.

    A damaged byte that is not probed is not noticed: it decides nothing.

    Raises:
        Corrupt: unknown type code, not base64, or bytes that are no filter of that type.
    """
    found = _probed(text, keys, path) if type_code == bloom.SIMPLE else None
    # Filters of several rows, padding in a probed place, and damage, which this decoding reports.
    return found if found is not None else bloom.decode_filter(type_code, text, path).might_contain(_array(keys))


def _probed(text: bytes, keys: tuple[str, ...], path: str) -> npt.NDArray[np.bool_] | None:
    try:
        head = binascii.a2b_base64(text[:_HEAD_TEXT_BYTES], strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    bits, hashes = bloom.read_header(head, 0, path)
    whole, rest = divmod(len(text), 4)
    if rest or whole * 3 - text[-2:].count(b"=") != bloom.HEADER_BYTES + (bits + 7) // 8:
        return None
    positions = _hashes_of(keys, hashes) % np.uint32(bits)
    groups, within = np.divmod(bloom.HEADER_BYTES + (positions >> np.uint32(3)), np.uint32(3))
    characters = np.frombuffer(text, np.uint8)[4 * groups[..., np.newaxis].astype(np.int64) + np.arange(4)]
    six_bits = _SIX_BITS[characters]
    if (six_bits == _STRANGE).any():
        return None
    values = np.bitwise_or.reduce(six_bits << np.array([18, 12, 6, 0], np.uint32), axis=-1)
    shifts = np.uint32(16) - np.uint32(8) * within + (positions & np.uint32(7))
    return np.asarray((values >> shifts & np.uint32(1)).all(axis=1), bool)


@lru_cache(maxsize=8)
def _hashes_of(keys: tuple[str, ...], hashes: int) -> npt.NDArray[np.uint32]:
    """Return the hashes of each key, a row a key.

    They are kept: the files of one read are asked for the same keys.
    """
    found = np.empty((len(keys), hashes), np.uint32)
    for chunk in key_hashes.text_chunks(_array(keys)):
        for numbers, of_rows in key_hashes.hashed(chunk, hashes):
            found[numbers] = np.stack(of_rows, axis=1)
    return found


def _array(keys: tuple[str, ...]) -> pa.Array:
    return pa.array(keys, pa.string())
