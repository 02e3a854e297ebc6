"""Check and join paths relative to a storage's root."""

from __future__ import annotations

import re

from hudi_ops.errors import InvalidRequest

_REFUSED = re.compile(r"\0|(?:\A|/)\.{0,2}(?:/|\Z)")
"""A zero byte, or a segment that is empty, `.` or `..`: with two spellings of one file, put_if_absent could be won twice."""


def is_path(path: str) -> bool:
    """Return whether a text has no zero byte, and no segment that is empty, `.` or `..`."""
    return _REFUSED.search(path) is None


def check_path(path: str) -> str:
    """Return the same path, if it may name a file.

    Raises:
        InvalidRequest: it is empty, begins or ends with `/`, or holds an empty segment, `.`, `..` or a zero byte.
    """
    if not is_path(path):
        raise InvalidRequest(
            f"not a path within a storage: {path!r}",
            expected="segments separated by single '/', none of them empty, '.' or '..'",
            found=repr(path),
            next_step="pass a path relative to the root of the storage",
        )
    return path


def check_folder(prefix: str) -> str:
    """Return the same prefix, if it may name a folder; the empty one is the root.

    Raises:
        InvalidRequest: as for `check_path`.
    """
    return check_path(prefix) if prefix else prefix


def join(*parts: str) -> str:
    """Join parts by `/`; empty ones (the root, the only partition of a table) are left out.

    >>> join(".hoodie", "", "timeline")
    '.hoodie/timeline'
    """
    return "/".join(part for part in parts if part)


def is_inside(path: str, folder: str) -> bool:
    """Return whether the path lies below the folder, at any depth; the root is `""`.

    >>> is_inside("origin=JFK/a.parquet", "origin=JFK"), is_inside("origin=JFK2/a.parquet", "origin=JFK")
    (True, False)
    """
    return not folder or path.startswith(f"{folder}/")
