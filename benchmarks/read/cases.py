"""What is measured: the reads, the readers with their tables, and the processes that run them."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.harness.comparison import Process
from benchmarks.harness.rows import ORDERING

READS = {
    "all": "all columns",
    "two": "two columns",
    "part": "two columns of one of eight partitions",
    "key": "all columns of one record key",
}


@dataclass(frozen=True)
class Case:
    """One read of tables of one type: `cow` (copy-on-write) or `mor` (merge-on-read)."""

    table_type: str
    read: str

    @property
    def name(self) -> str:
        """As printed."""
        return f"{self.table_type}-{self.read}"

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns; None: all."""
        return [ORDERING, "fare"] if self.read in {"two", "part"} else None


CASES = tuple(Case(table_type, read) for table_type in ("cow", "mor") for read in READS)


@dataclass(frozen=True)
class Variant:
    """One reader. `layout` names the table that it reads; `keeps`: what its earlier reads kept may be used."""

    name: str
    title: str
    engine: str
    layout: str
    keeps: bool = False
    table_types: tuple[str, ...] = ("cow", "mor")


PLAIN, STATISTICS, RECORD_INDEX = "plain", "statistics", "record-index"
LAYOUTS = (PLAIN, STATISTICS, RECORD_INDEX)
_COW = ("cow",)

VARIANTS = (
    Variant("ours", "hudi_ops, no metadata table", "ours", PLAIN),
    Variant("ours-statistics", "hudi_ops, column and partition statistics", "ours", STATISTICS),
    Variant("ours-record-index", "hudi_ops, the same and a record index", "ours", RECORD_INDEX),
    Variant("ours-again", "hudi_ops, no metadata table, read before", "ours", PLAIN, keeps=True),
    Variant("hudi-rs", "package `hudi`", "hudi-rs", PLAIN),
    Variant("delta", "delta-rs", "delta", "delta", table_types=_COW),
    Variant("duckdb", "DuckDB, plain files", "duckdb", "files", table_types=_COW),
    Variant("pyarrow", "pyarrow, plain files", "pyarrow", "files", table_types=_COW),
)

PROCESSES = {
    name: Process(("benchmarks.read.readers", "--reader", name))
    for name in ("ours", "hudi-rs", "delta", "duckdb", "pyarrow")
}
