"""Parse the names of data files as a column (docs/format §6.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.files.names import BASE_PATTERN, LOG_PATTERN, DataFileName, parse_data_file, writer_of_child_log

BASE, LOG, CDC = 0, 1, 2
"""Kinds of data files: base files, log files, and change-data files, which hold no rows of the table."""

_OTHER = 3
_WRITTEN_AHEAD = r"^\d+-\d{8}-\d+$"

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class NameColumns:
    """Parts of file names, a value for each name.

    Attributes:
        file_id: of the file's group.
        instant: request time of the writer; of the resize, for a log file in a child group of it.
        kind: `BASE`, `LOG` or `CDC`.
        author: the write of ours that put a log file into a child group; null for other files.
    """

    file_id: pa.StringArray
    instant: pa.StringArray
    kind: Codes
    author: pa.StringArray

    def __len__(self) -> int:
        return len(self.kind)


def parse_names(names: pa.StringArray) -> tuple[npt.NDArray[np.intp], NameColumns]:
    """Parse names; return the positions of data files, and their parts.

    Names of other files have no position.
    """
    base = pc.extract_regex(names, f"^(?:{BASE_PATTERN})$")
    is_base = base.is_valid().to_numpy(zero_copy_only=False)
    kind = np.where(is_base, np.int8(BASE), np.int8(_OTHER))
    file_id, instant = base.field("file_id"), base.field("instant")
    author = pa.nulls(len(names), pa.string())
    others = np.flatnonzero(~is_base)
    if len(others):
        log = pc.extract_regex(names.take(pa.array(others)), f"^(?:{LOG_PATTERN})$")
        is_log = log.is_valid().to_numpy(zero_copy_only=False)
        is_cdc = pc.equal(log.field("cdc"), ".cdc").fill_null(False).to_numpy(zero_copy_only=False)
        kind[others] = np.where(is_log, np.where(is_cdc, np.int8(CDC), np.int8(LOG)), np.int8(_OTHER))
        mask = pa.array(~is_base)
        file_id = pc.replace_with_mask(file_id, mask, log.field("file_id"))
        instant = pc.replace_with_mask(instant, mask, log.field("instant"))
        author = pc.replace_with_mask(author, mask, _authors(names.take(pa.array(others)), log.field("token")))
    found = np.flatnonzero(kind != _OTHER)
    if len(found) < len(names):
        taken = pa.array(found)
        file_id, instant, author = (one.take(taken) for one in (file_id, instant, author))
    return found, NameColumns(file_id, instant, kind[found], author)


def kind_of(name: DataFileName) -> int:
    """Return `BASE`, `LOG` or `CDC`."""
    return CDC if name.is_cdc else LOG if name.is_log else BASE


def author_of(name: DataFileName) -> str | None:
    """Return the write of ours that put a log file into a child group; None for other files."""
    return writer_of_child_log(name) if name.is_log else None


def _authors(names: pa.StringArray, tokens: pa.StringArray) -> pa.StringArray:
    """Return the writers of child logs among log files; few names have such a token."""
    may_be = pc.match_substring_regex(tokens, _WRITTEN_AHEAD).fill_null(False).to_numpy(zero_copy_only=False)
    found: list[str | None] = [None] * len(names)
    for at in np.flatnonzero(may_be).tolist():
        name = parse_data_file(names[at].as_py())
        found[at] = writer_of_child_log(name) if name is not None else None
    return pa.array(found, pa.string())
