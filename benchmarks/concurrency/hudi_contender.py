"""Apache Hudi's own writers, as threads of one warm Spark session: commits of one row, with the settings that many writers need.

Threads spare it the start of a JVM for each writer, and 2 GB of memory. It answers lines as `contender.py` does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from typing import Any

from benchmarks.harness.session import start_session

_REFUSED = ("HoodieWriteConflictException", "HoodieLockException", "HoodieHeartbeatException")
GIVE_UP_AFTER = 100


class Contender:
    """One case's work; `partitions` has one writer an entry."""

    def __init__(self, spark: Any, job: dict[str, Any]) -> None:
        self._spark = spark
        self._job = job
        self._guard = threading.Lock()
        self.latencies: list[float] = []
        self.refused: dict[str, int] = {}

    def warm(self) -> None:
        """The table with its first rows, and commits that count for nothing."""
        first = " UNION ALL ".join(_select(f"k{n}", f"p{n % 8}", 0) for n in range(100))
        self._write(first, "overwrite", "bulk_insert")
        for _ in range(self._job["warm"]):
            self._commit(self._job["partitions"][0], 0)
        self.latencies.clear()
        self.refused.clear()

    def run(self) -> dict[str, Any]:
        """All writers at once."""
        started = time.time()
        threads = [threading.Thread(target=self._work, args=(one,)) for one in self._job["partitions"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {
            "started": started,
            "ended": time.time(),
            "latencies_s": self.latencies,
            "refused": self.refused,
        }

    def _work(self, partition: str) -> None:
        for number in range(1, self._job["commits"] + 1):
            self._commit(partition, number)

    def _commit(self, partition: str, value: int) -> None:
        began_s = time.perf_counter()
        for _ in range(GIVE_UP_AFTER):
            try:
                self._write(_select("k0", partition, value), "append", "upsert")
            except Exception as error:  # py4j has one class for all that Java throws
                kind = next((name for name in _REFUSED if name in str(error)), "")
                if not kind:
                    raise
                with self._guard:
                    self.refused[kind] = self.refused.get(kind, 0) + 1
                continue
            with self._guard:
                self.latencies.append(time.perf_counter() - began_s)
            return
        raise SystemExit(f"refused {GIVE_UP_AFTER} times in a row")

    def _write(self, query: str, mode: str, operation: str) -> None:
        rows = self._spark.sql(query)
        rows.write.format("hudi").options(**_options(self._job, operation)).mode(mode).save(self._job["table"])


def _select(key: str, partition: str, value: int) -> str:
    return f"SELECT '{key}' AS id, '{partition}' AS part, CAST({value} AS BIGINT) AS value"


def _options(job: dict[str, Any], operation: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "fleet",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.metadata.enable": "false",
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.bulkinsert.shuffle.parallelism": "1",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
        "hoodie.write.lock.zookeeper.url": job["hosts"],
        "hoodie.write.lock.zookeeper.base_path": "/hudi/locks",
        "hoodie.write.lock.zookeeper.lock_key": job["key"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jar", required=True)
    parser.add_argument("--work", required=True)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    spark = start_session("apache-hudi", options.jar, options.work, "3g")
    for line in sys.stdin:
        contender = Contender(spark, json.loads(line))
        contender.warm()
        print("ready", file=answers, flush=True)
        sys.stdin.readline()  # go
        print(json.dumps(contender.run()), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
