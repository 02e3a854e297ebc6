"""What a read asks the indexes, and counts of what they excluded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.kernels.condition import Condition, both, member
from hudi_ops.view.listing import Keep

Decision = Literal["estimate", "always", "never"]
"""When an index is asked: if the estimate says so, or in any case, or not at all. Tests and `listing="metadata"` force it."""


@dataclass(frozen=True)
class Sought:
    """Request of a read to the indexes.

    Attributes:
        schema: the table's columns, meta columns first.
        keys: the only record keys that wanted rows can have; None: any key.
        values: the only texts that wanted rows can have in the column of a secondary index, by the index's name.
        by_path: returns for partition paths whether they may hold wanted rows; None: all may.
        may_prune_folders: whether `by_path` may be called for folders above partitions.
        is_newest: whether the newest state of the table is wanted.
        told_by_path: columns that files may lack, since paths hold their values: statistics of these columns are ignored.
        is_decided: whether the paths of partitions decide the condition, so that statistics exclude nothing more.
        decision: when indexes are asked.
        buckets: the only buckets that can hold one of the keys; None: any file group can.
    """

    schema: pa.Schema
    condition: Condition | None
    keys: tuple[str, ...] | None
    by_path: Keep | None = None
    may_prune_folders: bool = False
    is_newest: bool = True
    told_by_path: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_decided: bool = False
    decision: Decision = "estimate"
    buckets: tuple[int, ...] | None = None

    @property
    def asks(self) -> bool:
        """Whether partitions or file groups can be left out."""
        return self.condition is not None or self.keys is not None

    @property
    def asks_indexes(self) -> bool:
        """Whether an index may exclude more than the paths of partitions do."""
        return self.asks and self.decision != "never" and (self.decision == "always" or not self.is_decided)

    @property
    def bounded(self) -> Condition | None:
        """Return the condition for statistics, with the record keys if they are known."""
        if self.condition is None or self.keys is None or RECORD_KEY in self.condition.columns or not self.keys:
            return self.condition
        return (
            both(self.condition, member(RECORD_KEY, self.keys)) if RECORD_KEY in self.schema.names else self.condition
        )


@dataclass(frozen=True)
class LeftOut:
    """Counts of what indexes excluded, and the source of the listing.

    Attributes:
        listing: source of the file listing: `storage`, `metadata`, or `view`.
        partitions_by_statistics: partitions whose statistics exclude every row.
        partitions_by_record_index: partitions without one of the record keys.
        groups_by_statistics: file groups whose files' statistics exclude every row.
        groups_by_record_index: file groups without one of the record keys.
        groups_by_bucket: file groups of buckets that hold none of the record keys.
        groups_by_bloom_filters: file groups whose base file has none of the record keys, and no log files.
        base_files: base files of the file groups that were left out.
        record_index_unused: why the table's record index was not used for the record keys; empty: it was, or the read does not
            need keys.
        located_by: the secondary index that returned the record keys; empty: the condition named them.
    """

    listing: str = "storage"
    partitions_by_statistics: int = 0
    partitions_by_record_index: int = 0
    groups_by_statistics: int = 0
    groups_by_record_index: int = 0
    groups_by_bucket: int = 0
    groups_by_bloom_filters: int = 0
    base_files: int = 0
    record_index_unused: str = ""
    located_by: str = ""


NOTHING_LEFT_OUT = LeftOut()
