"""Open the storage that a URI or a path names."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import Storage

_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})


def open_storage(uri: str) -> Storage:
    """Open the storage under a URI or a plain path of this machine.

    Args:
        uri: `/data/trips`, `data/trips` (from the working folder), `file:///data/trips` or `file:/data/trips`. A URI is
            percent-decoded; a plain path is taken as it is. Object stores: see `ObjectStorage`.

    Raises:
        InvalidRequest: nothing given, a `file` URI that names another machine, or no bucket where one is needed.
        Unsupported: a scheme without a backend.
    """
    if not uri:
        raise InvalidRequest("no path given for the storage", next_step="pass a path or a file:// URI")
    if "://" not in uri and not uri.startswith("file:/"):
        return LocalStorage(uri)
    if uri.partition("://")[0] in _OBJECT_STORES:
        # Imported only when asked for: a table on a local disk must not load what a cloud needs.
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
    """Open the storage of an existing source folder, with links resolved.

    The links are resolved because the URI is recorded: each folder must have only one.

    Raises:
        InvalidRequest: there is no such folder.
        Unsupported: a scheme without a backend.
    """
    storage = open_storage(uri)
    if not isinstance(storage, LocalStorage):
        return storage
    if not storage.root_exists():
        raise InvalidRequest(
            f"there is no file or folder {storage.root}",
            expected="a folder that holds the source files, or one of them",
            next_step="check the path; relative ones are taken from the working folder",
        )
    return LocalStorage(storage.root.resolve())


def open_source(uri: str) -> tuple[Storage, str | None]:
    """Open the storage of a source folder; or that of a file's folder, with the file's name.

    A file and its folder are the same source: a file that was taken alone is not taken again with its folder.

    Raises:
        InvalidRequest: there is no such file or folder, or its links form a loop.
        PermissionDenied: a folder above it may not be entered.
        Unsupported: a scheme without a backend.
    """
    opened = open_storage(uri)
    if isinstance(opened, LocalStorage):
        opened.root_exists()  # refuses a loop of links with a clear error, unlike resolve() and head()
        parent = LocalStorage(opened.root.parent.resolve())
        is_file = parent.root_exists() and parent.head(opened.root.name) is not None
        return (parent, opened.root.name) if is_file else (open_folder(uri), None)
    above, _, name = uri.rpartition("/")
    if "." not in name:  # no file of a known format lacks an ending, so a request is saved
        return opened, None
    folder = open_storage(above)
    return (folder, name) if folder.head(name) is not None else (opened, None)
