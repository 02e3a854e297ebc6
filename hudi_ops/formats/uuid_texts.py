"""Write UUIDs as text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
_DASHES = (8, 13, 18, 23)
_LENGTH = 36


def uuid_texts(values: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Return 16 bytes each as the text of a UUID, in lower case with dashes."""
    plain = pa.concat_arrays([values]) if values.offset else values
    count, content = len(plain), plain.buffers()[1]
    numbers = np.frombuffer(content, np.uint8, count * 16) if content is not None and count else np.empty(0, np.uint8)
    texts = np.full((count, _LENGTH), ord("-"), np.uint8)
    texts[:, [at for at in range(_LENGTH) if at not in _DASHES]] = _HEX[numbers].reshape(count, 32)
    offsets = np.arange(count + 1, dtype=np.int64) * _LENGTH
    whole = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts), plain.buffers()[0])
    return whole.cast(pa.string())
