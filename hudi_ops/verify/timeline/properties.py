"""Invariants of `hoodie.properties` (docs/format §1.3 to §1.5)."""

from __future__ import annotations

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.config.table import BACKUP_PATH, PROPERTIES_PATH
from hudi_ops.errors import Corrupt, HudiOpsError, NotFound
from hudi_ops.formats import properties
from hudi_ops.metadata.records.partitions import is_kept, rebuild_command
from hudi_ops.verify.report import RESTORE, Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.view.schema import row_schema, table_schema

_REQUIRED = ("hoodie.table.name", "hoodie.table.type", "hoodie.table.version", "hoodie.timeline.layout.version")


def check_properties(subject: Subject, findings: Findings) -> None:
    """Check the file itself: the settings in force may come from its backup."""
    if BACKUP_PATH in subject.sizes:
        findings.warning(
            "properties-backup",
            "an update of hoodie.properties was interrupted, or is running",
            BACKUP_PATH,
            "if no update is running: copy the backup over a missing or broken hoodie.properties, then delete the backup",
        )
    try:
        raw = properties.loads(subject.storage.get(PROPERTIES_PATH), PROPERTIES_PATH)
    except NotFound:
        findings.error(
            "properties-missing",
            "hoodie.properties is missing; its backup is in force",
            PROPERTIES_PATH,
            "copy the backup to hoodie.properties",
        )
        return
    except Corrupt as error:
        findings.error("properties-broken", error.what, PROPERTIES_PATH, "copy hoodie.properties.backup over it")
        return
    findings.looked("properties", len(raw))
    _check_values(raw, findings)
    _check_fields(subject, findings)
    _check_metadata_partitions(subject, findings)


def _check_values(raw: dict[str, str], findings: Findings) -> None:
    for key in _REQUIRED:
        if not raw.get(key):
            findings.error("properties-key", f"{key} is missing", PROPERTIES_PATH, RESTORE)
    version, layout = raw.get("hoodie.table.version", ""), raw.get("hoodie.timeline.layout.version", "")
    if version.isdecimal() and layout.isdecimal() and (int(version) >= 8) != (layout == "2"):
        findings.error(
            "properties-layout",
            f"timeline layout {layout} does not match table version {version}",
            PROPERTIES_PATH,
            "set hoodie.timeline.layout.version to 1 for versions up to 7, to 2 from version 8 on",
        )
    if version == "9" and raw.get("hoodie.table.type") == "MERGE_ON_READ" and not raw.get("hoodie.record.merge.mode"):
        findings.error(
            "properties-key",
            "hoodie.record.merge.mode is missing: Apache Hudi fails on a merge-on-read table of version 9 without it",
            PROPERTIES_PATH,
            "set it to EVENT_TIME_ORDERING or COMMIT_TIME_ORDERING",
        )
    found = raw.get("hoodie.table.checksum")
    expected = properties.table_checksum(raw.get("hoodie.table.name", ""), raw.get("hoodie.database.name", ""))
    if found is not None and found != expected:
        findings.error(
            "properties-checksum",
            f"hoodie.table.checksum is {found}, expected {expected} for this name and database: Apache Hudi refuses the file",
            PROPERTIES_PATH,
            "restore the file from its backup or from a copy of the table",
        )


def _check_fields(subject: Subject, findings: Findings) -> None:
    config = subject.config
    try:
        schema = table_schema(config, subject.timeline, subject.commits)
        columns = {*META_COLUMNS, *row_schema(config, schema).names}
    except HudiOpsError as error:
        # `check_timeline` reports broken commits.
        if not isinstance(error, Corrupt):
            findings.info("schema-unreadable", error.what, PROPERTIES_PATH)
        return
    for role, fields in (
        ("record key", config.record_key_fields),
        ("partition", config.partition_fields),
        ("ordering", config.ordering_fields),
    ):
        for field in fields:
            findings.looked("table fields")
            if field.split(".")[0] not in columns:
                findings.error(
                    "properties-field",
                    f"{role} field {field} is not a column of the table",
                    PROPERTIES_PATH,
                    "correct the property: until then writers fail or route rows wrongly",
                )


def _check_metadata_partitions(subject: Subject, findings: Findings) -> None:
    config = subject.config
    for partition in config.metadata_partitions_inflight:
        findings.info(
            "metadata-inflight",
            f"metadata partition {partition} is being built, or its build was abandoned",
            PROPERTIES_PATH,
            "finish or drop the index with the program that builds it",
        )
    for partition in config.metadata_partitions:
        findings.looked("metadata partitions")
        if not subject.under(f".hoodie/metadata/{partition}"):
            findings.error(
                "metadata-missing",
                f"metadata partition {partition} is listed in hoodie.properties, but does not exist",
                f".hoodie/metadata/{partition}",
                f"run {rebuild_command(partition)}"
                if is_kept(partition)
                else f"run `hudi-ops index TABLE drop {partition}`",
            )
