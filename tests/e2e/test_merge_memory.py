"""A slice several times larger than the memory that its reader may take still reads, batch by batch: base file and logs alike.

Method: a child process streams one slice (a base file of one row group, and log files that replace, add and delete rows of it),
Parquet and Avro; its peak of resident memory is measured by the system. What may be held are keys and places of the log records.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.files.base.base_file import WriterSettings, encode_base_file, stored_avro_schema, with_meta
from hudi_ops.files.log.log_file import encode_log_file
from hudi_ops.formats.log.deletes import Deletes

TEXT_BYTES = 1000
BASE_ROWS, LOGS, LOG_ROWS = 600_000, 8, 60_000
DELETES = 1000
GROWTH_MAX_BYTES = 300 << 20

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("text", pa.string())])
CHILD = """
import json, re, sys
from pathlib import Path
import pyarrow as pa
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.slice.slice_scan import SliceTask, open_scan
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.kernels.merging.merge import Ordering
from hudi_ops.storage.open import open_storage

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

pa.set_cpu_count(1)
schema = pa.schema([("_hoodie_record_key", pa.string()), ("ts", pa.int64()), ("text", pa.string())])
rules = MergeRules("t", Ordering.EVENT_TIME, schema.field("ts"), None, schema.remove(2).remove(1), pa.schema([]), None)
files = {path.name: path.stat().st_size for path in Path(sys.argv[1]).iterdir()}
logs = tuple((name, size) for name, size in sorted(files.items()) if ".log." in name)
(base,) = (name for name in files if ".log." not in name)
storage = open_storage(sys.argv[1])
task = SliceTask(storage, base, files[base], logs, rules, BlockInstants("9"), schema, tuple(schema.names))
# Whatever is loaded by the first use of anything is not what this measures.
pa.table({"a": pa.array([1]).to_numpy()}).join(pa.table({"a": [1]}), "a")
start, rows, size = peak(), 0, 0
scan = open_scan(task, streaming=True)
for batch in scan.batches():
    rows, size = rows + batch.num_rows, size + batch.nbytes
print(json.dumps({"start": start, "peak": peak(), "rows": rows, "size": size}))
"""


def rows(first: int, count: int, ts: int) -> pa.Table:
    keys = pa.array(f"{at:032d}" for at in range(first, first + count))
    text = pa.array(f"{at * 7919:010d}" * (TEXT_BYTES // 10) for at in range(first, first + count))
    plain = pa.table([keys, pa.repeat(pa.scalar(ts, pa.int64()), count), text], schema=SCHEMA)
    stored = with_meta(SCHEMA)
    meta = [keys if name == RECORD_KEY else pa.repeat(pa.scalar("m"), count) for name in stored.names[:5]]
    return pa.table([*meta, *plain.columns], schema=stored)


@pytest.fixture(scope="module", params=["parquet", "avro"] if os.environ.get("HUDI_OPS_SOAK") else ["parquet"])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(f"slice-{request.param}")
    base = encode_base_file(rows(0, BASE_ROWS, 1), "t", WriterSettings())
    (path / "a_0-0-0_1.parquet").write_bytes(base)
    del base
    for number in range(LOGS):
        # Half of each file replaces base rows, half adds rows; the last one deletes some.
        deletes = pa.array(f"{at:032d}" for at in range(DELETES)) if number == LOGS - 1 else pa.array([], pa.string())
        body = encode_log_file(
            rows(BASE_ROWS - LOG_ROWS // 2 + number * LOG_ROWS // 2, LOG_ROWS, 2),
            [Deletes(deletes, None)],
            instant=str(number + 2),
            partition_path="",
            avro_schema=stored_avro_schema(SCHEMA, "t", True),
            data_format=request.param,
            settings=WriterSettings(),
        )
        (path / f".a_{number + 2}.log.1_0-0-0").write_bytes(body)
        del body
    return path


def test_a_slice_larger_than_memory_reads_by_batches(large: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, str(large)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print({name: value >> 20 for name, value in found.items()})
    assert found["rows"] == BASE_ROWS + LOGS * LOG_ROWS // 2 - DELETES
    assert found["size"] >= found["rows"] * TEXT_BYTES > 2.5 * GROWTH_MAX_BYTES
    assert found["peak"] - found["start"] < GROWTH_MAX_BYTES
