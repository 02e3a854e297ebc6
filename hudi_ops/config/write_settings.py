"""How a writer writes, and where processes keep the view of a table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hudi_ops.config.places import cache_folder
from hudi_ops.config.requests import PathText
from hudi_ops.errors import InvalidRequest

LogFormat: TypeAlias = Literal["parquet", "avro"]
"""Format of the rows in log files: `parquet` is faster and a third of the bytes, `avro` what Apache Hudi writes by default."""

METADATA_COMPACT_AFTER = 10
"""Delta commits after which a metadata table is compacted, as with Apache Hudi."""


def checked_format(name: str) -> LogFormat:
    """Return the format of log files of that name.

    Raises:
        InvalidRequest: there is none.
    """
    for one in get_args(LogFormat):
        if one == name:
            return one  # type: ignore[no-any-return]
    raise InvalidRequest(
        f"unknown format of log files {name!r}",
        expected="parquet or avro",
        found=name,
        next_step="pass one of the two, or leave it out for parquet",
        setting="log_format",
    )


def checked_compact_after(deltas: int) -> int:
    """Return the number of delta commits after which a metadata table is compacted.

    Raises:
        InvalidRequest: less than 1.
    """
    if deltas < 1:
        raise InvalidRequest(
            "a metadata table is compacted after one delta commit at least",
            expected="1 or more",
            found=str(deltas),
            next_step=f"pass a larger number, or leave it out for {METADATA_COMPACT_AFTER}",
            setting="metadata_compact_after",
        )
    return deltas


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Sizes of base files in tables where new keys may go to any file group.

    Attributes:
        target_bytes: new keys fill a file group up to about so much (Apache Hudi: `hoodie.parquet.max.file.size`).
        small_bytes: a group below this takes new keys before another one begins (`hoodie.parquet.small.file.limit`); 0: none does.
    """

    target_bytes: int = 120 << 20
    small_bytes: int = 100 << 20

    def __post_init__(self) -> None:
        if self.target_bytes < 1 or self.small_bytes < 0:
            raise InvalidRequest(
                "sizes of base files must be positive",
                expected="target_bytes of 1 or more, small_bytes of 0 or more",
                found=f"{self.target_bytes} and {self.small_bytes}",
                next_step="pass larger ones, or leave them out for 120 and 100 MB",
                setting="file_sizes",
            )


ViewStore = Literal["memory", "spill", "disk"]

MEMORY_MB = 64
"""Megabytes of a view above which `spill` moves it to a file."""


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's loopback."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class ViewServer(BaseModel):
    """Timeline server that processes ask for the file-system view of a table."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    url: str = Field(
        max_length=300, description="Address of the server, http:// or https://, with its port and no path."
    )
    token_file: PathText | None = Field(
        default=None, min_length=1, description="File with the server's token, which other users cannot read."
    )
    ca_file: PathText | None = Field(
        default=None, min_length=1, description="PEM file of the authorities that sign the server's certificate."
    )
    table: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name of the table in the server's tables.yaml. Default: its name here.",
    )

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must read http://HOST:PORT or https://HOST:PORT")
        if parts.username or parts.password or "@" in parts.netloc:
            raise ValueError("must hold no credentials: the token lies in token_file")
        if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.port == 0:
            raise ValueError("must end with the port: the client adds the paths")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _protects_token(self) -> ViewServer:
        parts = urlsplit(self.url)
        if self.token_file is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError(
                "a token is sent by https only, except to this machine: use https, or leave out token_file"
            )
        return self


class ViewSettings(BaseModel):
    """Where processes keep the file-system view of a table."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    store: ViewStore = Field(
        default="memory",
        description="memory: on the heap; spill: in a private file above memory_mb; disk: in a file that all processes of the "
        "machine share.",
    )
    memory_mb: int = Field(default=MEMORY_MB, ge=1, description="Megabytes above which spill moves a view to a file.")
    folder: PathText | None = Field(
        default=None,
        min_length=1,
        description="Folder of the files, for one user alone. Default: $XDG_CACHE_HOME/hudi-ops/views.",
    )
    server: ViewServer | None = Field(
        default=None,
        description="Timeline server that is asked before a view is built: url, token_file, ca_file, table.",
    )

    @field_validator("folder")
    @classmethod
    def _is_local(cls, folder: str | None) -> str | None:
        if folder is not None and "://" in folder:
            raise ValueError("must be a folder of this machine: files in it are mapped into memory")
        return folder

    @property
    def place(self) -> Path:
        """Return the folder of the files."""
        return Path(self.folder).expanduser() if self.folder is not None else cache_folder() / "views"

    def beside(self, folder: Path) -> ViewSettings:
        """Return the settings with files relative to a folder."""
        changed: dict[str, object] = {}
        if self.folder is not None:
            changed["folder"] = _absolute(self.folder, folder)
        if (server := self.server) is not None:
            files = {name: getattr(server, name) for name in ("token_file", "ca_file")}
            update = {name: _absolute(file, folder) for name, file in files.items() if file is not None}
            changed["server"] = server.model_copy(update=update)
        return self.model_copy(update=changed) if changed else self

    def named(self, table: str) -> ViewSettings:
        """Return the settings with the name by which the server is asked for the table."""
        if self.server is None or self.server.table is not None:
            return self
        return self.model_copy(update={"server": self.server.model_copy(update={"table": table})})


def _absolute(path: str, folder: Path) -> str:
    return path if path.startswith("~") else os.path.normpath(folder / path)
