"""The part of a table with which a person ends a contradiction between `hoodie.properties` and the commit log."""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.config.logged_settings import SettingsSource
from hudi_ops.services.recovery.properties import PropertiesRepair, repair_properties


class RepairableTable:
    """What `hudi_ops.Table` is repaired with."""

    _session: Session

    def repair_properties(self, source: SettingsSource | None, *, dry_run: bool = False) -> PropertiesRepair:
        """Say which is right where `hoodie.properties` contradicts the commit log; until then writers and readers stop.

        Args:
            source: `log`: its values are written into the file; `file`: its values are recorded in the log; None: not
                chosen yet, with `dry_run` only.
            dry_run: say where they differ; change nothing.

        Raises:
            InvalidRequest: no such source, the table has no commit log, or the file names fields that are no columns.
            Corrupt: the file cannot be read.
            Busy: the lock was not to be had in time.
        """
        return repair_properties(self._session, source, dry_run=dry_run)
