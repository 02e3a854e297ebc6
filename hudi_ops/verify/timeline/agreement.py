"""What must agree with the commit log: the pointers in commits, `hoodie.properties`, and the ledgers of sources.

Source: docs/protocol.md §1.
"""

from __future__ import annotations

import json

from hudi_ops.commit.ledger import pointers
from hudi_ops.config.logged_settings import Settings, differences
from hudi_ops.config.table import PROPERTIES_PATH
from hudi_ops.errors import Corrupt, HudiOpsError, NotFound
from hudi_ops.formats import properties
from hudi_ops.services.indexing.drop import KEYS as METADATA_KEYS
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.log.entries import ADOPTS, Complete, Properties
from hudi_ops.timeline.settings.settings_check import settings_in
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.verify.timeline.log import LogSubject


def check_agreement(logged: LogSubject, findings: Findings) -> None:
    """Hold commits, settings and ledgers against the log."""
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
            findings.error("slot-pointer", f"{POINTER_KEY} cannot be read", path, "restore the file from its payload")
            continue
        if pointer is None:
            _report_foreign(logged, instant, findings)
            continue
        entry = log.entries[pointer.slot] if 0 <= pointer.slot < len(log.entries) else None
        if pointer.slot > log.head:
            continue  # behind a gap or a broken slot, which is reported
        if pointer.table_id != log.table_id or not isinstance(entry, Complete) or entry.instant != instant.time:
            findings.error(
                "slot-pointer",
                f"points to slot {pointer.slot}, which does not complete it",
                path,
                "restore the file from its payload: writers start reading the log there",
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
            "a completed write of ours does not point to its slot",
            logged.subject.timeline.path(instant.file_name),
            "restore the file from its payload",
        )
        return
    if logged.log.entries[0].decision_id.startswith(ADOPTS):
        return  # a table of Apache Hudi, which goes on writing it
    findings.warning(
        "foreign-instant",
        f"{instant} was completed by a program without the commit log, such as Apache Hudi",
        logged.subject.timeline.path(instant.file_name),
        "give all writers one ZooKeeper lock, and Apache Hudi's the LAZY policy for failed writes",
    )


def _check_properties(logged: LogSubject, findings: Findings) -> None:
    kept: Settings = {}
    removed: set[str] = set()
    for _, entry in logged.log.since(-1):
        if isinstance(entry, Properties):
            kept = settings_in(entry) or kept
            removed = (removed | set(entry.remove)) - entry.set.keys()
    try:
        found = properties.loads(logged.subject.storage.get(PROPERTIES_PATH), PROPERTIES_PATH)
    except HudiOpsError:
        return  # the properties' own check reports it
    findings.looked("logged properties", len(kept))
    for one in differences(kept, found):
        findings.error(
            "properties-fold",
            str(one),
            PROPERTIES_PATH,
            "`hudi-ops repair-properties TABLE --from-log`, or --accept-file if somebody changed it on purpose; until then "
            "writers stop, and readers, too, but for the table type",
        )
    # Apache Hudi's writers drop a metadata table, or build one, as their options say.
    for key in sorted((removed & found.keys()) - {*METADATA_KEYS, *kept}):
        findings.error(
            "properties-fold",
            f"{key} is {found[key]}, the commit log removed it",
            PROPERTIES_PATH,
            "remove the line; settings of a table are changed through hudi-ops",
        )


def _check_ledgers(subject: Subject, findings: Findings) -> None:
    """The newest commit of ours carries the ledgers of all sources; without one its files would be taken twice."""
    newest = next((metadata for _, metadata in reversed(subject.writes) if POINTER_KEY in metadata.extra), None)
    for path in sorted(pointers(newest.extra if newest is not None else {}).values()):
        findings.looked("ledgers")
        try:
            files = json.loads(subject.storage.get(path))["files"]
        except NotFound:
            # A newer commit may have replaced it since the first reading.
            if subject.later.completed_writes == subject.timeline.completed_writes:
                findings.error(
                    "ledger-missing",
                    "the ledger that the newest commit names is gone: its source files would be taken twice",
                    path,
                    "restore it from a copy of the table before the next ingest",
                )
            continue
        except (ValueError, KeyError, TypeError, RecursionError):
            files = None
        if not isinstance(files, dict):
            findings.error(
                "ledger-broken", "not a source ledger", path, "restore it from a copy before the next ingest"
            )
