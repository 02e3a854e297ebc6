"""Find leftovers of resizes: log files of buckets that were never made, and unused rings.

Source: docs/protocol §27, §29.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from hudi_ops.errors import Conflict, HudiOpsError
from hudi_ops.files.names import parse_data_file
from hudi_ops.index.resizes import changes_of
from hudi_ops.index.ring import parse_ring
from hudi_ops.index.ring_files import RingReader, RingVersions, all_ring_versions, committed_path, ring_path
from hudi_ops.timeline.content.footprint import is_child_log
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import NamedFile, Subject


def needs_child(subject: Subject, resize: Instant, group: tuple[str, str]) -> bool:
    """Return whether a pending resize will make a child group from its child logs.

    It will not if it is cancelled, or if it leaves out the plan group because a write replaced a parent, or wrote to a parent and
    not to the children.
    """
    if subject.is_marked(resize.time):
        return False
    try:
        plan = read_plan(subject.storage, subject.later, resize)
        changes = changes_of(plan, subject.config.name, resize.time) if isinstance(plan, ReplacePlan) else ()
    except HudiOpsError:
        return False  # `check_pending` reports the plan
    path, file_id = group
    change = next((one for one in changes if one.partition_path == path and file_id[:-2] in one.prefixes), None)
    if change is None:
        return False
    parents, children = {*change.parents}, {f"{prefix}-0" for prefix in change.prefixes}
    for write, metadata in subject.writes:
        if write.completion_time > resize.time:
            ids = {stat.file_id for stat in metadata.stats if stat.partition_path == path}
            replaced = {*(metadata.replaced or {}).get(path, ())}
            if not parents.isdisjoint(replaced) or (not parents.isdisjoint(ids) and children.isdisjoint(ids)):
                return False
    return True


@dataclass(frozen=True)
class Leftovers:
    """Leftovers of resizes that are not pending any more."""

    subject: Subject
    reader: RingReader
    versions: Mapping[str, RingVersions]

    @classmethod
    def of(cls, subject: Subject, reader: RingReader) -> Leftovers:
        """Return the leftovers of a table."""
        return cls(subject, reader, all_ring_versions(subject.storage))

    @cached_property
    def logs(self) -> list[tuple[NamedFile, str]]:
        """Log files of buckets that a resize did not make, each with the instant of the resize.

        Completed writes name them, so no other check finds them. A bucket was made if it has a base file, or if the ring of the
        resize counts and names it.
        """
        return list(self._left_logs())

    @property
    def groups(self) -> frozenset[tuple[str, str]]:
        """Return partition path and file id of the groups of these log files."""
        return frozenset((file.stat.partition_path, file.stat.file_id) for file, _ in self.logs)

    def check_logs(self, findings: Findings) -> None:
        """Report the log files: sooner or later readers show their rows twice."""
        subject = self.subject
        for file, resize in self.logs:
            completed = subject.timeline.find(resize) is not None
            is_old = resize < subject.timeline.start and not subject.has_metadata_table
            fate = "left this bucket out" if completed else "was undone"
            effect = "readers may show its rows twice" + (
                "" if completed or is_old else " once the timeline starts later"
            )
            (findings.error if completed or is_old else findings.warning)(
                "resize-log-left",
                f"the resize {resize} {fate}, and a log file of the bucket is left; its rows are in the old bucket: {effect}",
                file.path,
                "delete it",
            )

    def check_versions(self, partition_path: str, findings: Findings) -> None:
        """Report the rings of a partition that neither count nor are pending.

        A `.commit` file beside the ring of an undone instant is an error: writers follow that ring.
        """
        versions = self.versions.get(partition_path, RingVersions(partition_path, (), frozenset()))
        for instant in versions.rings:
            path = ring_path(partition_path, instant)
            if instant in self.subject.undone and instant in versions.committed:
                findings.error(
                    "ring-left",
                    f"{self.subject.undone[instant]} undid {instant}, and its hash ring still counts: writers look for buckets "
                    "that do not exist",
                    committed_path(partition_path, instant),
                    "run `hudi-ops repair TABLE ring-left`",
                )
            elif self._is_unproven(instant, versions):
                findings.info(
                    "ring-left",
                    f"a hash ring of {instant}, which did not complete: readers and writers ignore it",
                    path,
                    "run `hudi-ops repair TABLE ring-left`",
                )

    def _is_unproven(self, instant: str, versions: RingVersions) -> bool:
        subject = self.subject
        if subject.timeline.find(instant) is not None or subject.later.find(instant) is not None:
            return False
        try:
            return not self.reader.counts(instant, versions)
        except Conflict:
            return False  # it was committed meanwhile

    def _left_logs(self) -> Iterator[tuple[NamedFile, str]]:
        subject = self.subject
        if subject.config.layout == 1:
            return
        based = {(file.partition_path, file.name.file_id) for file in subject.data_files if not file.is_log}
        for path, file in subject.named.items():
            name = parse_data_file(file.stat.file_name) if is_child_log(file.stat, file.instant.time) else None
            if name is None or name.is_cdc or path not in subject.sizes or path in subject.removed:
                continue
            found = (subject.timeline.find(name.instant), subject.later.find(name.instant))
            group = (file.stat.partition_path, file.stat.file_id)
            if any(one is not None and not one.is_completed for one in found) or group in based | subject.replaced:
                continue
            if not self._was_made(*group, name.instant) and subject.storage.head(path) is not None:
                yield file, name.instant

    def _was_made(self, partition_path: str, file_id: str, resize: str) -> bool:
        """Return whether the ring of a resize counts and names a group."""
        versions = self.versions.get(partition_path)
        if versions is None or resize not in versions.rings:
            return False
        path = ring_path(partition_path, resize)
        try:
            ring = parse_ring(self.subject.storage.get(path), path, partition_path, resize)
            return file_id.removesuffix("-0") in ring.prefixes and self.reader.counts(resize, versions)
        except HudiOpsError:
            return True  # another check reports the ring; without a readable ring no file counts as a leftover
