"""Hash rings that are known before the rows of a batch are split."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from hudi_ops.commit.session import Session
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import Conflict, Corrupt, NotFound, Unavailable
from hudi_ops.index.bucket_engine import Ranges
from hudi_ops.index.ring import Ring
from hudi_ops.index.ring_files import RingReader
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

RINGS_OF_A_RUN = 16
"""Most rings that are read for one run of rows: the first step reads them one after the other."""


@dataclass(eq=False)
class KnownRings:
    """Rings of the partitions of a batch, in one state of the table.

    The first step asks for the ring of each partition that it meets. The first answer for a partition stays, so that all of its
    rows are split by the same ranges. A ring that was not read costs a second split, and a ring that changed later does so too:
    the router compares the ranges with the ring that counts when the write begins.

    A copy on an executor knows the ranges that the driver has read, and reads none.
    """

    reader: RingReader | None
    rings: dict[str, Ring] = field(default_factory=dict)
    """Rings that were read, by partition path."""
    ranges: dict[str, Ranges | None] = field(default_factory=dict)
    """Ranges that split the rows of partitions; None: those of the initial ring."""

    @classmethod
    def of(cls, session: Session, state: TableState, engine: Engine) -> KnownRings | None:
        """Return the rings of a table in a state; None for a table without hash rings.

        Executors read no rings: that of a table without partitions is read here, as it is the only one.
        """
        if not state.log.properties.facts.has_ring:
            return None
        known = cls(RingReader.of(session.ctx.storage, state, session.commits))
        if engine.name != "local" and not state.config.partition_fields:
            known.ranges_of("", 1, 1)
        return known

    def ranges_of(self, partition_path: str, rows: int, of_rows: int) -> Ranges | None:
        """Return the ranges for a partition's rows; None: those of the initial ring.

        Args:
            rows: rows of the partition in a run of `of_rows`. A ring is read for partitions with many of them.
        """
        if partition_path not in self.ranges and self.reader is not None:
            ring = self._read(self.reader, partition_path) if rows * RINGS_OF_A_RUN >= of_rows else None
            self.ranges.setdefault(partition_path, None if ring is None else Ranges(ring.instant, ring.values))
        return self.ranges.get(partition_path)

    def _read(self, reader: RingReader, partition_path: str) -> Ring | None:
        try:
            ring = reader.read(partition_path)
        except (Conflict, Corrupt, NotFound, Unavailable) as error:
            # Rows that can be read only once must not fail here. The router reads the ring again, and raises the error.
            logger.info("partition %s is split by its initial ring: %s", partition_path or ".", error)
            return None
        return None if ring is None else self.rings.setdefault(partition_path, ring)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (None, {}, dict(self.ranges))
