"""Write operations: names, words in Apache Hudi's metadata, and the groups they replace."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from hudi_ops.config.requests import checked_operation
from hudi_ops.config.table import TableConfig
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import REQUESTED_REPLACE_METADATA
from hudi_ops.kernels.merging.merge import Operation
from hudi_ops.timeline.content.footprint import Footprint, inflight_body


class Replaces(enum.Enum):
    """File groups that an operation hides with all their keys."""

    NOTHING = "nothing"
    PARTITIONS = "partitions"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class WriteOperation:
    """One operation.

    Attributes:
        name: as users write it.
        hudi_name: `operationType` in the commit's metadata.
        kernel: its work on the rows of a bucket; None for operations without rows.
        replaces: the file groups that its completion hides.

    Source: docs/format §3.1.
    """

    name: str
    hudi_name: str
    kernel: Operation | None
    replaces: Replaces = Replaces.NOTHING

    @property
    def looks_keys_up(self) -> bool:
        """Return whether the operation looks up which keys the table already has."""
        return self.kernel not in {None, Operation.APPEND} and self.replaces is Replaces.NOTHING

    def action(self, config: TableConfig) -> str:
        """Return the action under which the operation is requested and completes."""
        return config.completed_write_action if self.replaces is Replaces.NOTHING else "replacecommit"

    def requested(self) -> bytes:
        """Return the requested file, as Apache Hudi writes it: a replace commit has an empty plan.

        Source: docs/format §2.4.
        """
        if self.replaces is Replaces.NOTHING:
            return b""
        if self.hudi_name != "DELETE_PARTITION":
            return avro.write_one(REQUESTED_REPLACE_METADATA, {"version": None})
        plan = {"operationType": self.hudi_name, "extraMetadata": {}, "version": 1}
        return avro.write_one(REQUESTED_REPLACE_METADATA, plan)

    def inflight(self, intent: Footprint | None = None) -> bytes:
        """Return the inflight file, which holds the intent if it is known.

        Apache Hudi archives it in the place of the plan.

        Source: docs/format §2.4, §5.1.
        """
        return inflight_body(self.hudi_name, intent)

    def intent(
        self,
        groups: Iterable[tuple[str, str]],
        partitions: Iterable[str] = (),
        source: str | None = None,
        *,
        adds: frozenset[str] = frozenset(),
        looked: str = "",
    ) -> Footprint:
        """Return the footprint that the operation is going to have.

        Args:
            groups: (partition path, first eight characters of file ids) of its rows.
            partitions: those that a removal names.
            source: id of the source whose ledger it reads, if any.
            adds: partitions that may get new keys.
            looked: scope of the lookup of these keys, as in the commit's extra metadata (`LOOKED_KEY`).
        """
        named = frozenset(groups)
        sources = frozenset({source} if source is not None else ())
        whole = frozenset(partitions)
        if self.replaces is Replaces.PARTITIONS:
            whole |= {path for path, _ in named} | adds
        return Footprint(
            named,
            sources,
            whole if self.replaces is not Replaces.TABLE else frozenset(),
            is_whole=self.replaces is Replaces.TABLE,
            adds=adds,
            looked=adds if looked else frozenset(),
            looks_everywhere=looked == "table",
        )


UPSERT = WriteOperation("upsert", "UPSERT", Operation.UPSERT)
INSERT = WriteOperation("insert", "INSERT", Operation.INSERT)
DELETE = WriteOperation("delete", "DELETE", Operation.DELETE)
BULK_INSERT = WriteOperation("bulk_insert", "BULK_INSERT", Operation.APPEND)
INSERT_OVERWRITE = WriteOperation("insert_overwrite", "INSERT_OVERWRITE", Operation.UPSERT, Replaces.PARTITIONS)
INSERT_OVERWRITE_TABLE = WriteOperation(
    "insert_overwrite_table", "INSERT_OVERWRITE_TABLE", Operation.UPSERT, Replaces.TABLE
)
DELETE_PARTITION = WriteOperation("delete_partition", "DELETE_PARTITION", None, Replaces.PARTITIONS)
TRUNCATE = WriteOperation("truncate", "INSERT_OVERWRITE_TABLE", None, Replaces.TABLE)

INGESTING = {
    operation.name: operation
    for operation in (UPSERT, INSERT, DELETE, BULK_INSERT, INSERT_OVERWRITE, INSERT_OVERWRITE_TABLE)
}
"""Operations that bring rows, by name."""


def parse_operation(name: str) -> WriteOperation:
    """Return the operation of that name that brings rows.

    Raises:
        InvalidRequest: no such operation has this name.
    """
    return INGESTING[checked_operation(name)]
