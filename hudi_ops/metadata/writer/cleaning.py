"""Files of a metadata table that no reader needs any more (docs/format §14.4)."""

from __future__ import annotations

from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.instants import MetadataInstants
from hudi_ops.storage.protocol import FileInfo, Folder


def superseded_files(folder: Folder, instants: MetadataInstants, newest: str, before_ms: int) -> list[str]:
    """Return the files that no reader needs any more, log files before their base files.

    These are files of slices older than one that existed by `before_ms`, since a reader of an older one began earlier, and base
    files that never counted. `newest` is the time of a compaction completed since the listing. Where compactions follow each other
    faster, the slices made since `before_ms` stay.
    """
    bases: dict[str, list[tuple[str, FileInfo]]] = {}
    logs: dict[str, list[tuple[str, FileInfo]]] = {}
    gone: list[str] = []
    for info in folder.files:
        name = parse_data_file(info.name)
        if name is None:
            continue
        if name.is_log:
            logs.setdefault(name.file_id, []).append((name.instant, info))
        elif instants.is_committed(name.instant):
            bases.setdefault(name.file_id, []).append((name.instant, info))
        elif instants.own.find(name.instant) is None and name.instant < newest:
            gone.append(info.path)
    for file_id, held in bases.items():
        instant = max((made for made, base in held if made < newest and base.modified_ms < before_ms), default="")
        if instant:
            of_group = [(written, log) for written, log in logs.get(file_id, []) if instants.is_committed(written)]
            upon = instants.lie_upon([(written, instant) for written, _ in of_group])
            gone += [log.path for (_, log), is_newer in zip(of_group, upon, strict=True) if not is_newer]
            gone += [base.path for older, base in held if older < instant]
    return gone
