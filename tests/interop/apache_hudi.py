"""Client of the interop peer: starts `peer.py` in the interop environment and speaks its JSON lines.

Every call has a deadline; an error of the JVM comes back as `HudiPeerError` with the Java messages and what was logged.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from tests.signals import freeze, thaw

REPOSITORY = Path(__file__).resolve().parents[2]
BUNDLE = "hudi-spark3.5-bundle_2.12-{release}.jar"


def _pinned(name: str) -> str:
    """A release, or the sha256 of its bundle, as `bin/bootstrap` gets it: the one place that names them."""
    found = re.search(rf"\b{name}=(\S+)", (REPOSITORY / "bin" / "bootstrap").read_text(encoding="utf-8"))
    assert found, f"bin/bootstrap does not set {name}"
    return found[1]


_CHOSEN = os.environ.get("HUDI_OPS_COMPARED", "HUDI")
IS_PINNED = _CHOSEN == "HUDI"
"""Whether the release is the one of every run; the soak repeats the comparisons with HUDI_OPS_COMPARED=HUDI_BEFORE."""
RELEASE, BUNDLE_SHA256 = _pinned(_CHOSEN), _pinned(f"{_CHOSEN}_SHA256")
"""The release that others are compared with."""
RELEASE_OF_VERSION_8 = _pinned("HUDI_OF_VERSION_8")
"""The last release that writes table version 8 by default, and cannot open version 9."""


class HudiPeerError(Exception):
    """Apache Hudi, Spark or the peer itself failed; the text holds the Java messages."""


class MissingInteropEnvironment(Exception):
    """The interop environment is not there; the text says which command makes it."""


def interop_environment(release: str = RELEASE) -> tuple[Path, Path]:
    """Python and bundle jar of the interop environment: `.interop` of the repository, or `HUDI_OPS_INTEROP`."""
    home = Path(os.environ.get("HUDI_OPS_INTEROP") or REPOSITORY / ".interop")
    python, jar = home / "venv" / "bin" / "python", home / "jars" / BUNDLE.format(release=release)
    option = "--interop" + ("" if release == _pinned("HUDI") else f"-{release.rpartition('.')[0]}")
    for needed in (python, jar):
        if not needed.exists():
            raise MissingInteropEnvironment(f"{needed} is missing.\n  Next: run bin/bootstrap {option}")
    return python, jar


class HudiPeer:
    """Apache Hudi on Spark 3.5 as reader, writer and servicer of tables; the process starts with the first call.

    Args:
        timeout_s: how long one command may take.
        release: of Apache Hudi, `RELEASE` or `RELEASE_OF_VERSION_8`.
        timezone: that of its Java, which tables in local time follow.
    """

    def __init__(self, timeout_s: float = 240.0, release: str = RELEASE, timezone: str = "UTC") -> None:
        self._timeout_s = timeout_s
        self._timezone = timezone
        self._release = release
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._jvm_pid = 0
        self.guard = threading.RLock()
        """Held while the process is started or killed."""
        self._folder = tempfile.TemporaryDirectory(prefix="hudi-peer-")
        self._files = 0
        self._calls = 0
        self._logged = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> Path:
        """What Spark and the JVM print."""
        return Path(self._folder.name) / "peer.log"

    def read(
        self,
        path: Path | str,
        as_of: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        options: dict[str, str] | None = None,
    ) -> pa.Table:
        """Snapshot, or the table as of a request time; with the `_hoodie_*` columns."""
        wanted = list(columns) if columns is not None else None
        return self._rows("read", path=str(path), as_of=as_of, columns=wanted, where=where, options=options)

    def incremental(self, path: Path | str, begin: str = "000", end: str | None = None) -> pa.Table:
        """Rows of the commits completed in (begin, end]."""
        return self._rows("incremental", path=str(path), begin=begin, end=end)

    def write(
        self,
        path: Path | str,
        data: pa.Table,
        operation: str = "upsert",
        *,
        mode: str = "append",
        buckets: int | None = None,
        options: dict[str, str] | None = None,
    ) -> None:
        """Writes rows into a table; names, keys and ordering come from its hoodie.properties, or from `options`.

        Args:
            path: the table; with mode `overwrite` it may not exist yet, and `options` must name keys and table.
            data: the rows.
            operation: upsert, insert, bulk_insert, delete, insert_overwrite, …
            mode: Spark's save mode.
            buckets: use the simple bucket index with so many buckets, hashing all key fields.
            options: further or other `hoodie.*` options.
        """
        source = self._file("parquet")
        pq.write_table(data, source)
        merged = {**table_options(Path(path)), **(options or {})}
        if self._release == _pinned("HUDI") and _has_milliseconds(Path(path)):
            merged = {"hoodie.datasource.write.reconcile.schema": "true", **merged}
        if buckets is not None:
            merged = {**bucket_options(buckets, merged["hoodie.datasource.write.recordkey.field"]), **merged}
        self.call("write", path=str(path), data=str(source), operation=operation, mode=mode, options=merged)

    def sql(
        self, statement: str, *, tables: dict[str, Path] | None = None, conf: dict[str, str] | None = None
    ) -> pa.Table:
        """One SQL statement or procedure; `tables` are registered under their names first."""
        names = {name: str(path) for name, path in (tables or {}).items()}
        return self._rows("sql", statement=statement, tables=names, conf=conf)

    def timeline(self, path: Path | str) -> dict[str, Any]:
        """As Hudi's client sees it: `version`, `instants` (time, completed_at, action, state), `archived` (a count)."""
        told: dict[str, Any] = self.call("timeline", path=str(path))
        return told

    def schedule_clean(self, path: Path | str, table: str, options: dict[str, str]) -> str | None:
        """Plan a clean and leave it pending; returns its instant, None if nothing is due."""
        merged = {**table_options(Path(path)), **options}
        planned: str | None = self.call("schedule_clean", path=str(path), table=table, options=merged)
        return planned

    def bucket_ids(self, keys: Sequence[str], fields: str, buckets: int) -> list[int]:
        """The bucket of each record key by Apache Hudi's own hash."""
        found: list[int] = self.call("bucket_id", keys=list(keys), fields=fields, buckets=buckets)
        return found

    def call(self, command: str, **fields: Any) -> Any:
        """Sends one command and returns its answer.

        Raises:
            HudiPeerError: the peer answered with an error, died, or was silent for too long.
        """
        process = self._started()
        self._calls += 1
        self._logged = self.log.stat().st_size
        assert process.stdin is not None
        process.stdin.write(json.dumps({"id": self._calls, "command": command, **fields}) + "\n")
        process.stdin.flush()
        return self._answer(self._calls, command)

    def start(self) -> None:
        """Starts the process now, and not with the first call."""
        self._started()

    def kill(self) -> None:
        """Ends Java and its Python as a crash would; who waits for an answer gets a `HudiPeerError`, the next call starts anew."""
        with self.guard:
            if self._process is not None:
                if self._jvm_pid:
                    os.kill(
                        self._jvm_pid, signal.SIGKILL
                    )  # first: it would leave in good order when its Python is gone
                self._end()

    def _end(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process, self._jvm_pid = None, 0

    def pause(self) -> None:
        """Freezes Java (SIGSTOP); sessions and heartbeats go stale."""
        assert self._jvm_pid
        freeze(self._jvm_pid)

    def resume(self) -> None:
        """Lets Java go on."""
        assert self._jvm_pid
        thaw(self._jvm_pid)

    def close(self) -> None:
        """Stops the process and removes its files."""
        if self._process is not None:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):
                self._process.stdin.close()  # the end of stdin stops the peer, and Spark with it
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        self._folder.cleanup()

    def _rows(self, command: str, **fields: Any) -> pa.Table:
        out = self._file("arrow")
        self.call(command, out=str(out), **fields)
        with pa.memory_map(str(out)) as source:
            table = pa.ipc.open_file(source).read_all()
        out.unlink()
        return table

    def _file(self, suffix: str) -> Path:
        self._files += 1
        return Path(self._folder.name) / f"{self._files}.{suffix}"

    def _started(self) -> subprocess.Popen[str]:
        with self.guard:
            return self._running()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            python, jar = interop_environment(self._release)
            # Another Spark's home or worker Python, inherited from the test's environment, would be used instead.
            env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
            with open(self.log, "w", encoding="utf-8") as log:
                self._process = subprocess.Popen(
                    [str(python), str(REPOSITORY / "tests" / "interop" / "peer.py"), str(jar)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self._folder.name,
                    env={
                        **env,
                        "PYSPARK_PYTHON": str(python),
                        "PYSPARK_DRIVER_PYTHON": str(python),
                        "HUDI_PEER_TIMEZONE": self._timezone,
                    },
                    text=True,
                )
            self._answers = queue.Queue()
            threading.Thread(target=self._listen, args=(self._process, self._answers), daemon=True).start()
            self._calls = 0
            self._jvm_pid = self._answer(0, "start")["pid"]
        return self._process

    def _listen(self, process: subprocess.Popen[str], answers: queue.Queue[dict[str, Any] | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answers.put(json.loads(line))
        answers.put(None)

    def _answer(self, number: int, command: str) -> Any:
        try:
            answer = self._answers.get(timeout=self._timeout_s)
        except queue.Empty:
            assert self._process is not None
            self._end()  # a late answer would be taken for the next command's
            raise HudiPeerError(f"{command}: no answer within {self._timeout_s} s\n{self._log_tail()}") from None
        if answer is None:
            raise HudiPeerError(f"{command}: the peer ended\n{self._log_tail()}")
        assert answer["id"] == number, f"answer {answer['id']} to call {number}"
        if "error" in answer:
            raise HudiPeerError(f"{command}: {answer['error']['message']}{self._logged_errors()}")
        return answer["ok"]

    def _logged_errors(self) -> str:
        """Exceptions logged since the call: Hudi's own message is often only "Failed to write to Hudi"."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            log.seek(self._logged)
            found = dict.fromkeys(line.strip() for line in log if "Exception:" in line and not line.startswith("\t"))
        return "".join(f"\n  logged {line[:500]}" for line in list(found)[:5])

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])


# Only what a writer does not infer by itself.
_KEY_GENERATORS = {"TIMESTAMP": "TimestampBasedKeyGenerator", "COMPLEX": "ComplexKeyGenerator"}


BELIEVED = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
"""Options of a reader that lists by the metadata table, and leaves out what its statistics say."""
WITHOUT_METADATA = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
"""Options of a reader that does neither."""


def table_options(path: Path) -> dict[str, str]:
    """The write options that a table's hoodie.properties implies; empty when there is no table yet."""
    file = path / ".hoodie" / "hoodie.properties"
    if not file.exists():
        return {}
    lines = [line for line in file.read_text(encoding="ascii").splitlines() if line and not line.startswith("#")]
    properties = {key: value.replace("\\", "") for key, value in (line.split("=", 1) for line in lines)}
    ordering = properties.get("hoodie.table.ordering.fields") or properties.get("hoodie.table.precombine.field")
    same = ("hoodie.datasource.write.hive_style_partitioning", "hoodie.datasource.write.partitionpath.urlencode")
    wanted = {
        "hoodie.table.name": properties["hoodie.table.name"],
        "hoodie.datasource.write.table.type": properties.get("hoodie.table.type"),
        "hoodie.datasource.write.recordkey.field": properties.get("hoodie.table.recordkey.fields"),
        "hoodie.datasource.write.partitionpath.field": properties.get("hoodie.table.partition.fields", ""),
        "hoodie.datasource.write.precombine.field": ordering,
        "hoodie.write.table.version": properties.get("hoodie.table.version"),
        **{key: properties.get(key) for key in same},
        # Its writers take nothing of a time-based key generator from the table.
        **{key: value for key, value in properties.items() if key.startswith("hoodie.keygen.timebased.")},
    }
    if properties.get("hoodie.table.keygenerator.type") in _KEY_GENERATORS:
        name = _KEY_GENERATORS[properties["hoodie.table.keygenerator.type"]]
        wanted["hoodie.datasource.write.keygenerator.class"] = f"org.apache.hudi.keygen.{name}"
    return {key: value for key, value in wanted.items() if value is not None}


def _has_milliseconds(path: Path) -> bool:
    """Whether a table's schema has times in milliseconds, which Spark's are not (docs/format §6.3)."""
    files = [path / ".hoodie/hoodie.properties", *(path / ".hoodie/timeline").glob("*commit")]
    return any(b"timestamp-millis" in file.read_bytes() for file in files if file.exists())


def bucket_options(buckets: int, fields: str) -> dict[str, str]:
    """Options for Apache Hudi's simple bucket index over all key fields."""
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(buckets),
        "hoodie.bucket.index.hash.field": fields,
    }
