"""Result of an index build, as users get it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hudi_ops.services.base.result import ServiceResult


@dataclass(frozen=True)
class IndexResult(ServiceResult):
    """Result of an index build.

    `built_at` is its instant on the metadata table's timeline. `partitions` are the new ones, `rounds` counts the rounds that added
    completions. `records` counts the records of the first base files, by partition; `bytes_in` is the size of the files that were
    read. If a record index was built, `doubled_keys` counts the record keys in more than one file group: the index names one of
    the groups, and reads do not rely on it. `verdicts` counts the instants since the announcement: `carried` by their writers,
    `applied` by catch-up, and others. `catch_up_per_s` is the number of completions that catch-up added in a second (None: it added
    none), `ingest_per_s` that of other writers' completions in a second since the announcement. `waited_for` says for which
    foreign writers the build waited, and why.

    One result may tell of several builds: `instant` and the rates are then those of the last one. `rebuilt` are the partitions that
    the call dropped first.
    """

    built_at: str = ""
    partitions: tuple[str, ...] = ()
    files: int = 0
    bytes_in: int = 0
    records: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    doubled_keys: int | None = None
    catch_up_per_s: float | None = None
    ingest_per_s: float | None = None
    waited_for: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
