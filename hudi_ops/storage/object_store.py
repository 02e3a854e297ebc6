"""Storage in a bucket of S3, Google Cloud Storage, Azure or a compatible server.

The invariant: `put_if_absent` is one conditional request, and the server alone decides it. Some servers implement the protocol but
ignore the condition, so a process tests it before its first write to a bucket.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from uuid import uuid4

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError

from hudi_ops.errors import AlreadyExists, InvalidRequest, NotFound, Unsupported
from hudi_ops.storage import bucket
from hudi_ops.storage.paths import check_folder, check_path, is_inside, join
from hudi_ops.storage.protocol import Bytes, FileInfo, Folder, NewFiles, new_files

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

logger = logging.getLogger(__name__)

SMALL_FILE_SIZE_BYTES = 1 << 20
"""Files up to this size are read by one request when they are opened, larger ones range by range."""

# The client library retries every request, except a page of a listing that stops in the middle.
_LISTING_ATTEMPTS = 3
_PROBE_FOLDER = ".hoodie/.hudi_ops_tmp"
_T = TypeVar("_T")
_Client: TypeAlias = "ObjectStore"


class _Process:
    """Shared state of the stores of one process: the client's threads, and the tested buckets."""

    uses_threads = False
    lost_threads = False
    proven: set[tuple[str, ...]] = set()  # noqa: RUF012 (one for all, by intent)
    lock = threading.Lock()

    @classmethod
    def after_fork(cls) -> None:
        # A fork copies the memory but not the threads: a caller would wait for them for ever.
        cls.lost_threads = cls.lost_threads or cls.uses_threads
        cls.lock = threading.Lock()


os.register_at_fork(after_in_child=_Process.after_fork)


