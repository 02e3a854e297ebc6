"""All invariant checks of a table, run by `hudi-ops verify` and after each simulation."""

from __future__ import annotations

from hudi_ops.clock import Clock, SystemClock
from hudi_ops.config.table import PROPERTIES_PATH, TableConfig
from hudi_ops.config.upkeep_settings import UpkeepSettings
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.progress import TellProgress
from hudi_ops.errors import Corrupt
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.settings.settings_check import repaired_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.verify.data.base_files import check_base_files
from hudi_ops.verify.data.files import check_files
from hudi_ops.verify.data.log_files import check_log_files
from hudi_ops.verify.data.rings import check_rings
from hudi_ops.verify.data.view import check_kept_view
from hudi_ops.verify.index.metadata import check_dropped, check_index, check_metadata_table
from hudi_ops.verify.report import Findings, Report
from hudi_ops.verify.subject import Subject
from hudi_ops.verify.timeline.aborted import check_aborted
from hudi_ops.verify.timeline.agreement import check_agreement
from hudi_ops.verify.timeline.archiving import check_archiving
from hudi_ops.verify.timeline.compactions import check_archived_writers, check_compactions
from hudi_ops.verify.timeline.fleet import check_fleet
from hudi_ops.verify.timeline.leftovers import check_leftovers
from hudi_ops.verify.timeline.log import check_log
from hudi_ops.verify.timeline.pending import check_pending
from hudi_ops.verify.timeline.properties import check_properties
from hudi_ops.verify.timeline.timeline import check_timeline


def verify_table(
    storage: Storage,
    *,
    deep: bool = False,
    index: bool = False,
    sample: int | None = None,
    clock: Clock | None = None,
    upkeep: UpkeepSettings | None = None,
    progress: TellProgress | None = None,
) -> Report:
    """Check a table against every invariant, without changing it.

    Live writers are not reported as damage.

    Args:
        storage: a table of this library or of Apache Hudi, or a metadata table.
        deep: compare the keys of all visible files; otherwise read all footers, and the keys of a sample.
        index: compare the metadata table with the files, partition by partition.
        sample: approximate number of files to open for `index`; None: all visible ones.
        clock: decides whether leases expired; None: this machine's.
        upkeep: how many writes archiving keeps; None: as the table recorded.
        progress: called as base files are checked.

    Returns:
        The findings. If the settings cannot be read, the report holds that one error.

    Raises:
        InvalidRequest: the path is not a table.
        Unsupported: a table version that cannot be opened.
        Unavailable: storage did not answer.
    """
    findings = Findings()
    try:
        config = _settings(storage)
    except Corrupt as error:
        findings.error("properties-broken", error.what, PROPERTIES_PATH, error.next_step)
        return findings.report("", storage.uri, deep=deep)
    timeline = load_timeline(storage, config)
    listed = tuple(storage.list())
    subject = Subject(
        storage=storage,
        config=config,
        timeline=timeline,
        later=load_timeline(storage, config),
        listed=listed,
        commits=CommitReader(storage),
        engine=LocalEngine(),
        clock=clock or SystemClock(),
        deep=deep,
        progress=progress,
    )
    check_properties(subject, findings)
    check_timeline(subject, findings)
    logged = check_log(subject, findings)
    check_pending(subject, logged.completes if logged is not None else (), findings)
    check_aborted(subject, findings)
    check_metadata_table(subject, findings)
    known = logged.log.properties.facts if logged is not None else None
    if index:
        if logged is not None:
            check_dropped(subject, logged.log, findings)
        check_index(subject, known.index if known is not None else None, sample, findings)
    check_files(subject, findings)
    check_compactions(subject, findings)
    check_archived_writers(subject, findings)
    check_leftovers(subject, findings)
    if logged is not None:
        check_agreement(logged, findings)
        check_fleet(logged, findings)
        check_archiving(logged, upkeep, findings)
    facts = known if known is not None and known.takes_rows else None
    rings = check_rings(subject, logged.log, findings) if logged is not None else {}
    check_base_files(subject, facts, rings, findings)
    check_log_files(subject, facts, rings, findings)
    check_kept_view(subject, findings)
    if subject.history is not None and subject.history.note:
        findings.info("archive-unread", subject.history.note, config.history_folder)
    return findings.report(config.name, storage.uri, deep=deep)


def _settings(storage: Storage) -> TableConfig:
    """Return the settings in force: the commit log's where the properties file contradicts it."""
    try:
        return repaired_config(storage)
    except Corrupt:
        return load_config(storage)  # `check_log` reports a broken log
