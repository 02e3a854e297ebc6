"""Agreement with the commit log: slot pointers, `hoodie.properties` and source ledgers.

Source: docs/protocol §1.
"""

from __future__ import annotations

from hudi_ops.commit.ledger import pointers
from hudi_ops.config.logged_settings import Settings, differences
from hudi_ops.config.table import PROPERTIES_PATH
from hudi_ops.errors import Corrupt, HudiOpsError, NotFound
from hudi_ops.formats import properties
from hudi_ops.services.indexing.drop import KEYS as METADATA_KEYS
from hudi_ops.timeline.content.ledger_chain import read_chain
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.log.entries import ADOPTS, Complete, Properties
from hudi_ops.verify.report import RESTORE, Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.verify.timeline.log import LogSubject

_RESTORE = "restore the file from its payload under .hoodie/.commit_log/payload"


def check_agreement(logged: LogSubject, findings: Findings) -> None:
    """Compare commits, settings and ledgers with the commit log."""
    _check_pointers(logged, findings)
    _check_properties(logged, findings)
    _check_ledgers(logged.subject, findings)


def _check_pointers(logged: LogSubject, findings: Findings) -> None:
    subject, log = logged.subject, logged.log
    for instant, metadata in subject.writes:
        path = subject.timeline.path(instant.file_name)
        findings.looked("slot pointers")
        try:
            pointer = Pointer.decode(metadata.extra)
        except Corrupt:
            findings.error("slot-pointer", f"its slot pointer ({POINTER_KEY}) cannot be read", path, _RESTORE)
            continue
        if pointer is None:
            _report_foreign(logged, instant, findings)
            continue
        entry = log.entries[pointer.slot] if 0 <= pointer.slot < len(log.entries) else None
        if pointer.slot > log.head:
            continue  # after a gap or a broken slot, which `check_log` reports
        if pointer.table_id != log.table_id or not isinstance(entry, Complete) or entry.instant != instant.time:
            findings.error(
                "slot-pointer",
                f"its slot pointer names slot {pointer.slot}, which does not complete this instant",
                path,
                f"{_RESTORE}: writers read the log from this slot on",
            )
    for instant in subject.timeline:
        if instant.is_completed and not instant.is_write:
            findings.looked("slot pointers")
            if instant.time not in logged.completes:
                _report_foreign(logged, instant, findings)


def _report_foreign(logged: LogSubject, instant: Instant, findings: Findings) -> None:
    if instant.time in logged.completes:
        findings.error(
            "slot-pointer",
            "a COMPLETE slot names this write, but its completed file has no slot pointer",
            logged.subject.timeline.path(instant.file_name),
            _RESTORE,
        )
        return
    if logged.log.entries[0].decision_id.startswith(ADOPTS):
        return  # an adopted table, which Apache Hudi still writes
    findings.warning(
        "foreign-instant",
        f"a foreign writer, such as Apache Hudi, completed {instant}",
        logged.subject.timeline.path(instant.file_name),
        "let all writers use one ZooKeeper lock, and Apache Hudi's writers hoodie.clean.failed.writes.policy=LAZY",
    )


def _check_properties(logged: LogSubject, findings: Findings) -> None:
    kept: Settings = {}
    removed: set[str] = set()
    for _, entry in logged.log.since(-1):
        if isinstance(entry, Properties):
            kept = entry.settings
            removed = (removed | set(entry.remove)) - entry.set.keys()
    try:
        found = properties.loads(logged.subject.storage.get(PROPERTIES_PATH), PROPERTIES_PATH)
    except HudiOpsError:
        return  # `check_properties` reports it
    findings.looked("logged properties", len(kept))
    for difference in differences(kept, found):
        findings.error(
            "properties-fold",
            str(difference),
            PROPERTIES_PATH,
            "run `hudi-ops repair-properties TABLE --from-log`, or with --accept-file if the change was intended; until then "
            "writes fail, and reads fail unless only the table type differs",
        )
    # Apache Hudi's writers drop or build a metadata table according to their options.
    for key in sorted((removed & found.keys()) - {*METADATA_KEYS, *kept}):
        findings.error(
            "properties-fold",
            f"{key} is {found[key]}, but the commit log removed this setting",
            PROPERTIES_PATH,
            "remove the line; change table settings with hudi-ops only",
        )


def _check_ledgers(subject: Subject, findings: Findings) -> None:
    """Check the source ledgers that the newest commit with a slot pointer names."""
    newest = next((metadata for _, metadata in reversed(subject.writes) if POINTER_KEY in metadata.extra), None)
    for path in sorted(pointers(newest.extra if newest is not None else {}).values()):
        findings.looked("ledgers")
        try:
            read_chain(subject.storage, path)
        except NotFound:
            # A newer commit may have replaced it since the first reading.
            if subject.later.completed_writes == subject.timeline.completed_writes:
                findings.error(
                    "ledger-missing",
                    "the newest commit names this source ledger, but it is missing: the next ingest would load its files again",
                    path,
                    f"{RESTORE} before the next ingest",
                )
        except Corrupt as error:
            # The unreadable or missing file may be one that this ledger builds upon.
            found = error.details.get("path", path)
            findings.error("ledger-broken", str(error.what), found, f"{RESTORE} before the next ingest")
