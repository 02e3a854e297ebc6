"""Verify, recover, roll back, repair and alter a table."""

from __future__ import annotations

from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.config.definition import Alteration
from hudi_ops.config.logged_settings import SettingsSource
from hudi_ops.config.requests.request import merged
from hudi_ops.engine.progress import TellProgress
from hudi_ops.services.create.protect_lock import protect_lock
from hudi_ops.services.recovery.alter import AlterResult, alter_table
from hudi_ops.services.recovery.attempts import RecoverResult, RollbackResult, recover_table, rollback_write
from hudi_ops.services.recovery.properties import PropertiesRepair, repair_properties
from hudi_ops.services.repair.repair import RepairResult, checked_findings, repair_findings
from hudi_ops.table.argument_types import checks_types
from hudi_ops.verify.invariants import verify_table
from hudi_ops.verify.report import Report


@checks_types
class RepairsApi:
    """Checks a table, repairs what programs left or damaged, and alters recorded settings."""

    _session: Session

    def verify(
        self, *, deep: bool = False, index: bool = True, sample: int | None = None, progress: TellProgress | None = None
    ) -> Report:
        """Check the table, and return what is wrong with it; change nothing.

        Args:
            deep: read the keys of all files, and compare them.
            index: compare the metadata table with the files.
            sample: open about this many files to compare them; None: all.
            progress: called as base files are checked.
        """
        ctx, upkeep = self._session.ctx, self._session.upkeep
        return verify_table(
            ctx.storage, deep=deep, index=index, sample=sample, clock=ctx.clock, upkeep=upkeep, progress=progress
        )

    def repair(self, *findings: str, abandoned: bool = False, dry_run: bool = False) -> RepairResult:
        """Verify the table, and do what `verify` advises; return which findings stay, and why.

        Args:
            findings: names of findings, as `verify` shows them; none: all that can be repaired.
            abandoned: programs of Apache Hudi without a heartbeat have surely ended.
            dry_run: tell what would be done; change nothing.

        Raises:
            InvalidRequest: a finding that cannot be repaired.
            Unsupported: the table cannot be written.
        """
        wanted = checked_findings(findings)
        found = self.verify().findings
        chosen = [one for one in found if one.invariant in wanted or (not findings and one.severity == "error")]
        return repair_findings(self._session, chosen, abandoned=abandoned, dry_run=dry_run)

    def rollback(self, instant: str, *, abandoned: bool = False, dry_run: bool = False) -> RollbackResult:
        """Undo a pending write of a dead writer; writes do so themselves if a heartbeat shows it.

        A plan of a clean that no process began can be removed, too; other plans are cancelled. A rollback of the write that Apache
        Hudi began is finished.

        Args:
            instant: the request time of the write, or of the plan.
            abandoned: its writer has surely ended, though no heartbeat shows it: a single writer of Apache Hudi writes none.
            dry_run: say what would be deleted; change nothing.

        Raises:
            InvalidRequest: no such instant, a completed one, or one without a heartbeat while `abandoned` is not set.
            Unsupported: another pending service: `cancel` ends its plan.
            Busy: its writer is alive, or another process is rolling it back.
        """
        return rollback_write(self._session, instant, abandoned=abandoned, dry_run=dry_run)

    def recover(self, *, abandoned: bool = False) -> RecoverResult:
        """Finish decided instants, and remove leftovers of dead writers, as every write does first.

        Args:
            abandoned: finish the pending rollbacks of Apache Hudi, too: its programs have surely ended.

        Raises:
            Unsupported: the table cannot be written.
        """
        return recover_table(self._session, abandoned=abandoned)

    def repair_properties(self, source: SettingsSource | None, *, dry_run: bool = False) -> PropertiesRepair:
        """Resolve contradictions between `hoodie.properties` and the commit log.

        Args:
            source: `log`: its values are written into the file; `file`: its values are recorded in the log; None: not
                chosen yet, with `dry_run` only.
            dry_run: return the differences; change nothing.

        Raises:
            InvalidRequest: no such source, the table has no commit log, or the file names fields that are no columns.
            Corrupt: the file cannot be read.
            Busy: the lock was not free in time.
        """
        return repair_properties(self._session, source, dry_run=dry_run)

    def alter(self, request: Alteration | None = None, *, dry_run: bool = False, **settings: Any) -> AlterResult:
        """Change settings that the table records, in a slot of the commit log.

        Args:
            request: the settings to change; the others stay.
            dry_run: return the changes; change nothing.
            settings: of `Alteration`, in place of those of the request.

        Raises:
            InvalidRequest: nothing is asked for, or the values contradict each other or the table.
            Busy: the lock was not free in time.
        """
        return alter_table(self._session, merged(Alteration, request, settings), dry_run=dry_run)

    def protect_lock(self) -> str:
        """Restrict the table's lock in ZooKeeper to clients with the configured credentials.

        New locks are protected when they are made; this is for those that are open to all. A table that writers of Apache Hudi
        share needs `shares_credentials` among the lock's settings.

        Returns:
            The lock's address.

        Raises:
            InvalidRequest: no credentials are configured, or Apache Hudi's writers would be kept from the lock.
            Unsupported: a lock without nodes.
        """
        return protect_lock(self._session)
