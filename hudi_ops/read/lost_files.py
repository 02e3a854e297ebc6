"""Explain a data file that vanished after a read was planned: cleaned, or lost."""

from __future__ import annotations

import logging

from hudi_ops.errors import Corrupt, HudiOpsError, NotFound, Unavailable
from hudi_ops.files.names import parse_data_file
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.undone import undone_by
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.view.cleaned_files import files_of_cleans
from hudi_ops.view.columns.kept import forget_view
from hudi_ops.view.moment import lost_file

logger = logging.getLogger(__name__)


def vanished(storage: Storage, error: NotFound, next_step: str, table: str = "") -> HudiOpsError:
    """Return the error for a data file that is gone.

    The error is `Corrupt` if the write that made the file still counts and no clean removed the file. Otherwise, also if the cause
    is unknown, it is `Unavailable` with `next_step`: another read finds newer files, as the table's view is built anew.
    """
    forget_view(storage)
    try:
        if (lost := _lost(storage, str(error.details.get("path", "")))) is not None:
            return lost
    except HudiOpsError as other:
        logger.warning("nothing tells why a file is gone: %s", other)
    return Unavailable(f"a file vanished while the table was read: {error.what}", table=table, next_step=next_step)


def _lost(storage: Storage, path: str) -> Corrupt | None:
    named = parse_data_file(path.rpartition("/")[2])
    config = load_config(storage)
    if named is None or config.layout == 1:
        return None  # in layout 1 the files that archived cleans removed are unknown
    timeline = load_timeline(storage, config)
    writer = timeline.find(named.instant)
    is_archived = writer is None and named.instant < timeline.start
    if not is_archived and (writer is None or not writer.is_completed):
        return None
    if is_archived and undone_by(storage, config, timeline, named.instant):
        return None
    if path in files_of_cleans(storage, config) or storage.head(path) is not None:
        return None
    return lost_file(config.name, path, named.instant)
