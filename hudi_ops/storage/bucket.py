"""Single operations on a bucket: addresses, range reads, and translation of client errors."""

from __future__ import annotations

import errno
import io
import os
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

import obstore
from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from hudi_ops.errors import InvalidRequest, OutcomeUnknown, PermissionDenied, Unavailable, Unsupported
from hudi_ops.storage.paths import check_folder
from hudi_ops.storage.protocol import Bytes

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import AzureConfig, ClientConfig, ObjectStore, RetryConfig

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "abfss", "abfss": "abfss"}
"""Schemes of URIs that lead to a bucket, with the form that `uri` writes."""

_AZURE = frozenset({"az", "abfss"})
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "abfss": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
# Retries a server that answers by errors for about ten seconds. The time-out is for a whole file, up or down.
_RETRIES: RetryConfig = {
    "max_retries": 6,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_TIMEOUT, _CONNECT_TIMEOUT = timedelta(minutes=5), timedelta(seconds=10)

_RIGHTS = {
    "read": "to read objects (on S3: s3:GetObject)",
    "listed": "to list the bucket (on S3: s3:ListBucket)",
    "written": "to write objects (on S3: s3:PutObject)",
    "created": "to write objects (on S3: s3:PutObject)",
    "deleted": "to delete objects (on S3: s3:DeleteObject)",
}
_REFUSED = (InvalidPathError, PermissionDeniedError, UnauthenticatedError, FileNotFoundError, ValueError)
_NO_BUCKET = ("<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>")
_METADATA_SERVICE = "//169.254.169.254/"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Azure stores a backslash as a slash, and advises against segments that end with a dot, since some programs drop the dot: with
# either, one file would have two names.
_REWRITTEN_BY_AZURE = re.compile(r"\\|\.(?=/|$)")


@dataclass(frozen=True, slots=True)
class Address:
    """Location of a storage.

    Attributes:
        scheme: a value of `SCHEMES`.
        bucket: bucket or container.
        account_host: `account.dfs.core.windows.net`, where an `abfss` URI names it.
        prefix: folder within the bucket; empty for all of it.
    """

    scheme: str
    bucket: str
    account_host: str
    prefix: str

    @property
    def uri(self) -> str:
        """URI of the storage, without a trailing slash."""
        host = f"@{self.account_host}" if self.account_host else ""
        return f"{self.scheme}://{self.bucket}{host}" + (f"/{self.prefix}" if self.prefix else "")

    def place(self) -> tuple[str, ...]:
        """Return the identity of the server and its bucket, without the prefix."""
        return self.scheme, self.bucket, self.account_host, self._endpoint()

    def connect(self) -> ObjectStore:
        """Create a client with the keys, region and endpoint from the environment.

        Raises:
            InvalidRequest: the environment's settings do not fit such a store.
        """
        options: ClientConfig = {"timeout": _TIMEOUT, "connect_timeout": _CONNECT_TIMEOUT}
        if self._endpoint().startswith("http://"):
            options["allow_http"] = True  # an http:// endpoint is intended
        try:
            if self.scheme == "s3":
                return S3Store(self.bucket, client_options=options, retry_config=_RETRIES)
            if self.scheme == "gs":
                return GCSStore(self.bucket, client_options=options, retry_config=_RETRIES)
            named: AzureConfig = {}
            if self.account_host:
                named["account_name"] = self.account_host.partition(".")[0]
            if endpoint := self._endpoint().rstrip("/"):
                named["endpoint"] = endpoint  # without a trailing slash, which would double the slash in every address
            return AzureStore(self.bucket, client_options=options, retry_config=_RETRIES, config=named)
        except (BaseError, OSError, ValueError) as error:
            raise InvalidRequest(
                f"{self.uri} cannot be opened with these settings: {cause(error)}",
                next_step="check the environment variables of the store: AWS_*, GOOGLE_* or AZURE_*",
            ) from error

    def _endpoint(self) -> str:
        return next((value for name in _ENDPOINTS[self.scheme] if (value := os.environ.get(name))), "")


def parse(uri: str) -> Address:
    """Parse a URI; nothing is percent-decoded, as keys may hold `%`, `#` and `?`.

    Raises:
        InvalidRequest: no bucket, or a prefix that cannot name a folder.
        Unsupported: a scheme without a backend.
    """
    scheme, _, rest = uri.partition("://")
    if scheme not in SCHEMES:
        raise Unsupported(f"no storage for {scheme}://: {uri}", expected=", ".join(SCHEMES), found=scheme)
    authority, _, prefix = rest.partition("/")
    name, _, account_host = authority.partition("@")
    if not name or (account_host and SCHEMES[scheme] != "abfss"):
        raise InvalidRequest(
            f"not the URI of a bucket: {uri}",
            expected="s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or abfss://container@account/prefix",
            found=uri,
            next_step="write the bucket after the two slashes",
        )
    address = Address(SCHEMES[scheme], name, account_host, check_folder(prefix.rstrip("/")))
    check_characters(address.prefix, address.scheme)
    return address


def check_characters(path: str, scheme: str) -> str:
    """Return the path if a store of this scheme keeps it unchanged.

    Raises:
        InvalidRequest: it holds control characters, which the client library refuses, or characters that Azure rewrites.
    """
    if scheme in _AZURE and (found := _REWRITTEN_BY_AZURE.search(path)):
        raise InvalidRequest(
            f"Azure would not keep the name of {path!r}",
            expected="a path without backslashes, no segment of which ends with a dot",
            found=f"{found[0]!r} at character {found.start()}",
            next_step="choose another path; values of partitions may be url-encoded",
        )
    if _CONTROL.search(path):
        raise InvalidRequest(
            f"a control character in {path!r}",
            expected="a path without control characters, as this is an object store",
            found=repr(path),
            next_step="choose another path; values of partitions may be url-encoded",
        )
    return path


class RangeReader(io.RawIOBase):
    """File that is read range by range, for Arrow.

    Every range is requested from the same version of the file.
    """

    def __init__(self, client: ObjectStore, key: str, meta: ObjectMeta, path: str) -> None:
        super().__init__()
        self._client, self._key, self._path = client, key, path
        self._size_bytes, self._tag, self._at = meta["size"], meta["e_tag"], 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to an offset, without a request."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size_bytes}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """Read the next bytes by one request; fewer at the end.

        Raises:
            OSError: the store did not deliver the bytes, or the file was replaced. Its errno is EIO; Arrow's own errors about
                broken bytes have none.
        """
        end = self._size_bytes if size is None or size < 0 else min(self._at + size, self._size_bytes)
        if end <= self._at:
            return b""
        try:
            found = obstore.get(self._client, self._key, options={"range": (self._at, end), "if_match": self._tag})
            body = found.bytes().to_bytes()
        except (BaseError, OSError, ValueError) as error:
            story = f"{self._path} could not be read from {self._at} to {end}: {cause(error)}"
            raise OSError(errno.EIO, story) from error
        if len(body) != end - self._at:
            story = f"{self._path} returned {len(body)} bytes from {self._at}, expected {end - self._at}"
            raise OSError(errno.EIO, story)
        self._at = end
        return body

    def readall(self) -> bytes:
        """Read all remaining bytes; raise as `read` does."""
        return self.read()


def flat(body: Bytes) -> bytes | memoryview:
    """Convert the body for the client library: contiguous, of single unsigned bytes."""
    view = memoryview(body)
    if not view.nbytes:
        return b""  # an empty view of a wider format cannot be cast
    return (view if view.c_contiguous else memoryview(view.tobytes())).cast("B")


def is_bucket_missing(error: FileNotFoundError) -> bool:
    """Return whether an error says that the bucket is missing; the error of a head has no text."""
    return any(code in str(error) for code in _NO_BUCKET)


def is_cut_short(error: Exception) -> bool:
    """Return whether the connection was lost in the middle of an answer."""
    return "response body" in cause(error)


def is_refused(error: Exception) -> bool:
    """Return whether a put that failed with this error has certainly not landed."""
    return isinstance(error, _REFUSED)


def is_denied(error: Exception) -> bool:
    """Return whether the store refused for want of a right or of valid keys."""
    # A refused listing raises a generic error; only its text shows the reason.
    return isinstance(error, PermissionDeniedError | UnauthenticatedError) or "status code: 403" in str(error)


def fail_request(error: Exception, path: str, uri: str, deed: str) -> NoReturn:
    """Raise the error of a failed operation that left the file unchanged.

    Raises:
        InvalidRequest: the store can have no such file.
        PermissionDenied: the keys lack a right; `deed` completes "could not be".
        Unavailable: anything else.
    """
    if isinstance(error, InvalidPathError | ValueError):
        raise InvalidRequest(
            f"{path} cannot name a file in {uri}: {cause(error)}",
            next_step="choose another path; remove files that other programs put under such a name",
        ) from error
    if is_denied(error):
        raise PermissionDenied(
            f"{uri}/{path}".rstrip("/") + f" could not be {deed}: {cause(error)}",
            expected=f"keys with the right {_RIGHTS[deed]}",
            next_step="check the keys in the environment (AWS_*, GOOGLE_* or AZURE_*), and give them that right",
        ) from error
    raise Unavailable(
        f"{path or 'the root'} could not be {deed} in {uri}: {cause(error)}", next_step=_next_step(error)
    ) from error


def fail_writing(error: Exception, path: str, uri: str) -> NoReturn:
    """Raise the error of a failed put.

    Raises:
        InvalidRequest: the store can have no such file.
        Unavailable: refused; nothing landed.
        OutcomeUnknown: a time-out, a lost connection or an error of the server; the put may have landed.
    """
    if is_refused(error):
        fail_request(error, path, uri, "written")
    raise OutcomeUnknown(
        f"{path} may or may not have been written to {uri}: {cause(error)}",
        next_step="delete nothing; the next write resolves it (see `hudi-ops timeline` before a bulk_insert is "
        "repeated)",
    ) from error


def _next_step(error: Exception) -> str:
    if _METADATA_SERVICE in str(error):  # where the client library looks for keys last
        return "set the keys of the store in the environment: AWS_*, GOOGLE_* or AZURE_*"
    if isinstance(error, FileNotFoundError) or "status code: 404" in str(error):
        return "check the name of the bucket and its region; create it if it is missing"
    return "check the endpoint, the region and the network, then try again"


def cause(error: Exception) -> str:
    """Return the client library's message without its inner structures below the first line."""
    return (str(error).splitlines() or [type(error).__name__])[0]
