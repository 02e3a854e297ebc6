"""The write operations as users name them: what each is in Apache Hudi's metadata, and what it replaces."""

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
    """Whose file groups an operation hides, whatever keys they hold."""

    NOTHING = "nothing"
    PARTITIONS = "partitions"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class WriteOperation:
    """One operation.

    Attributes:
        name: as users write it.
        hudi_name: `operationType` in the commit's metadata.
        kernel: what is done with the rows of a bucket; None for operations that bring no rows.
        replaces: what is hidden when it completes.

    Source: docs/format.md §3.1.
    """

    name: str
    hudi_name: str
    kernel: Operation | None
    replaces: Replaces = Replaces.NOTHING

    @property
    def looks_keys_up(self) -> bool:
        """Whether it matters which of its rows' keys are there already."""
        return self.kernel not in {None, Operation.APPEND} and self.replaces is Replaces.NOTHING

    def action(self, config: TableConfig) -> str:
        """The action under which the operation is requested and completes, whatever the table's type."""
        return config.completed_write_action if self.replaces is Replaces.NOTHING else "replacecommit"

    def requested(self) -> bytes:
        """Content of the requested file, as Apache Hudi writes it: a replace commit has a plan that plans nothing.

        Source: docs/format.md §2.4.
        """
        if self.replaces is Replaces.NOTHING:
            return b""
        if self.hudi_name != "DELETE_PARTITION":
            return avro.write_one(REQUESTED_REPLACE_METADATA, {"version": None})
        plan = {"operationType": self.hudi_name, "extraMetadata": {}, "version": 1}
        return avro.write_one(REQUESTED_REPLACE_METADATA, plan)

    def inflight(self, intent: Footprint | None = None) -> bytes:
        """Content of the inflight file, which says what is about to be touched; Apache Hudi archives it in the place of the plan.

        Args:
            intent: what a write of rows, or a removal, is going to touch; None when it cannot be told.

        Source: docs/format.md §2.4, §5.1.
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
        """What it is going to touch.

        Args:
            groups: (partition path, first eight characters of file ids) of its rows.
            partitions: those that a removal names.
            source: id of the source whose ledger it reads, if any.
            adds: partitions into which it puts keys that may be new there.
            looked: where it looked for them, as the commit's extra metadata says (`LOOKED_KEY`).
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

INGESTING = {one.name: one for one in (UPSERT, INSERT, DELETE, BULK_INSERT, INSERT_OVERWRITE, INSERT_OVERWRITE_TABLE)}
"""Operations that bring rows, by name."""


def parse_operation(name: str) -> WriteOperation:
    """The operation of that name that brings rows.

    Raises:
        InvalidRequest: none has it.
    """
    return INGESTING[checked_operation(name)]
