"""Apache Hudi as a peer: one Spark 3.5 session that answers JSON commands, run by the interop environment's Python.

Goal: tests ask the real Apache Hudi to read, write and service a table without loading Spark 3.5 into their process.
Method: one command a line on stdin, one answer a line on stdout: `{"ok": …}` or `{"error": …}` with type, message and
Java trace. Rows travel as Arrow IPC files. What Spark and the JVM print goes to stderr: stdout belongs to the answers.

Usage: .interop/venv/bin/python tests/interop/peer.py BUNDLE_JAR
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

QUERY_TYPE = "hoodie.datasource.query.type"

# Every write by the peer: no metadata table (procedures and SQL would build one and rewrite hoodie.properties), no
# compaction or clustering after it, and UTC: a LOCAL table written after a UTC one hangs in the instant generator.
WRITE_DEFAULTS = {
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clustering.inline": "false",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
}
READ_DEFAULTS = {"hoodie.metadata.enable": "false"}


def start_session(jar: str) -> SparkSession:
    """Starts Spark with Apache Hudi's bundle, on two cores; Java's own time zone is UTC unless the environment names another."""
    zone = os.environ.get("HUDI_PEER_TIMEZONE", "UTC")
    return (
        SparkSession.builder
        .master("local[2]")
        .appName("interop-peer")
        .config("spark.jars", jar)
        .config("spark.driver.extraClassPath", jar)  # Class.forName through py4j looks here only
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        # A session of some minutes never earns back what Java's second compiler costs two cores.
        .config("spark.driver.extraJavaOptions", f"-Duser.timezone={zone} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.default.parallelism", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(Path.cwd() / "warehouse"))
        .getOrCreate()
    )


class Peer:
    """The commands; each method named `do_<command>` takes the request's fields and returns a JSON-able answer."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.jvm: Any = spark._jvm
        # Release 1.2.0 fails in a JVM that compacts a metadata table before it first makes a record of one (docs/format §9.6).
        self.jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload")
        spark.conf.set("hoodie.metadata.enable", "false")  # procedures and SQL take their options from the session

    def do_ping(self) -> dict[str, Any]:
        """Versions of what answers, and the process id of Java."""
        pid = int(self.jvm.java.lang.ProcessHandle.current().pid())
        return {"spark": self.spark.version, "java": self.jvm.System.getProperty("java.version"), "pid": pid}

    def do_read(
        self,
        path: str,
        out: str,
        as_of: str | None = None,
        columns: list[str] | None = None,
        where: str | None = None,
        options: dict[str, str] | None = None,
    ) -> dict[str, int]:
        """Snapshot, or the table as of a request time, into the Arrow file `out`; `_hoodie_*` columns included."""
        reader = self.spark.read.format("hudi").options(**{**READ_DEFAULTS, **(options or {})})
        if as_of is not None:
            reader = reader.option("as.of.instant", as_of)
        return self._collect(reader.load(path), out, columns, where)

    def do_incremental(
        self, path: str, out: str, begin: str = "000", end: str | None = None, options: dict[str, str] | None = None
    ) -> dict[str, int]:
        """Rows of the commits completed in (begin, end], into the Arrow file `out`."""
        reader = self.spark.read.format("hudi").options(**{**READ_DEFAULTS, **(options or {})})
        reader = reader.option(QUERY_TYPE, "incremental").option("hoodie.datasource.read.begin.instanttime", begin)
        if end is not None:
            reader = reader.option("hoodie.datasource.read.end.instanttime", end)
        return self._collect(reader.load(path), out, None, None)

    def do_write(
        self,
        path: str,
        data: str,
        operation: str = "upsert",
        mode: str = "append",
        options: dict[str, str] | None = None,
    ) -> dict[str, int]:
        """Writes the Parquet file `data` with Apache Hudi's Spark data source."""
        # The source says nothing of its calendar; dates before 1582 in it are Arrow's.
        frame = self.spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(data)
        merged = {**WRITE_DEFAULTS, "hoodie.datasource.write.operation": operation, **(options or {})}
        frame.write.format("hudi").options(**merged).mode(mode).save(path)
        return {}

    def do_sql(
        self,
        statement: str,
        out: str | None = None,
        tables: dict[str, str] | None = None,
        conf: dict[str, str] | None = None,
    ) -> dict[str, int]:
        """One SQL statement or procedure; `tables` registers paths under names first, `conf` holds for it alone."""
        for name, path in (tables or {}).items():
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")
            self.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
        before = {key: self.spark.conf.get(key, None) for key in conf or {}}
        try:
            for key, value in (conf or {}).items():
                self.spark.conf.set(key, value)
            frame = self.spark.sql(statement)
            return {} if out is None else self._collect(frame, out, None, None)
        finally:
            for key, value in before.items():
                self.spark.conf.unset(key) if value is None else self.spark.conf.set(key, value)

    def do_timeline(self, path: str) -> dict[str, Any]:
        """The table as `HoodieTableMetaClient` sees it: version, active instants, number of archived instants."""
        client = self._meta_client(path)
        instants = [
            {
                "time": instant.requestedTime(),
                "completed_at": instant.getCompletionTime(),
                "action": instant.getAction(),
                "state": instant.getState().toString(),
            }
            for instant in client.getActiveTimeline().getInstants()
        ]
        return {
            "version": client.getTableConfig().getTableVersion().versionCode(),
            "instants": instants,
            "archived": client.getArchivedTimeline().countInstants(),
        }

    def do_view(self, path: str, partitions: list[str], before: list[str], metadata: bool) -> dict[str, Any]:
        """Slices and replaced groups of partitions by `FileSystemViewManager`: the newest, and those before instants or on them.

        `merged` are the slices of a snapshot read; those of `slices` begin at pending compactions, whose groups are `compacting`.
        """
        hudi, client = self.jvm.org.apache.hudi.common, self._meta_client(path)
        context = hudi.engine.HoodieLocalEngineContext(client.getStorageConf())
        manager = hudi.table.view.FileSystemViewManager.createViewManagerWithTableMetadata(
            context,
            hudi.config.HoodieMetadataConfig.newBuilder().enable(metadata).build(),
            hudi.table.view.FileSystemViewStorageConfig.newBuilder().build(),
            hudi.config.HoodieCommonConfig.newBuilder().build(),
        )
        try:
            view = manager.getFileSystemView(client)
            last = view.getLastInstant().get().requestedTime()
            return {
                "slices": _slices(view.getLatestFileSlices, partitions),
                "merged": _slices(view.getLatestMergedFileSlicesBeforeOrOn, partitions, last),
                "replaced": _groups(view.getAllReplacedFileGroups(path) for path in partitions),
                "compacting": [
                    [one.getValue().getPartitionPath(), one.getValue().getFileId(), one.getKey()]
                    for one in view.getPendingCompactionOperations().iterator()
                ],
                "before": {
                    time: {
                        "slices": _slices(view.getLatestFileSlicesBeforeOrOn, partitions, time, True),
                        "merged": _slices(view.getLatestMergedFileSlicesBeforeOrOn, partitions, time),
                        "replaced": _groups(view.getReplacedFileGroupsBeforeOrOn(time, path) for path in partitions),
                    }
                    for time in before
                },
            }
        finally:
            manager.close()

    def do_bucket_id(self, keys: list[str], fields: str, buckets: int) -> list[int]:
        """Buckets of record keys by Apache Hudi's own `BucketIdentifier`."""
        identifier = self.jvm.org.apache.hudi.index.bucket.BucketIdentifier
        return [int(identifier.getBucketId(key, fields, buckets)) for key in keys]

    def do_schedule_clean(self, path: str, table: str, options: dict[str, str]) -> str | None:
        """Plans a clean by `SparkRDDWriteClient`, without executing it; returns its instant, None if nothing is due."""
        hudi, client = self.jvm.org.apache.hudi, self._client(path, table, options)
        try:
            empty = hudi.common.util.Option.empty()
            planned = client.scheduleTableService(empty, hudi.common.model.TableServiceType.CLEAN)
            return str(planned.get()) if planned.isPresent() else None
        finally:
            client.close()

    def do_schedule_index(self, path: str, table: str, partitions: list[str], options: dict[str, str]) -> str | None:
        """Plans an index build as `HoodieIndexer` does in mode schedule; returns its instant, None if it refused."""
        client, kinds = self._client(path, table, options), self.jvm.java.util.ArrayList()
        for name in partitions:
            kinds.add(getattr(self.jvm.org.apache.hudi.metadata.MetadataPartitionType, name.upper()))
        try:
            planned = client.scheduleIndexing(kinds, self.jvm.java.util.ArrayList())
            return str(planned.get()) if planned.isPresent() else None
        finally:
            client.close()

    def do_index(self, path: str, table: str, instant: str, options: dict[str, str], schema: str | None = None) -> bool:
        """Executes the plan of an index build as `HoodieIndexer` does in mode execute; returns whether it completed.

        With an empty schema it fails on the way, and leaves what a crash leaves.
        """
        client = self._client(path, table, options, self._schema(path) if schema is None else schema)
        try:
            return bool(client.index(instant).isPresent())
        finally:
            client.close()

    def _client(self, path: str, table: str, options: dict[str, str], schema: str = "") -> Any:
        given = self.jvm.java.util.HashMap()
        for key, value in {**WRITE_DEFAULTS, **options}.items():
            given.put(key, value)
        return self.jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(
            self.spark.sparkContext._jsc, schema, path, table, given
        )

    def _schema(self, path: str) -> str:
        """The table's Avro schema, which the jobs of Apache Hudi hand to their clients."""
        resolver = self.jvm.org.apache.hudi.common.table.TableSchemaResolver(self._meta_client(path))
        try:
            return str(resolver.getTableAvroSchema(False).toString())
        except Py4JError:  # 1.2 has another method
            return str(resolver.getTableSchema(False).toString())

    def _meta_client(self, path: str) -> Any:
        conf = self.jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
            self.spark.sparkContext._jsc.hadoopConfiguration()
        )
        builder = self.jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        return builder.setConf(conf).setBasePath(path).build()

    def _collect(self, frame: DataFrame, out: str, columns: list[str] | None, where: str | None) -> dict[str, int]:
        from pyspark.sql.pandas.types import to_arrow_schema

        if where is not None:
            frame = frame.where(where)
        if columns is not None:
            frame = frame.select(*columns)
        batches = frame._collect_as_arrow()
        table = pa.Table.from_batches(batches) if batches else to_arrow_schema(frame.schema).empty_table()
        with pa.OSFile(out, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return {"rows": table.num_rows}


def _slices(ask: Callable[..., Any], partitions: list[str], *terms: Any) -> list[Any]:
    """Return partition, file id, base instant, base file and sorted log files of the slices of a stream for each partition."""
    found = []
    for slice_ in (one for path in partitions for one in ask(path, *terms).iterator()):
        base = slice_.getBaseFile()
        logs = sorted(log.getFileName() for log in slice_.getLogFiles().iterator())
        name = base.get().getFileName() if base.isPresent() else None
        found.append([slice_.getPartitionPath(), slice_.getFileId(), slice_.getBaseInstantTime(), name, logs])
    return found


def _groups(streams: Iterable[Any]) -> list[Any]:
    """Return partition and file id of the groups of streams."""
    groups = (one for stream in streams for one in stream.iterator())
    return [[one.getPartitionPath(), one.getFileGroupId().getFileId()] for one in groups]


def describe(error: Exception) -> dict[str, str]:
    """The error as tests show it: for a JVM one, the messages down the chain of causes, and the trace's head."""
    if not isinstance(error, Py4JJavaError):
        text = getattr(error, "desc", None) or str(error)  # pyspark's own SQL errors keep the Java text there
        return {"type": type(error).__name__, "message": text, "java": getattr(error, "stackTrace", None) or ""}
    causes: list[str] = []
    java = error.java_exception
    while java is not None and len(causes) < 10:
        causes.append(str(java.toString()))
        java = java.getCause()
    return {"type": causes[0].split(":")[0], "message": "\n  caused by ".join(causes), "java": str(error)[:6000]}


def serve(peer: Peer, answers: Any) -> None:
    """Answers commands until `stop` or the end of stdin."""
    for line in sys.stdin:
        request = json.loads(line)
        number, command = request.pop("id"), request.pop("command")
        started = time.perf_counter()
        if command == "stop":
            return
        answer: dict[str, Any] = {"id": number}
        try:
            answer["ok"] = getattr(peer, f"do_{command}")(**request)
        except Exception as error:  # the peer must outlive whatever a test provokes; the test sees the error
            answer["error"] = describe(error)
        answer["seconds"] = round(time.perf_counter() - started, 3)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    """Keeps stdout for the answers, starts Spark, serves, stops Spark."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # the JVM inherits descriptor 1: its chatter must not mix with the answers
        started = time.perf_counter()
        spark = start_session(sys.argv[1])
        spark.sparkContext.setLogLevel("WARN")
        seconds = round(time.perf_counter() - started, 3)
        answers.write(json.dumps({"id": 0, "ok": Peer(spark).do_ping(), "seconds": seconds}) + "\n")
        answers.flush()
        try:
            serve(Peer(spark), answers)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
