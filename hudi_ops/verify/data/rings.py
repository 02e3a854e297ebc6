"""Check hash rings: whole files, a node for each hash and group, leftovers of resizes.

Source: docs/protocol §27.
"""

from __future__ import annotations

from collections.abc import Set

import pyarrow as pa

from hudi_ops.config.table import TableFacts
from hudi_ops.errors import Corrupt, HudiOpsError, NotFound
from hudi_ops.index.bucket_engine import ring_engine_of
from hudi_ops.index.misleading_rings import RENEW_EMPTY, RENEW_ROWS
from hudi_ops.index.ring import INITIAL, Ring, parse_ring
from hudi_ops.index.ring_files import RINGS_FOLDER, RingReader, ring_path, ring_versions, rings_made
from hudi_ops.index.simple_bucket import bucket_of
from hudi_ops.kernels.keys.hashing import bucket_hash_values, bucket_ids
from hudi_ops.timeline.log.commit_log import Log
from hudi_ops.verify.data.resizes import Leftovers
from hudi_ops.verify.report import RESTORE, Findings
from hudi_ops.verify.subject import Subject


def check_rings(subject: Subject, log: Log, findings: Findings) -> dict[str, Ring]:
    """Check the rings of a table; return the present one of each partition with files."""
    facts = log.properties.facts
    # The log does not name the index of a table that only Apache Hudi writes.
    if not facts.has_ring and (facts.takes_rows or not subject.under(RINGS_FOLDER)):
        return {}
    _check_versions(subject, findings)
    reader = RingReader(subject.storage, subject.config, subject.later, subject.commits, log)
    left = Leftovers.of(subject, reader)
    lost, replaced = _check_named(subject, findings), _replaced(subject)
    groups: dict[str, set[str]] = {}
    for slice_ in subject.slices:
        groups.setdefault(slice_.partition_path, set()).add(slice_.file_id)
    rings: dict[str, Ring] = {}
    for path, file_ids in sorted(({path: set[str]() for path in left.versions} | groups).items()):
        try:
            ring = reader.read(path)
        except Corrupt as error:
            if not any(
                found.invariant == "ring-broken" and found.where == error.details.get("file")
                for found in findings.found
            ):
                findings.error("ring-broken", error.what, str(error.details.get("file", path)), RESTORE)
            continue
        except HudiOpsError as error:
            findings.info("ring-unread", error.what, path or ".", error.next_step)
            continue
        if ring is None and not file_ids:
            continue
        if ring is None:
            findings.error(
                "ring-missing",
                "the partition has file groups and no hash ring: writes to it are refused",
                ring_path(path, INITIAL),
                RESTORE,
            )
            continue
        named = {ring.file_id(node) for node in range(len(ring.prefixes))}
        if path not in lost and not replaced.isdisjoint((path, file_id) for file_id in named - file_ids):
            _report_replaced(ring, file_ids, findings)
            continue
        left.check_versions(path, findings)
        if not file_ids or ring.instant in subject.undone:
            continue
        rings[path] = ring
        _report_unsealed(subject, ring, left, findings)
        strange = {file_id for file_id in file_ids - named if (path, file_id) not in left.groups}
        for file_id in sorted(strange):
            findings.error(
                "ring-group-unknown",
                f"file group {file_id} belongs to no node of ring {ring.instant}: updates insert its keys again",
                path or ".",
                "find out which writer does not use the hash ring, and move its rows by upserts",
            )
    left.check_logs(findings)
    findings.looked("hash rings", len(rings))
    return rings


def _report_replaced(ring: Ring, file_ids: Set[str], findings: Findings) -> None:
    """Report a ring into groups that are replaced: writes to the partition are refused."""
    (findings.error if file_ids else findings.warning)(
        "ring-replaced",
        f"another writer replaced file groups of the hash ring of {ring.instant} and left it: writes there are refused",
        ring.partition_path or ".",
        RENEW_ROWS if file_ids else RENEW_EMPTY,
    )


def _report_unsealed(subject: Subject, ring: Ring, left: Leftovers, findings: Findings) -> None:
    """Report an archived ring without a `.commit` file: Apache Hudi does not count it."""
    is_sealed = ring.instant in {INITIAL, *left.versions[ring.partition_path].committed}
    if not is_sealed and subject.later.find(ring.instant) is None:
        findings.warning(
            "ring-unsealed",
            f"the hash ring of {ring.instant}, which was archived, has no `.commit` file: Apache Hudi would use an older ring",
            ring_path(ring.partition_path, ring.instant),
            "run `hudi-ops repair TABLE ring-unsealed`",
        )


def _replaced(subject: Subject) -> frozenset[tuple[str, str]]:
    """Return partition path and file id of groups that writes, not resizes, replaced."""
    return frozenset(
        group for _, metadata in subject.writes if metadata.operation != "CLUSTER" for group in metadata.replaced_groups
    )


def _check_named(subject: Subject, findings: Findings) -> Set[str]:
    """Report writes whose ring file is lost, without a newer ring; return their partitions.

    An older ring names replaced groups, where no reader sees rows.
    """
    lost = set()
    for write in subject.later.completed_writes:
        metadata = subject.commits.metadata(subject.later, write) if write.kind == "replacecommit" else None
        try:
            made = rings_made(metadata.extra, write.file_name) if metadata is not None else frozenset()
        except Corrupt as error:
            findings.error("ring-broken", error.what, write.file_name, RESTORE)
            continue
        for path in sorted(made):
            versions = ring_versions(subject.storage, path)
            if max(versions.rings, default="") < write.time and max(versions.committed, default="") < write.time:
                lost.add(path)
                findings.error(
                    "ring-missing",
                    f"{write.action} {write.time} made a hash ring of the partition, and its file is gone: an older ring names "
                    "file groups that were replaced",
                    ring_path(path, write.time),
                    RESTORE,
                )
    return lost


def misplaced(keys: pa.Array, file_id: str, facts: TableFacts, ring: Ring | None) -> int:
    """Return how many keys do not belong to a file group, as far as its bucket or ring is known."""
    if facts.has_ring:
        if ring is None or file_id.removesuffix("-0") not in ring.prefixes:
            return 0
        engine = ring_engine_of(facts)
        nodes = engine.lookup(ring).nodes_of(engine.hashes(keys))
        return int((nodes != ring.prefixes.index(file_id.removesuffix("-0"))).sum())
    bucket = bucket_of(file_id)
    if not facts.has_buckets or bucket is None:
        return 0
    return int((bucket_ids(bucket_hash_values(keys, facts.hash_fields), facts.buckets) != bucket).sum())


def _check_versions(subject: Subject, findings: Findings) -> None:
    """Check every version of every ring, those that do not count included."""
    folders = {info.path.rpartition("/")[0] for info in subject.under(RINGS_FOLDER)}
    for folder in sorted(folders):
        path = folder.removeprefix(RINGS_FOLDER).removeprefix("/")
        for instant in ring_versions(subject.storage, path).rings:
            file = ring_path(path, instant)
            try:
                parse_ring(subject.storage.get(file), file, path, instant)
            except NotFound:
                continue  # a clean deleted the old version after it was listed
            except Corrupt as error:
                findings.error("ring-broken", error.what, file, RESTORE)
