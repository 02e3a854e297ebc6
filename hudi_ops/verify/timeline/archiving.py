"""Report that nothing leaves the timeline, and why, as `hudi-ops archive explain` does."""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.config.upkeep_settings import UpkeepSettings
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError
from hudi_ops.services.archive.facts import read_facts
from hudi_ops.services.archive.rules import stopped_by, verdicts
from hudi_ops.services.write.automatic import kept_by_archive
from hudi_ops.timeline.log.commit_log import automatic_of
from hudi_ops.timeline.state import TableState
from hudi_ops.verify.report import Findings
from hudi_ops.verify.timeline.log import LogSubject


def check_archiving(logged: LogSubject, upkeep: UpkeepSettings | None, findings: Findings) -> None:
    """Report a timeline of twice as many writes as archiving keeps, if one of them cannot leave.

    Args:
        upkeep: the caller's settings of the table; None: those that the table recorded.
    """
    subject = logged.subject
    state = TableState(subject.config, logged.log, subject.timeline)
    writes = state.timeline.completed_writes
    if subject.config.layout != 2:
        return
    try:
        settings = (upkeep or UpkeepSettings()).upon(automatic_of(subject.storage, logged.log))
        least, most = kept_by_archive(state, settings, subject.clock.now_ms())
        if len(writes) <= 2 * most:
            return
        session = Session(TableContext(subject.storage, None, subject.clock, subject.engine))
        told = list(verdicts(read_facts(session, state, least)))
    except HudiOpsError:
        return  # other checks report the file that cannot be read
    stays = next((one for one in told if one.why), None)
    staying = sum(write.time >= stays.instant for write in writes) if stays is not None else 0
    if stays is not None and staying > 2 * most:
        findings.warning(
            "archive-blocked",
            f"{staying:,} completed writes cannot leave the timeline, and every listing grows: {stopped_by(told)}",
            stays.instant,
            "end what keeps the oldest one; `hudi-ops archive TABLE explain` says of each instant why it stays",
        )
