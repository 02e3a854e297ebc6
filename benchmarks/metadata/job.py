"""One command to an engine's process."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.ingest.job import Job as IngestJob


@dataclass(frozen=True)
class Job(IngestJob):
    """One command.

    Attributes:
        metadata: partitions of the table's metadata table; none: it has none.
        build: partitions to build.
        times: how often the rows are written.
        foreign: a table that is taken over; empty: it is made.
    """

    metadata: list[str]
    build: list[str]
    times: int
    foreign: str
