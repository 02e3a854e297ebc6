"""Paths relative to a storage's root: which are allowed, how they are put together, and how a URI becomes a storage."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hudi_ops.errors import InvalidRequest, Unsupported

if TYPE_CHECKING:
    from hudi_ops.storage.protocol import Storage

_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})


def is_path(path: str) -> bool:
    """Whether a text may name a file below a root: no empty segment, none that is `.` or `..`, and no zero byte."""
    # "." and "" are left out too: two spellings of one file would be two names for put_if_absent to win.
    return "\0" not in path and not any(segment in {"", ".", ".."} for segment in path.split("/"))


def check_path(path: str) -> str:
    """The same path, if it may name a file.

    Args:
        path: relative to a root, segments separated by `/`.

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
    """The same prefix, if it may name a folder; the empty one is the root.

    Raises:
        InvalidRequest: as for `check_path`.
    """
    return check_path(prefix) if prefix else prefix


def join(*parts: str) -> str:
    """Parts put together by `/`; empty ones (the root, an unpartitioned table's partition) are left out.

    >>> join(".hoodie", "", "timeline")
    '.hoodie/timeline'
    """
    return "/".join(part for part in parts if part)


def is_inside(path: str, folder: str) -> bool:
    """Whether the path lies below the folder, at any depth; everything lies below the root, which is `""`.

    >>> is_inside("origin=JFK/a.parquet", "origin=JFK"), is_inside("origin=JFK2/a.parquet", "origin=JFK")
    (True, False)
    """
    return not folder or path.startswith(f"{folder}/")


def open_storage(uri: str) -> Storage:
    """The storage under a URI or a plain path of this machine.

    Args:
        uri: `/data/trips`, `data/trips` (from the working folder), `file:///data/trips` or `file:/data/trips`. A URI is
            percent-decoded; a plain path is taken as it is. Object stores: see `ObjectStorage`.

    Raises:
        InvalidRequest: nothing given, a `file` URI that names another machine, or no bucket where one is needed.
        Unsupported: a scheme without a backend.
    """
    # Backends are imported when asked for: a table on a local disk must not load what a cloud needs.
    from hudi_ops.storage.local import LocalStorage

    if not uri:
        raise InvalidRequest("no path given for the storage", next_step="pass a path or a file:// URI")
    if "://" not in uri and not uri.startswith("file:/"):
        return LocalStorage(uri)
    if uri.partition("://")[0] in _OBJECT_STORES:
        from hudi_ops.storage.object_store import ObjectStorage

        return ObjectStorage(uri)
    parts = urlsplit(uri)
    if parts.scheme != "file":
        raise Unsupported(
            f"no storage for {parts.scheme}://: {uri}",
            expected="a path on a local disk, or a URI that begins with file, s3, s3a, gs, az, abfs or abfss",
            found=f"{parts.scheme}://",
            next_step="keep the table on a local or mounted disk or in one of these stores",
        )
    if parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
        raise InvalidRequest(
            f"not the URI of a local folder: {uri}",
            expected="file:///absolute/path, with '#' and '?' as %23 and %3F",
            found=uri,
            next_step="write three slashes after file:",
        )
    return LocalStorage(unquote(parts.path))


def open_folder(uri: str) -> Storage:
    """The storage under a URI or path that must be there already: a source, which no put will make.

    Links on the way to it are resolved: what was taken from a source is remembered by its URI, so a folder must have one.

    Raises:
        InvalidRequest: there is no such folder.
        Unsupported: a scheme without a backend.
    """
    from hudi_ops.storage.local import LocalStorage

    storage = open_storage(uri)
    if not isinstance(storage, LocalStorage):
        return storage
    if not storage.root_exists():
        raise InvalidRequest(
            f"there is no folder {storage.root}",
            expected="a folder that holds the source files",
            next_step="check the path; relative ones are taken from the working folder",
        )
    return LocalStorage(storage.root.resolve())
