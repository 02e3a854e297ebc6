"""Check secondary indexes: readers that use one do not see rows whose entries are missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from hudi_ops.errors import Unsupported
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.formats.large_arrays import places_in
from hudi_ops.index.doubled_keys import key_tasks
from hudi_ops.metadata.definitions import secondary_columns
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.metadata.slice_entries import entries_of_slice
from hudi_ops.verify.index.index_subject import AT_A_TIME, SHOWN_MAX, Differences, IndexSubject, reading_data
from hudi_ops.verify.report import Findings
from hudi_ops.view.slices import Slice


def check_secondary_index(subject: IndexSubject, name: str, findings: Findings) -> None:
    """Report rows without an entry and, without a sample, entries without a row."""
    table = subject.table
    try:
        columns = secondary_columns([name], table.schema, table.config, load_index_definitions(table.storage))
    except Unsupported as error:
        findings.info(
            "metadata-unread", f"hudi-ops cannot check metadata partition {name}: {error.found}", f"{FOLDER}/{name}"
        )
        return
    found = Differences(findings, name)
    whole = subject.metadata.read(name).keys
    is_live = np.zeros(len(whole), bool)
    for slice_, entries in _entries(subject, columns[name]):
        findings.looked("entries of secondary indexes", len(entries))
        places = places_in(entries, whole)
        for entry in entries.filter(places.is_null()).slice(0, SHOWN_MAX).to_pylist():
            what = f"no entry {entry!r} of file group {slice_.file_id} in partition {slice_.partition_path or '.'}"
            where = slice_.base.path if slice_.base is not None else slice_.logs[0].path
            found.report("error", "rows that are missing", f"{what}: readers that ask it do not see the row", where)
        is_live[places.drop_null().to_numpy()] = True
    if subject.sample is None and not is_live.all():
        rest = whole.filter(pa.array(~is_live))
        some = ", ".join(map(repr, rest.slice(0, 3).to_pylist()))
        found.report("warning", "entries of no row", f"{len(rest)} entries of rows that are not in the table: {some}")
    found.close()


def _entries(subject: IndexSubject, column: str) -> Iterable[tuple[Slice, pa.Array]]:
    """Yield the entries of the sampled slices."""
    table = subject.table
    slices: Sequence[Slice] = subject.sampled
    read = partial(entries_of_slice, version=table.config.version)
    for start in range(0, len(slices), AT_A_TIME):
        held = slices[start : start + AT_A_TIME]
        with reading_data():
            spec = MergeRules.of(table.config, table.schema).keys
            tasks = key_tasks(table.storage, table.config, table.timeline, table.schema, spec, held, [column])
            found = [each[1] for each in table.engine.map(read, tasks)]
        yield from zip(held, found, strict=True)
