"""Make the tasks that read slices, each when it is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import pyarrow as pa

from hudi_ops.files.base.row_groups import Constants
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.file_scan import FileTask
from hudi_ops.files.slice.slice_scan import SliceTask
from hudi_ops.kernels.condition import Condition
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.columns.slices import SliceColumns
from hudi_ops.view.slices import Slice

ReadTask: TypeAlias = FileTask | SliceTask


@dataclass(frozen=True, eq=False)
class ReadTasks(Sequence[ReadTask]):
    """Read task of each slice, in order; it is pickled as a tuple of them.

    Attributes:
        rules: how log files are merged; None: no slice has any.
        instants: as in `SliceTask`.
        schema: as in `FileTask`, like the attributes below.
        constants: by partition path; empty: no column is constant.
    """

    storage: Storage
    slices: SliceColumns
    rules: MergeRules | None
    instants: BlockInstants
    schema: pa.Schema
    columns: tuple[str, ...]
    condition: Condition | None
    keys: tuple[str, ...] | None
    constants: Mapping[str, Constants]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return self.slices.size_bytes

    def __len__(self) -> int:
        return len(self.slices)

    def __iter__(self) -> Iterator[ReadTask]:
        return map(self._task, self.slices)

    @overload
    def __getitem__(self, at: int) -> ReadTask: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[ReadTask, ...]: ...

    def __getitem__(self, at: int | slice) -> ReadTask | tuple[ReadTask, ...]:
        return tuple(map(self._task, self.slices[at])) if isinstance(at, slice) else self._task(self.slices[at])

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)

    def _task(self, one: Slice) -> ReadTask:
        base, size_bytes = (one.base.path, one.base.size_bytes) if one.base is not None else ("", 0)
        wanted = (self.schema, self.columns, self.condition, self.keys, self.constants.get(one.partition_path, ()))
        if self.rules is None or not one.logs:
            return FileTask(self.storage, base, size_bytes, *wanted)
        logs = tuple((log.path, log.size_bytes) for log in one.logs)
        return SliceTask(self.storage, base or None, size_bytes, logs, self.rules, self.instants, *wanted)
