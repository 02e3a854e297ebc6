"""The metadata table against its data table: a write that it does not know is invisible to its readers (docs/format.md §9.6)."""

from __future__ import annotations

from hudi_ops.timeline.active import timeline_of
from hudi_ops.timeline.names import parse_file_name
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject

_FOLDER = ".hoodie/metadata/.hoodie"


def check_metadata_table(subject: Subject, findings: Findings) -> None:
    """Every completed write since the metadata table's first one must be completed there too."""
    if not subject.has_metadata_table:
        return
    folder = f"{_FOLDER}/timeline" if subject.config.layout == 2 else _FOLDER
    names = [info.name for info in subject.under(folder) if info.path == f"{folder}/{info.name}"]
    files = [file for name in names if (file := parse_file_name(name, subject.config.layout)) is not None]
    known = {one.time for one in timeline_of(files, folder, subject.config.layout) if one.is_completed}
    # Bootstrap instants of the metadata table are numbers, not times; they sort before every time.
    first = min((time for time in known if not time.startswith("0000")), default="")
    for instant in subject.timeline.completed_writes:
        findings.looked("writes in the metadata table")
        if first and instant.time > first and instant.time not in known:
            findings.error(
                "metadata-behind",
                "the metadata table lacks this write: readers that use it do not see its rows",
                subject.timeline.path(instant.file_name),
                "drop the metadata table with Apache Hudi (hoodie.metadata.enable=false, one write), then let it be built again",
            )