class ObjectStorage:
    """Files below one prefix of a bucket.

    Safe between threads; pickles as its URI and is opened anew after unpickling. Like every object store, it has no folders:
    files `a` and `a/b` may both exist.

    Args:
        uri: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` (account from the environment) or
            `abfss://container@account.dfs.core.windows.net/prefix`. Taken as it is, without percent-decoding. Keys, region
            and endpoint come from the usual environment variables.

    Raises:
        InvalidRequest: it names no bucket, or no prefix that could hold files.
        Unsupported: a scheme without a backend.
    """

    def __init__(self, uri: str) -> None:
        self._address = bucket.parse(uri)
        self._prefix = self._address.prefix
        self._opening = threading.Lock()
        self._opened: _Client | None = None

    def __repr__(self) -> str:
        return f"ObjectStorage({self.uri!r})"

    def __reduce__(self) -> tuple[type[ObjectStorage], tuple[str]]:
        return ObjectStorage, (self.uri,)

    @property
    def uri(self) -> str:
        """`s3://bucket/prefix`; `s3a` is written `s3`, without a trailing slash."""
        return self._address.uri

    def get(self, path: str) -> bytes:
        """Return the whole content.

        Raises:
            NotFound: no file there.
            Unavailable: the store did not deliver it.
        """
        key = self._key(path)
        return self._read(path, lambda client: obstore.get(client, key).bytes().to_bytes())

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access; reads fail once a larger file has been replaced.

        Raises:
            NotFound: no file there.
            Unavailable: the store did not deliver it. Later reads raise `OSError`.
        """
        key = self._key(path)
        meta = self._read(path, lambda client: obstore.head(client, key))
        if meta["size"] > SMALL_FILE_SIZE_BYTES:
            return pa.PythonFile(bucket.RangeReader(self._client(), key, meta, path), mode="r")
        return pa.BufferReader(pa.py_buffer(self._read(path, lambda client: obstore.get(client, key).bytes())))

    def head(self, path: str) -> FileInfo | None:
        """Return size and change time, or None when there is no file.

        Raises:
            Unavailable: the store did not answer.
        """
        key = self._key(path)
        try:
            return self._info(self._read(path, lambda client: obstore.head(client, key)))
        except NotFound:
            return None

    def list(self, prefix: str = "") -> Sequence[FileInfo]:
        """Return every file under the folder, at any depth, sorted by path.

        Raises:
            Unavailable: the store did not list it.
        """
        folder = self._folder(prefix)
        found = self._ask(prefix, lambda client: obstore.list(client, folder, chunk_size=1000).collect())
        infos = [self._info(meta) for meta in found]
        folders: set[str] = set()
        for info in infos:
            folder = info.path.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        return self._files(infos, prefix, folders)

    def list_folder(self, prefix: str = "") -> Folder:
        """Return the files and folders directly under the folder; both sorted.

        Raises:
            Unavailable: the store did not list it.
        """
        folder = self._folder(prefix)
        found = self._ask(prefix, lambda client: obstore.list_with_delimiter(client, folder))
        paths = {self._path(key.rstrip("/")) for key in found["common_prefixes"]}
        files = self._files([self._info(meta) for meta in found["objects"]], prefix, paths)
        return Folder(tuple(files), tuple(sorted(path.rpartition("/")[2] for path in paths if not _is_hidden(path))))

    def list_new(self, prefix: str, known: frozenset[str]) -> NewFiles:
        """Return how the files directly under the folder differ from the known names.

        Raises:
            Unavailable: the store did not list it.
        """
        return new_files(self.list_folder(prefix), known)

    def put(self, path: str, body: Bytes) -> None:
        """Create or replace a file; large bodies go up in parts, and get their name at the end.

        Raises:
            Unavailable: not written.
            OutcomeUnknown: written or not.
            Unsupported: the store cannot create exclusively; nothing was written.
        """
        key = self._key(path)
        self._prove()
        try:
            obstore.put(self._client(), key, bucket.flat(body))
        except (BaseError, OSError, ValueError) as error:
            bucket.fail_writing(error, path, self.uri)

    def put_if_absent(self, path: str, body: Bytes) -> None:
        """Create a file by one conditional request, unless the name exists.

        Raises:
            AlreadyExists: the name exists; it may be this very body, sent twice by the client library.
            Unavailable: not written.
            OutcomeUnknown: written or not.
            Unsupported: the store cannot create exclusively; nothing was written.
        """
        key = self._key(path)
        self._prove()
        try:
            obstore.put(self._client(), key, bucket.flat(body), mode="create")
        except AlreadyExistsError as error:
            raise AlreadyExists(f"{path} exists in {self.uri}") from error
        except (BaseError, OSError, ValueError) as error:
            bucket.fail_writing(error, path, self.uri)

    def delete(self, path: str) -> None:
        """Delete a file; deleting nothing succeeds.

        Raises:
            Unavailable: it may still be there.
        """
        key = self._key(path)
        try:
            obstore.delete(self._client(), key)
        except FileNotFoundError:
            return  # S3 does not report a missing file, the other stores do
        except (BaseError, OSError, ValueError) as error:
            bucket.fail_request(error, path, self.uri, "deleted")

    def delete_all(self, paths: Sequence[str], *, ordered: bool = False) -> None:
        """Delete files, in one request where the store supports it and no order is asked for.

        Raises:
            Unavailable: some of them may still be there.
        """
        if ordered:
            for path in paths:
                self.delete(path)
            return
        keys = [self._key(path) for path in paths]
        try:
            obstore.delete(self._client(), keys)
        except FileNotFoundError:
            for path in paths:  # stores that report missing files stop at the first one
                self.delete(path)
        except (BaseError, OSError, ValueError) as error:
            bucket.fail_request(error, ", ".join(paths[:3]), self.uri, "deleted")

    def sweep_temp(self, older_than_ms: int, now_ms: int) -> int:
        """Remove nothing: a put that was cut short leaves no file here."""
        return 0

    def _client(self) -> _Client:
        if _Process.lost_threads:
            raise InvalidRequest(
                f"{self.uri} cannot be used in this process, forked from one that used an object store already",
                expected="a process that was spawned, or forked before the first use",
                found=f"process {os.getpid()}, forked from {os.getppid()}",
                next_step="start workers by 'spawn' or 'forkserver', or before the first use of an object store",
            )
        with self._opening:
            if self._opened is None:
                self._opened = self._address.connect()
                _Process.uses_threads = True
            return self._opened

    def _read(self, path: str, request: Callable[[_Client], _T]) -> _T:
        try:
            return request(self._client())
        except FileNotFoundError as error:
            if bucket.is_bucket_missing(error):
                bucket.fail_request(error, path, self.uri, "read")
            raise NotFound(f"no file under {path} in {self.uri}", path=path) from error
        except (BaseError, OSError, ValueError) as error:
            bucket.fail_request(error, path, self.uri, "read")

    def _ask(self, folder: str, request: Callable[[_Client], _T]) -> _T:
        for left in reversed(range(_LISTING_ATTEMPTS)):
            try:
                return request(self._client())
            except (BaseError, OSError, ValueError) as error:
                if left and bucket.is_cut_short(error):
                    continue
                # Also raised for "not found": an empty folder is no error, so the bucket is missing.
                bucket.fail_request(error, folder, self.uri, "listed")
        raise AssertionError  # pragma: no cover

    def _prove(self) -> None:
        """Test that the server refuses a second create, once for each bucket and process."""
        place = self._address.place()
        with _Process.lock:
            if place in _Process.proven:
                return
            self._probe(self._key(f"{_PROBE_FOLDER}/probe-{uuid4().hex}"))
            _Process.proven.add(place)

    def _probe(self, key: str) -> None:
        client = self._client()
        try:
            for _ in range(2):
                obstore.put(client, key, b"may this be created twice?", mode="create")
        except AlreadyExistsError:
            self._discard(client, key)
            return
        except NotSupportedError as error:
            self._refuse(error)
        except (BaseError, OSError, ValueError) as error:
            if not bucket.is_refused(error):
                self._discard(client, key)
            # The probe's outcome is unknown, but nothing of the caller's file was written.
            bucket.fail_request(error, "a file that tries out exclusive creation", self.uri, "created")
        self._discard(client, key)
        self._refuse(None)

    def _refuse(self, cause: Exception | None) -> None:
        raise Unsupported(
            f"{self.uri} cannot create a file exclusively",
            expected="a store that refuses to create what exists (If-None-Match: *)",
            found=str(cause) if cause else "a store that accepted the same file twice",
            next_step="keep the table on another store, or upgrade this one to a version with conditional writes",
        ) from cause

    def _discard(self, client: _Client, key: str) -> None:
        try:
            obstore.delete(client, key)
        except FileNotFoundError:
            return
        except (BaseError, OSError, ValueError) as error:
            logger.warning("%s stays behind in %s; it may be deleted: %s", key, self.uri, bucket.cause(error))

    def _files(self, found: Sequence[FileInfo], prefix: str, folders: set[str]) -> Sequence[FileInfo]:
        # Consoles and Hadoop's clients put empty objects "folder/" for folders; the client library lists them without
        # the slash, as if they were files.
        files = []
        for info in found:
            if info.path == prefix or _is_hidden(info.path):
                continue
            if not info.size_bytes and (info.path in folders or self._is_marker(info)):
                continue
            files.append(info)
        return sorted(files, key=attrgetter("path"))

    def _is_marker(self, info: FileInfo) -> bool:
        # Requested only if the name may be a folder's: a timeline has many empty files, but their names contain dots.
        return "." not in info.name[1:] and self.head(info.path) is None

    def _key(self, path: str) -> str:
        return join(self._prefix, bucket.check_characters(check_path(path), self._address.scheme))

    def _folder(self, prefix: str) -> str | None:
        return join(self._prefix, bucket.check_characters(check_folder(prefix), self._address.scheme)) or None

    def _path(self, key: str) -> str:
        return key[len(self._prefix) + 1 :] if self._prefix else key

    def _info(self, meta: ObjectMeta) -> FileInfo:
        return FileInfo(self._path(meta["path"]), meta["size"], int(meta["last_modified"].timestamp() * 1000))


def _is_hidden(path: str) -> bool:
    return path == _PROBE_FOLDER or is_inside(path, _PROBE_FOLDER)
