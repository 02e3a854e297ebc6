"""Records of one file of a metadata table: a base file, or counting log blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import NotFound, Unavailable
from hudi_ops.formats.hfile.reader import HFile, HFileReader
from hudi_ops.formats.large_arrays import to_text
from hudi_ops.formats.log.blocks import HeaderKey
from hudi_ops.formats.log.hfile_blocks import open_metadata_log
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.schema import record_schema
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.file_group import DataFile

WHOLE_BYTES = 1 << 20
"""Files up to this size are read in one request; of larger ones only requested parts."""

_SCHEMA = "schema"


@dataclass(frozen=True)
class WantedRecords:
    """Wanted records of a file group: all, by keys, or by key prefixes.

    Attributes:
        keys: texts in the order of their bytes, unique; None: not by key.
        prefixes: prefixes of keys; None: not by prefix.
    """

    keys: pa.StringArray | None = None
    prefixes: tuple[bytes, ...] | None = None

    def of(self, file: HFileReader) -> HFile:
        """Return the wanted entries of one HFile."""
        if self.keys is not None:
            return file.lookup(self.keys)
        return file.read() if self.prefixes is None else file.prefixes(self.prefixes)

    def deletes(self, keys: pa.StringArray) -> pa.StringArray:
        """Return the deleted keys that may matter, unique and in the order of their bytes."""
        wanted = keys if self.keys is None else keys.filter(pc.is_in(keys, self.keys))
        wanted = pc.unique(wanted)
        return wanted.take(pc.sort_indices(wanted))


def read_records(
    storage: Storage,
    partition: str,
    file: DataFile,
    wanted: WantedRecords,
    counts: Callable[[str], bool],
    version: int,
) -> list[Records]:
    """Read the wanted records of a base file, or of each block of a log file that counts.

    Parts are the oldest first. `version` gives the schema of log blocks that name none.

    Raises:
        Corrupt: the file does not follow its format.
        Unsupported: a block that counts is of a kind that is not read.
        Unavailable: the file is gone, or the storage did not deliver it.
    """
    own = record_schema(version)
    none, no_values = pa.array([], pa.string()), pa.array([], pa.binary())
    try:
        source = _source(storage, file)
        if not file.is_log:
            reader = HFileReader(source, file.path)
            schema = reader.info.get(_SCHEMA, own.encode()).decode()
            return [_of_hfile(partition, wanted.of(reader), schema)]
        found = []
        for block in open_metadata_log(source, file.path, counts):
            schema = block.headers.get(HeaderKey.SCHEMA, own)
            if isinstance(block.held, HFileReader):
                found.append(_of_hfile(partition, wanted.of(block.held), schema))
            elif len(deletes := wanted.deletes(block.held)):
                found.append(Records(partition, none, no_values, deletes, schema))
        return found
    except (NotFound, OSError) as error:
        raise Unavailable(
            f"a file of the metadata table could not be read: {error}",
            path=file.path,
            next_step="read again; the metadata table was compacted and cleaned at the same time. If this repeats, check "
            "the storage",
        ) from error


def _source(storage: Storage, file: DataFile) -> pa.NativeFile:
    return pa.BufferReader(storage.get(file.path)) if file.size_bytes <= WHOLE_BYTES else storage.open_input(file.path)


def _of_hfile(partition: str, found: HFile, schema: str) -> Records:
    return Records(partition, to_text(found.keys), found.values, pa.array([], pa.string()), schema)
