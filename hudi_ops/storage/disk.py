"""Single operations on a local disk, and translation of its error numbers."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NoReturn

from hudi_ops.errors import InvalidRequest, NotFound, OutcomeUnknown, PermissionDenied, Unavailable, Unsupported
from hudi_ops.storage.protocol import Bytes, FileInfo

_MAPPED_BYTES = 8 << 20
"""Bytes of a mapped file that are in memory at a time while they are written."""
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
"""Errors when there is no *file* under the path: nothing at all, a folder, or a path that leads through a file."""

_BAD_NAME = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.EILSEQ, errno.EINVAL})
_NO_LINKS = frozenset({errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
# Errors that occur before any change. Any other error of link or rename may occur after it: a network disk may lose the reply.
_REFUSED = frozenset({errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ELOOP, errno.EMFILE, errno.ENFILE})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_RIGHTS = {
    "read": "read the file and to enter its folders",
    "listed": "list the folder",
    "written": "create files in the folder",
    "deleted": "delete files in the folder",
    "deleted from": "read the folder",
    "swept": "delete files in the folder",
}
_NEXT_STEPS = {
    errno.ENOSPC: "free space on the disk, then try again",
    errno.EDQUOT: "raise the quota or free space, then try again",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


def fail_untouched(error: OSError, path: Path, deed: str) -> NoReturn:
    """Raise the error of a failed disk operation that changed nothing.

    Raises:
        PermissionDenied: this user lacks the right; `deed` completes "could not be".
        Unavailable: the operation failed for another reason.
    """
    if error.errno in _DENIED:
        place = _refused_place(error, path, deed)
        raise PermissionDenied(
            f"{path} could not be {deed}: {_cause(error)}",
            expected=f"the right to {_RIGHTS[deed]}",
            next_step=f"mount the disk of {place} for writing"
            if error.errno == errno.EROFS
            else f"grant that right on {place} to the user of this process, or run as another user",
            errno=error.errno,
        ) from error
    raise Unavailable(
        f"{path} could not be {deed}: {_cause(error)}",
        next_step=_NEXT_STEPS.get(error.errno or 0, "check the disk, then try again"),
        errno=error.errno,
    ) from error


def _refused_place(error: OSError, path: Path, deed: str) -> str:
    """Return the path on which the right is missing: the file, or for a change its folder."""
    # The error of a link or rename names the temp file first; but this was just written, so the target is refused.
    place = str(error.filename2 or error.filename or path)
    is_change = deed in {"written", "deleted", "swept"}
    is_folder = os.path.isdir(place)  # noqa: PTH112 - Path.is_dir raises without rights
    return str(Path(place).parent) if is_change and not is_folder else place


def fail_reading(error: OSError, root: Path, path: str) -> NoReturn:
    """Raise the error of a failed read; `path` is relative to the root.

    Raises:
        NotFound: there is no file.
        InvalidRequest: the file system can have no such file.
        Unavailable: the disk did not deliver it.
    """
    if error.errno in ABSENT:
        raise NotFound(f"no file under {path}", path=path) from error
    if error.errno in _BAD_NAME:
        fail_name(error, root / path)
    fail_untouched(error, root / path, "read")


def fail_listing(error: OSError, folder: Path) -> NoReturn:
    """Raise the error of a failed listing of a folder that exists or could exist.

    Raises:
        InvalidRequest: the file system can have no such folder, or links form a loop.
        Unavailable: the disk did not deliver it.
    """
    if error.errno in _BAD_NAME or error.errno == errno.ELOOP:
        fail_name(error, folder)
    fail_untouched(error, folder, "listed")


def fail_naming(error: OSError, path: Path, *, by_link: bool) -> NoReturn:
    """Raise the error of a failed link or rename of a complete temp file.

    Raises:
        InvalidRequest: the file system cannot have a file there.
        Unsupported: it has no hard links.
        Unavailable: refused; nothing landed.
        OutcomeUnknown: done or not.
    """
    if error.errno in _BAD_NAME:
        fail_name(error, path)
    if by_link and error.errno in _NO_LINKS:
        raise Unsupported(
            f"{path} could not be created exclusively: {_cause(error)}",
            expected="a file system with hard links, the temp folder on the same one",
            next_step="keep the table on such a file system",
        ) from error
    if error.errno in _REFUSED or error.errno in _NO_LINKS:
        fail_untouched(error, path, "written")
    raise OutcomeUnknown(
        f"{path} may or may not have been written: {_cause(error)}",
        next_step="delete nothing; the next write resolves it (see `hudi-ops timeline` before a bulk_insert is "
        "repeated)",
    ) from error


def fail_name(error: OSError, path: Path) -> NoReturn:
    """Refuse a path that the file system cannot hold.

    Raises:
        InvalidRequest: always.
    """
    raise InvalidRequest(f"{path} cannot name a file here: {_cause(error)}", next_step="choose another path") from error


def fail_output(error: OSError, path: Path) -> NoReturn:
    """Raise the error of a file outside a table that could not be written; it stays as it was.

    Raises:
        InvalidRequest: the file system can have no such file.
        PermissionDenied: this user may not write it.
        Unavailable: the disk did not take it for another reason.
    """
    if error.errno in _BAD_NAME:
        fail_name(error, path)
    fail_untouched(error, path, "written")


def fail_loop(error: OSError, path: Path) -> NoReturn:
    """Refuse a path whose links form a loop.

    Raises:
        InvalidRequest: always.
    """
    raise InvalidRequest(
        f"{path} cannot be opened: its links form a loop",
        expected="a file or folder, or a link that leads to one",
        found=_cause(error),
        next_step="correct or remove the link (readlink shows where each one leads), or name another path",
    ) from error


def file_info(path: str, found: os.stat_result) -> FileInfo | None:
    """Return size and change time of a regular file; None for folders, sockets and the like."""
    if not stat.S_ISREG(found.st_mode):
        return None
    return FileInfo(path, found.st_size, modified_ms(found))


def entry_info(path: str, entry: os.DirEntry[str]) -> FileInfo | None:
    """Return size and change time of a listed file.

    None if it was deleted since, or is a link to nothing.
    """
    try:
        return file_info(path, entry.stat())
    except FileNotFoundError:
        return None


def modified_ms(found: os.stat_result) -> int:
    """Return the time of the last change in ms since 1970 UTC."""
    return found.st_mtime_ns // 1_000_000


def write_file(file: Path, body: Bytes, *, durably: bool) -> None:
    """Create the file, and its folder, with this body.

    Args:
        durably: wait until the disk has it.

    Raises:
        OSError: the disk's own; a part of the file may exist.
    """
    # Not by `tempfile`: its files are private to their owner, and the final name would keep this mode.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(file, flags, 0o666)
    except FileNotFoundError:
        make_folder(file.parent)
        descriptor = os.open(file, flags, 0o666)
    with open(descriptor, "wb", buffering=0) as raw:
        rest = _flat(body)
        mapped, written = rest.obj if isinstance(rest.obj, mmap.mmap) else None, 0
        while rest.nbytes:
            # One call writes at most 2 GiB, and less when the disk becomes full.
            count = raw.write(rest if mapped is None else rest[:_MAPPED_BYTES])
            rest, written = rest[count:], written + count
            if mapped is not None:
                # Pages of a mapped file count as memory of the process once they were touched.
                mapped.madvise(mmap.MADV_DONTNEED, 0, written)
        if durably:
            os.fsync(descriptor)


def create_empty(file: Path, sync: Callable[[Path], None]) -> bool:
    """Create an empty file; return whether it did. If not, nothing but folders may be new.

    `sync` is called with each folder in which a folder is new.
    """
    for _ in range(2):
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            return True
        except FileNotFoundError:
            try:
                make_folder(file.parent, sync)
            except OSError:
                return False
        except OSError:
            return False
    return False


def make_folder(folder: Path, sync: Callable[[Path], None] | None = None) -> None:
    """Create the folder and its parents, durably; existing ones are fine.

    Args:
        sync: is called with each folder in which a name is new; None: `sync_folder`.

    Raises:
        OSError: the disk's own; `FileNotFoundError` when a parent vanished concurrently.
    """
    try:
        folder.mkdir()
    except FileExistsError:
        # The folder may be new and not durable yet. Journals keep the order of changes, so a later sync of a name in it covers it.
        return
    except FileNotFoundError:
        make_folder(folder.parent, sync)
        try:
            # Not exist_ok: it checks whether a folder exists, and another process may have pruned it by then.
            folder.mkdir()
        except FileExistsError:
            return
    (sync or sync_folder)(folder.parent)


def delete_files(root: Path, paths: Iterable[str]) -> None:
    """Delete files below a root in this order, then emptied folders, durably.

    Missing files are passed. Folders directly under `.hoodie`, and those above them, are kept.

    Raises:
        Unavailable: some files may still be there.
    """
    changed = {path.rpartition("/")[0] for path in paths if unlink(root, path)}
    gone: set[str] = set()
    emptied = changed
    while emptied:
        removed = {folder for folder in emptied if _prune(root, folder)}
        gone |= removed
        emptied = {folder.rpartition("/")[0] for folder in removed}
    _sync_deletions(root, changed, gone)


def unlink(root: Path, path: str) -> bool:
    """Delete a file; return whether there was one.

    Raises:
        Unavailable: it may still be there.
    """
    # Text instead of Path: an archive deletes thousands of files.
    place = f"{root}/{path}"
    try:
        os.unlink(place)  # noqa: PTH108
    except OSError as error:
        # For a folder Linux raises EISDIR, POSIX EPERM.
        if error.errno in ABSENT or (error.errno == errno.EPERM and Path(place).is_dir()):
            return False
        fail_untouched(error, Path(place), "deleted")
    return True


def _prune(root: Path, folder: str) -> bool:
    # Removes an empty folder; returns whether it is gone, so that the one above may be empty, too.
    if not folder or folder == ".hoodie" or folder.rpartition("/")[0] == ".hoodie":
        return False
    try:
        os.rmdir(f"{root}/{folder}")  # noqa: PTH106
    except OSError as error:
        # Another deleter was faster. A folder that is not empty, or another user's, stays: no listing shows empty folders.
        return error.errno == errno.ENOENT
    return True


def _sync_deletions(root: Path, changed: Iterable[str], gone: Collection[str]) -> None:
    """Sync the closest remaining folder above each deleted file.

    Raises:
        Unavailable: some files may still be there.
    """
    remaining = set()
    for lost in changed:
        folder = lost
        while folder in gone:
            folder = folder.rpartition("/")[0]
        remaining.add(folder)
    for folder in remaining:
        for one in (root / folder, *(root / folder).parents):
            try:
                sync_folder(one)
                break
            except FileNotFoundError:
                continue  # another deleter removed it just now
            except OSError as error:
                fail_untouched(error, one, "deleted from")


def sync_file(file: Path) -> None:
    """Wait until the file's content is on the disk.

    Raises:
        OSError: the disk's own.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in the folder are on the disk.

    Raises:
        OSError: the disk's own.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network disks cannot sync folders: there a name is durable once the server has answered.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def _flat(body: Bytes) -> memoryview:
    view = memoryview(body)
    if not view.nbytes:
        return memoryview(b"")  # an empty view of a wider format cannot be cast
    return (view if view.c_contiguous else memoryview(view.tobytes())).cast("B")


def _cause(error: OSError) -> str:
    return error.strerror or str(error)
