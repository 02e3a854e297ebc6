"""How a writer writes, and where processes keep the view of a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

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
