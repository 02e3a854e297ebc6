"""List the data files that carry the instant of a plan."""

from __future__ import annotations

from collections.abc import Iterable

from hudi_ops.commit.session import Session
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import StorageListing


def files_of_instant(session: Session, partitions: Iterable[str], instant: str) -> list[DataFile]:
    """Return the base and log files of partitions that carry an instant."""
    listing = StorageListing(session.ctx.storage, is_partitioned=True, engine=session.ctx.local_engine)
    held = listing.files(sorted({*partitions}))
    return [file for files in held.values() for file in files if file.instant == instant]
