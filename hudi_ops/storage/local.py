"""Storage on a local or mounted disk.

A body is written to a temp file, made durable, and only then gets its name.

The invariant: a name has a whole body or does not exist, at any time and even if a process is killed; after a power cut, too, but
for puts of `synced_together`. So a name appears by link(2) (`put_if_absent`: one winner) or rename(2) (`put`), never by opening it
for writing, unless the body is empty. A killed process leaves a file in the temp folder, which `sweep_temp` removes.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from operator import attrgetter
from pathlib import Path
from typing import Self, TypeAlias
from uuid import uuid4

import pyarrow as pa

from hudi_ops.errors import AlreadyExists, InvalidRequest, OutcomeUnknown
from hudi_ops.storage import disk
from hudi_ops.storage.folder_names import FolderNames
from hudi_ops.storage.paths import check_folder, check_path, is_inside
from hudi_ops.storage.protocol import Bytes, FileInfo, Folder, NewFiles
from hudi_ops.storage.unsynced import Unsynced

logger = logging.getLogger(__name__)

# Most times that a put creates its folders again because others prune them. Each time needs a prune between mkdir and link, so a
# hundred in a row mean another fault.
_FOLDER_ATTEMPTS = 100

_FilesAndFolders: TypeAlias = tuple[list[FileInfo], list[str]]


class LocalStorage:
    """Files below one folder, made by the first put.

    Safe between threads and processes; pickles as its root, so it can be sent to Spark workers. A relative `root` is resolved
    against the working folder at construction. `temp_folder` is relative to the root and on the same file system; listings do not
    show it, and callers cannot use paths in it.

    Raises:
        InvalidRequest: the temp folder is not a relative path.
    """

    def __init__(self, root: str | os.PathLike[str], temp_folder: str = ".hoodie/.hudi_ops_tmp") -> None:
        # abspath, not resolve: a root behind a link keeps the path that users know.
        self._root = Path(os.path.abspath(root))  # noqa: PTH100
        self._temp_folder = check_path(temp_folder)
        # Text instead of Path where a call may concern thousands of files.
        self._root_text = str(self._root)
        self._folder_names = FolderNames(self._root)
        self._unsynced: Unsynced | None = None

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_folder_names"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._folder_names = FolderNames(self._root)

    def __repr__(self) -> str:
        return f"LocalStorage({str(self._root)!r})"

    @property
    def uri(self) -> str:
        """`file:///data/trips`, percent-encoded where a URI requires it."""
        return self._root.as_uri()

    @property
    def root(self) -> Path:
        """Root as a path, for readers that accept no URI."""
        return self._root

    def root_exists(self) -> bool:
        """Return whether the root exists already; a put creates it.

        Raises:
            PermissionDenied: a folder above it may not be entered.
            InvalidRequest: the file system can have no such folder, or links form a loop.
        """
        try:
            return stat.S_ISDIR(self._root.stat().st_mode)
        except ValueError:  # a NUL in the path
            return False
        except OSError as error:
            if error.errno in disk.ABSENT:
                return False
            if error.errno == errno.ELOOP:
                disk.fail_loop(error, self._root)
            disk.fail_reading(error, self._root, "")

    def get(self, path: str) -> bytes:
        """Return the whole content.

        Raises:
            NotFound: no file there.
            Unavailable: the disk did not deliver it.
        """
        place = self._place(path)
        try:
            with open(place, "rb", buffering=0) as file:
                return file.read()
        except OSError as error:
            disk.fail_reading(error, self._root, path)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access through `pread`, without a memory map.

        On a bad block or a truncated file a map kills the process (SIGBUS) where a read raises, and an empty file cannot be mapped.

        Raises:
            NotFound: no file there.
            Unavailable: the disk did not deliver it. Later reads are Arrow's own and raise `OSError`.
        """
        file = self._file(path)
        try:
            return pa.OSFile(str(file), "rb")
        except OSError as error:
            if error.errno is None and file.is_dir():  # Arrow's own refusal has no error number
                error = IsADirectoryError(errno.EISDIR, str(error))
            disk.fail_reading(error, self._root, path)

    def head(self, path: str) -> FileInfo | None:
        """Return size and change time, or None when there is no file.

        Raises:
            Unavailable: the disk did not answer.
        """
        try:
            return disk.file_info(path, os.stat(self._place(path)))  # noqa: PTH116
        except OSError as error:
            if error.errno in disk.ABSENT:
                return None
            disk.fail_reading(error, self._root, path)

    def list(self, prefix: str = "") -> Sequence[FileInfo]:
        """Return every file under the folder, at any depth, sorted by path.

        Raises:
            Unavailable: a folder could not be read.
        """
        found: list[FileInfo] = []
        pending = [self._folder(prefix)]
        while pending:
            files, folders = self._scan(pending.pop())
            found += files
            pending += folders
        # A walk yields a/b before a-b, but object stores list in the order of whole paths.
        return sorted(found, key=attrgetter("path"))

    def list_folder(self, prefix: str = "") -> Folder:
        """Return files and folders directly under the folder; folders without files are left out.

        Raises:
            Unavailable: a folder could not be read.
        """
        files, folders = self._scan(self._folder(prefix))
        names = sorted(folder.rpartition("/")[2] for folder in folders if self._holds_file(folder))
        return Folder(tuple(sorted(files, key=attrgetter("path"))), tuple(names))

    def list_new(self, prefix: str, known: frozenset[str]) -> NewFiles:
        """Return how the files directly under the folder differ from the known names.

        Raises:
            Unavailable: the folder could not be read.
        """
        folder, path = self._folder(prefix), prefix
        lead, files = f"{folder}/" if folder else "", []
        try:
            names = self._folder_names.beside(folder, known)
            for name in sorted(names.fresh):
                path = lead + name
                if (info := self._info(path)) is not None:
                    files.append(info)
        except OSError as error:
            disk.fail_listing(error, self._root / path)
        return NewFiles(tuple(files), names.gone)

    def put(self, path: str, body: Bytes) -> None:
        """Create or replace a file.

        Raises:
            Unavailable: not written.
            OutcomeUnknown: the name may show the new body, or lose it at a power cut.
        """
        self._publish(path, body, by_link=False)

    def put_if_absent(self, path: str, body: Bytes) -> None:
        """Create a file, unless the name exists.

        Raises:
            AlreadyExists: the name exists; on a network disk it may be this very body.
            Unavailable: not written.
            OutcomeUnknown: written or not.
            InvalidRequest: a folder has the name.
            Unsupported: the file system has no hard links.
        """
        target = self._file(path)
        try:
            self._publish(path, body, by_link=True)
        except FileExistsError as error:
            if target.is_dir():
                disk.fail_name(IsADirectoryError(errno.EISDIR, "a folder has this name"), self._root / path)
            # The caller relies on the existing name, so it must be durable: a power cut must not undo it.
            self._sync_name(path, target.parent)
            raise AlreadyExists(f"{path} exists below {self._root}") from error

    @contextmanager
    def synced_together(self) -> Iterator[Self]:
        """Yield a storage for one thread; see `unsynced.synced_together`.

        Raises:
            OutcomeUnknown: the disk did not confirm a put.
        """
        together = copy(self)
        together._unsynced = unsynced = Unsynced()
        yield together
        unsynced.sync()

    def delete(self, path: str) -> None:
        """Delete a file, and its folders once they are empty; deleting nothing succeeds.

        Raises:
            Unavailable: it may still be there.
        """
        # A rollback relies on order across folders (outputs before inflight): each removal is durable before the next.
        self.delete_all([path])

    def delete_all(self, paths: Sequence[str], *, ordered: bool = False) -> None:
        """Delete files one after another, then emptied folders, durably.

        Raises:
            Unavailable: some of them may still be there.
        """
        for path in paths:
            self._open_to_callers(check_path(path))
        disk.delete_files(self._root, paths)

    def sweep_temp(self, older_than_ms: int, now_ms: int) -> int:
        """Remove temp files of killed puts, older than `older_than_ms`; return their number.

        A live put that loses its file raises `Unavailable`.

        Raises:
            Unavailable: the temp folder could not be read or changed.
        """
        removed = 0
        for found in self._scan(self._temp_folder)[0]:
            if now_ms - found.modified_ms < older_than_ms:
                continue
            try:
                (self._root / found.path).unlink(missing_ok=True)
            except OSError as error:
                disk.fail_untouched(error, self._root / found.path, "swept")
            removed += 1
        return removed

    def _file(self, path: str) -> Path:
        return self._root / self._open_to_callers(check_path(path))

    def _place(self, path: str) -> str:
        return f"{self._root_text}/{self._open_to_callers(check_path(path))}"

    def _folder(self, prefix: str) -> str:
        return self._open_to_callers(check_folder(prefix))

    def _open_to_callers(self, path: str) -> str:
        if path == self._temp_folder or is_inside(path, self._temp_folder):
            raise InvalidRequest(
                f"{path} lies in the temp folder of the storage, whose files belong to unfinished writes",
                next_step="choose another path",
            )
        return path

    def _publish(self, path: str, body: Bytes, *, by_link: bool) -> None:
        # The caller handles FileExistsError of the link, whose content is durable first: others may rely on it once they see it.
        target = self._file(path)
        if self._unsynced is not None and not by_link and self._unsynced.creates_empty(target, body):
            return
        temp, is_named = self._root / self._temp_folder / f"{os.getpid()}-{uuid4().hex}", False
        try:
            try:
                disk.write_file(temp, body, durably=by_link or self._unsynced is None)
            except OSError as error:
                disk.fail_untouched(error, self._root / path, "written")
            self._give_name(path, temp, target, by_link=by_link)
            is_named = True
        finally:
            if by_link or not is_named:
                self._discard(temp)
        if self._unsynced is not None and not by_link:
            self._unsynced.add_file(target)
        self._sync_name(path, target.parent)

    def _give_name(self, path: str, temp: Path, target: Path, *, by_link: bool) -> None:
        for _ in range(_FOLDER_ATTEMPTS):
            try:
                if by_link:
                    target.hardlink_to(temp)
                else:
                    temp.replace(target)
                return
            except FileExistsError:
                raise
            except FileNotFoundError:
                self._make_parent(path, target, temp)
            except OSError as error:
                disk.fail_naming(error, self._root / path, by_link=by_link)
        disk.fail_untouched(
            OSError(errno.ENOENT, "its folder was removed again and again"), self._root / path, "written"
        )

    def _make_parent(self, path: str, target: Path, temp: Path) -> None:
        if not temp.exists():
            disk.fail_untouched(OSError(errno.ENOENT, "its temp file was swept"), self._root / path, "written")
        try:
            disk.make_folder(target.parent, self._unsynced.add_folder if self._unsynced is not None else None)
        except FileNotFoundError:
            return  # pruned by another process while it was created: the caller tries again
        except OSError as error:
            disk.fail_naming(error, self._root / path, by_link=False)

    def _discard(self, temp: Path) -> None:
        try:
            temp.unlink(missing_ok=True)
        except OSError as error:
            if error.errno == errno.EROFS:
                return  # the disk is read-only, so there is no temp file
            # The outcome does not depend on the temp file; sweep_temp removes a leftover.
            logger.warning("temp file %s stays behind until it is swept: %s", temp, error)

    def _sync_name(self, path: str, folder: Path) -> None:
        if self._unsynced is not None:
            self._unsynced.add_folder(folder)
            return
        try:
            disk.sync_folder(folder)
        except FileNotFoundError:
            # The file was deleted and its folder pruned concurrently; the deleter made that durable.
            return
        except OSError as error:
            raise OutcomeUnknown(
                f"{path} has its name, but the disk did not confirm it: {error.strerror}",
                next_step="delete nothing; the next write resolves it (see `hudi-ops timeline` before a bulk_insert is "
                "repeated)",
            ) from error

    def _scan(self, folder: str, *, first: bool = False) -> _FilesAndFolders:
        # Files directly in a folder and paths of its folders, up to the `first` file; those that vanish meanwhile are left out.
        lead = f"{folder}/" if folder else ""
        files, folders, path = [], [], folder
        try:
            with os.scandir(f"{self._root_text}/{folder}") as entries:
                for entry in entries:
                    path = lead + entry.name
                    if entry.is_dir():
                        if entry.is_symlink():
                            self._refuse_loop(path)
                        if path != self._temp_folder:
                            folders.append(path)
                    elif (info := disk.entry_info(path, entry)) is not None:
                        files.append(info)
                        if first:
                            break
        except OSError as error:
            if error.errno not in disk.ABSENT:
                disk.fail_listing(error, self._root / path)
        return files, folders

    def _info(self, path: str) -> FileInfo | None:
        try:
            return disk.file_info(path, os.stat(f"{self._root_text}/{path}"))  # noqa: PTH116
        except FileNotFoundError:
            return None  # deleted since the folder was read, or a link to nothing

    def _refuse_loop(self, link: str) -> None:
        """Refuse a link to a folder above it: a walk through it would not end."""
        place = self._root / link
        target = place.resolve()
        # Resolve each folder above, too: the path to it may lead through other links.
        above = place.parent
        while above == self._root or self._root in above.parents:
            if above.resolve() == target:
                disk.fail_name(OSError(errno.ELOOP, f"this link leads back to {above}"), self._root / link)
            above = above.parent

    def _holds_file(self, folder: str) -> bool:
        files, pending = list[FileInfo](), [folder]
        while pending and not files:
            files, folders = self._scan(pending.pop(), first=True)
            pending += folders
        return bool(files)
