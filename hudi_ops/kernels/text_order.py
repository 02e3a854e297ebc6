"""Sort texts by their bytes, faster than Arrow where few bytes distinguish them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_WORD_BYTES = 8
_FEW = 4096
"""With fewer texts Arrow's own sorting is as fast."""


def ascending(texts: pa.StringArray | pa.LargeStringArray) -> npt.NDArray[np.int64]:
    """Return the positions of texts without nulls in the order of their bytes.

    Equal texts keep their order. The common prefix is skipped, and the eight bytes after it are compared as one number. Texts
    that are equal in these bytes are sorted by Arrow.
    """
    return _by_arrow(texts) if len(texts) < _FEW else _by_words(texts)


def _by_words(texts: pa.StringArray | pa.LargeStringArray) -> npt.NDArray[np.int64]:
    is_large = pa.types.is_large_string(texts.type)
    bounds = pc.min_max(texts.cast(pa.large_binary() if is_large else pa.binary()))
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    ends = zip(least, greatest, strict=False)
    shared = next((at for at, (low, high) in enumerate(ends) if low != high), min(len(least), len(greatest)))
    width = np.int64 if is_large else np.int32
    offsets = np.frombuffer(texts.buffers()[1], width)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + _WORD_BYTES, np.uint8)
    data[: last - first] = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[first:last]
    begins, lengths = offsets[:-1] - first + shared, np.diff(offsets) - shared
    overlapping = np.ndarray((len(data) - _WORD_BYTES + 1,), ">u8", data, strides=(1,))
    words = overlapping[begins].astype(np.uint64)
    missing = np.clip(_WORD_BYTES - lengths, 0, _WORD_BYTES)
    if missing.any():
        bits = (missing * 8).astype(np.uint64)
        words = np.where(missing >= _WORD_BYTES, np.uint64(0), (words >> bits) << bits)
    order: npt.NDArray[np.int64] = np.argsort(words, kind="stable")
    ordered = words[order]
    is_equal = ordered[1:] == ordered[:-1]
    is_tied = np.zeros(len(order), bool)
    is_tied[1:] |= is_equal
    is_tied[:-1] |= is_equal
    if is_tied.any():
        # Runs of equal words are already in order: sorted together, each run stays in its place.
        tied = order[is_tied]
        order[is_tied] = tied[_by_arrow(texts.take(pa.array(tied)))]
    return order


def _by_arrow(texts: pa.StringArray | pa.LargeStringArray) -> npt.NDArray[np.int64]:
    places: npt.NDArray[np.int64] = pc.sort_indices(texts).to_numpy().astype(np.int64)
    return places
