"""Every parser that reads storage, with whole bytes to begin from: taken from small tables of ours and of Apache Hudi."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from hudi_ops.commit.ledger import POINTER_PREFIX, read_ledger, source_id_of
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.lock.lock_nodes import from_node_data, to_node_data
from hudi_ops.concurrency.lock.locks import LockHolder
from hudi_ops.concurrency.markers import read_markers
from hudi_ops.config.table import PROPERTIES_PATH
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.files.log.log_file import LogFileReader
from hudi_ops.files.names import parse_data_file
from hudi_ops.formats import partition_metadata
from hudi_ops.formats.log.blocks import BlockKind
from hudi_ops.metadata.index_definitions import decode_index_definitions
from hudi_ops.metadata.reader.slice_files import WantedRecords, read_records
from hudi_ops.metadata.records.bloom_filters import decoded_filters
from hudi_ops.metadata.records.file_lists import decoded_entries
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.record_index import decoded_locations
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.stored_ranges import StoredRanges
from hudi_ops.metadata.writer.delta import MetadataDelta
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import Footprint, decode_footprint, encode_footprint, footprint_of
from hudi_ops.timeline.content.ledger_chain import Link, ledger_path, link_bytes
from hudi_ops.timeline.content.plans import decode_plan, decode_result
from hudi_ops.timeline.log.commit_log import Pointer
from hudi_ops.timeline.log.entries import decode_entry
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.view.file_group import DataFile
from tests.corruption.fuzzed_tables import TABLES

HISTORY = ".hoodie/timeline/history"
SOURCE = "file:///landing"


@dataclass(frozen=True)
class Parser:
    """One parser.

    Attributes:
        read: takes bytes and the path that errors are to name.
        whole: bytes that it reads, and their paths.
    """

    read: Callable[[bytes, str], object]
    whole: tuple[tuple[str, bytes], ...]


MARKERS = ".hoodie/.temp/20300317174000000/MARKERS0"
MARKER_LINES = "".join(
    f"part=p{n}/1111111{n}-1111-4111-8111-111111111111-0_0-1-2_20300317174000000.parquet.marker.CREATE\n"
    for n in range(4)
)


@cache
def storages() -> dict[str, MemoryStorage]:
    """All tables, made once."""
    return {name: make() for name, make in TABLES.items()}


def files(is_wanted: Callable[[str], object], most: int = 4) -> tuple[tuple[str, bytes], ...]:
    """The first files of each table whose paths are wanted, by path."""
    found = []
    for storage in storages().values():
        paths = [info.path for info in storage.list() if is_wanted(info.path) and info.size_bytes]
        found += [(path, storage.get(path)) for path in paths[:most]]
    assert found, "no table has such a file"
    return tuple(found)


def alone(path: str, data: bytes) -> MemoryStorage:
    storage = MemoryStorage()
    storage.put(path, data)
    return storage


def _base_file(data: bytes, path: str) -> object:
    reader = BaseFileReader(alone(path, data), path)
    whole = reader.read()
    return reader.footer, reader.might_hold(pa.chunked_array([["k1"]])), whole


def _log_file(data: bytes, path: str) -> object:
    reader = LogFileReader(alone(path, data), path)
    rows = [reader.rows(one) for one in reader.blocks if one.is_data]
    return rows, [reader.deletes(one) for one in reader.blocks if one.kind is BlockKind.DELETE]


def _metadata_file(data: bytes, path: str) -> object:
    name = parse_data_file(path.rpartition("/")[2])
    assert name is not None, path
    partition = MetadataPartition(path.split("/")[2])
    file = DataFile(partition.value, path, name.file_id, name.instant, len(data), name.is_log)
    found = read_records(alone(path, data), partition, file, WantedRecords(), lambda _: True, 9)
    return [_DECODERS[partition](part, path) for part in found]


def _ranges(records: Records, where: str) -> object:
    found = StoredRanges.read(records, where)
    columns = set(found.columns.to_pylist()) - {None}
    return found.ranges(), [found.of_column(name, pa.int64()) for name in sorted(columns)]


_DECODERS: dict[MetadataPartition, Callable[[Records, str], object]] = {
    MetadataPartition.FILES: decoded_entries,
    MetadataPartition.COLUMN_STATS: _ranges,
    MetadataPartition.PARTITION_STATS: _ranges,
    MetadataPartition.BLOOM_FILTERS: decoded_filters,
    MetadataPartition.RECORD_INDEX: decoded_locations,
}


def _history(data: bytes, path: str) -> object:
    """The archived timeline with one file or its manifest damaged."""
    storage = storages()["v9_cow_clean_savepoint_rollback_archive"].copy()
    storage.put(path, data)
    return load_history(storage, load_config(storage), with_content=True)


def _ledger_link(data: bytes, path: str) -> object:
    """A link, upon a base that is whole."""
    storage, source_id = alone(path, data), source_id_of(SOURCE)
    storage.put(ledger_path("1", source_id), link_bytes(Link("1", {"a.csv": (1, 2)}), source_id, SOURCE))
    return read_ledger(storage, {f"{POINTER_PREFIX}{source_id}": path}, SOURCE)


def _ledger(data: bytes, path: str) -> object:
    return read_ledger(alone(path, data), {f"{POINTER_PREFIX}{source_id_of(SOURCE)}": path}, SOURCE)


def _commit(data: bytes, path: str) -> object:
    found = CommitMetadata.from_bytes(data, path)
    return Pointer.decode(found.extra, path), footprint_of(found)


def _markers(data: bytes, path: str) -> object:
    """Markers, and the paths of data files that they name: whoever rolls the write back asks the storage for them."""
    storage = alone(path, data)
    announced = read_markers(storage, path.split("/")[2])
    return [storage.head(marker.data_path) for marker in announced.markers]


def _timeline(*words: str) -> Callable[[str], bool]:
    return lambda path: path.startswith(".hoodie/") and "/metadata/" not in path and path.endswith(words)


def _is_metadata_file(path: str) -> bool:
    parts = path.split("/")
    known = {one.value for one in _DECODERS}
    return path.startswith(".hoodie/metadata/") and parts[2] in known and parse_data_file(parts[-1]) is not None


def _plan(data: bytes, path: str) -> object:
    return decode_plan(path.split(".")[-2], data, path)


def _result(data: bytes, path: str) -> object:
    return decode_result(path.rpartition(".")[2], data, path)


def _is_base(path: str) -> bool:
    return not path.startswith(".hoodie") and path.endswith(".parquet")


def _is_log(path: str) -> bool:
    return not path.startswith(".hoodie") and ".log." in path and not path.endswith(".crc")


@cache
def parsers() -> dict[str, Parser]:
    """All of them, by name."""
    ledger = link_bytes(Link("1", {"a.csv": (1, 2)}, {"a.csv": ((1, 1),)}), source_id_of(SOURCE), SOURCE)
    link = link_bytes(Link("2", {"b.csv": (1, 2)}, upon=("1",)), source_id_of(SOURCE), SOURCE)
    plans = _timeline(*(f".{action}.requested" for action in ("clean", "compaction", "rollback", "clustering")))
    results = _timeline(".clean", ".rollback", ".savepoint", ".restore")
    lease = ".hoodie/.heartbeat/20300317174000000"
    holder = to_node_data(LockHolder("me", "host", "ingest", 5)).encode()
    footprint = encode_footprint(Footprint(frozenset({("p", "1")}), frozenset({"s"})))
    return {
        "properties": Parser(
            lambda data, path: load_config(alone(path, data)), files(lambda path: path == PROPERTIES_PATH)
        ),
        "commit": Parser(_commit, files(_timeline(".commit", ".deltacommit", ".replacecommit"))),
        "plan": Parser(_plan, files(plans, 9)),
        "result": Parser(_result, files(results, 9)),
        "slot": Parser(decode_entry, files(lambda path: re.search(r"commit_log/\d+/", path), 12)),
        "lease": Parser(
            lambda data, path: read_lease(alone(path, data), path.rpartition("/")[2]),
            tuple((lease, data) for _, data in files(lambda path: ".heartbeat/" in path)),
        ),
        "markers": Parser(_markers, ((MARKERS, MARKER_LINES.encode()),)),
        "lock node": Parser(lambda data, _: from_node_data(data, 1), (("node", holder),)),
        "intent": Parser(
            lambda data, _: decode_footprint(data.decode("utf-8", "replace")), (("intent", footprint.encode()),)
        ),
        "ledger": Parser(_ledger, ((".hoodie/.ingest/1/a.json", ledger),)),
        "ledger link": Parser(_ledger_link, ((ledger_path("2", source_id_of(SOURCE)), link),)),
        "index definitions": Parser(
            decode_index_definitions, files(lambda path: path.endswith("/.index_defs/index.json"))
        ),
        "partition metadata": Parser(
            partition_metadata.loads, files(lambda path: path.endswith(".hoodie_partition_metadata"))
        ),
        "delta": Parser(MetadataDelta.from_bytes, (("payload/metadata-0", _delta()),)),
        "history": Parser(
            _history, files(lambda path: path.startswith(f"{HISTORY}/") and not path.endswith((".crc", "_version_")))
        ),
        "metadata table": Parser(_metadata_file, files(_is_metadata_file, 40)),
        "base file": Parser(_base_file, files(_is_base, 2)),
        "log file": Parser(_log_file, files(_is_log, 3)),
    }


def _delta() -> bytes:
    above = MetadataDelta("2", (("b", b"2"),), b"{}")
    return MetadataDelta("1", (("a", b"1"),), b"{}", above).to_bytes()
