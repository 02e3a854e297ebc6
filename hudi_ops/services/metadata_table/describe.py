"""Describe a metadata table: partitions, file groups, files, deltas since its compaction."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.engine.local import LocalEngine
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER, is_kept
from hudi_ops.metadata.writer.compaction import compactions, deltas_since_compaction
from hudi_ops.services.base.result import Result
from hudi_ops.storage.protocol import Folder, Storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.settings.properties_file import load_config


@dataclass(frozen=True)
class PartitionFacts:
    """One partition. `state` is `used`, `being built`, or `left`: files that no reader uses.

    `log_files` and `log_bytes` count what a reader merges with the newest base files; `bytes` counts all files.
    """

    name: str
    state: str
    kept: bool
    file_groups: int
    base_files: int
    log_files: int
    bytes: int
    log_bytes: int


@dataclass(frozen=True)
class MetadataFacts(Result):
    """A metadata table; `behind` names completed writes that it lacks, so readers ignore it."""

    table: str
    partitions: tuple[PartitionFacts, ...]
    deltas_since_compaction: int
    last_compaction: str | None
    bytes: int
    behind: tuple[str, ...]


def describe_metadata(storage: Storage) -> MetadataFacts:
    """Describe the metadata table of a table; without partitions where there is none.

    Raises:
        InvalidRequest: the path is not a table.
    """
    config = load_config(storage)
    data = load_timeline(storage, config)
    own = load_metadata_timeline(storage)
    instants = MetadataInstants(own, data, ArchivedTimes(storage))
    on_storage = [name for name in storage.list_folder(FOLDER).folders if not name.startswith(".")]
    names = sorted({*config.all_metadata_partitions, *on_storage})
    folders = LocalEngine().map(lambda name: storage.list_folder(f"{FOLDER}/{name}"), names)
    states = {
        **dict.fromkeys(config.metadata_partitions_inflight, "being built"),
        **dict.fromkeys(config.metadata_partitions, "used"),
    }
    found = tuple(
        _facts(name, states.get(name, "left"), folder, instants) for name, folder in zip(names, folders, strict=True)
    )
    return MetadataFacts(
        table=config.name,
        partitions=found,
        deltas_since_compaction=deltas_since_compaction(own),
        last_compaction=max(compactions(own), default=None),
        bytes=sum(partition.bytes for partition in found),
        behind=instants.missing if config.metadata_partitions else (),
    )


def _facts(name: str, state: str, folder: Folder, instants: MetadataInstants) -> PartitionFacts:
    bases: dict[str, str] = {}
    logs: list[tuple[str, str, int]] = []
    for info in folder.files:
        parsed = parse_data_file(info.name)
        if parsed is None:
            continue
        if parsed.is_log:
            logs.append((parsed.file_id, parsed.instant, info.size_bytes))
        elif instants.is_committed(parsed.instant):
            bases[parsed.file_id] = max(parsed.instant, bases.get(parsed.file_id, ""))
    upon = instants.lie_upon([(written, bases.get(file_id, "")) for file_id, written, _ in logs])
    merged = [size for (_, _, size), is_newest in zip(logs, upon, strict=True) if is_newest]
    return PartitionFacts(
        name=name,
        state=state,
        kept=is_kept(name),
        file_groups=len({*bases, *(file_id for file_id, _, _ in logs)}),
        base_files=len(bases),
        log_files=len(merged),
        bytes=sum(info.size_bytes for info in folder.files),
        log_bytes=sum(merged),
    )
