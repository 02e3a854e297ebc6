"""Targets of the checks of a table's health, as `tables.yaml` declares them.

Each check has its targets, named as what it measures, and `tolerate`: how long they may be missed before the DAG `health` fails. A
check or a target that is `off` is not judged. A table's targets come before those of the file, which come before the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from hudi_ops.clock import DURATION_MAX_S
from hudi_ops.config.requests.request import invalid_request
from hudi_ops.errors import InvalidRequest

_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
HOUR_S, DAY_S = 3600.0, 86_400.0


def _seconds(value: Any) -> Any:
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if isinstance(value, str) and found is None:
        raise ValueError("must be a duration such as 30m, 24h or 2d")
    return float(found[1]) * _SECONDS[found[2]] if found is not None else value


def _off(value: Any) -> Any:
    return None if value is False else value  # YAML reads `off` as false


Seconds: TypeAlias = Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=DURATION_MAX_S)]
Age: TypeAlias = Annotated[Seconds | None, BeforeValidator(_off)]
Ratio: TypeAlias = Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_off)]
Count: TypeAlias = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_off)]


class _Targets(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tolerate: Seconds = Field(default=DAY_S, description="How long a target may be missed before the DAG health fails.")

    def over(self, others: _Targets) -> Self:
        """Return these targets, with `others` in place of those that were not given."""
        given = {name: getattr(others, name) for name in others.model_fields_set - self.model_fields_set}
        return self.model_copy(update=given)


class ReadCostTargets(_Targets):
    """What readers merge."""

    log_files: Ratio = Field(default=10, description="Log files of a file slice, 95th percentile.")
    log_ratio: Ratio = Field(default=1.0, description="Bytes of log files for each byte of base files.")


class SmallFilesTargets(_Targets):
    """Small base files that a clustering could merge."""

    share: Ratio = Field(default=0.3, description="Part of the files that are small and could be merged.")


class BucketsTargets(_Targets):
    """Sizes of buckets."""

    size_ratio: Ratio = Field(
        default=2.0, description="Bytes of a bucket, 95th percentile, for each byte of its target."
    )
    at_limit: Count = Field(default=0, description="Hash rings that need more buckets than they may have.")


class CleanLagTargets(_Targets):
    """Old files that a clean would delete."""

    share: Ratio = Field(default=0.5, description="Bytes that a clean would delete now for each byte of the table.")
    age: Age = Field(default=2 * DAY_S, description="Age of the last clean while there is something to delete.")


class TimelineTargets(_Targets):
    """Length of the timeline."""

    ratio: Ratio = Field(default=2.0, description="Completed writes on the timeline for each one that archives keep.")


class PlansTargets(_Targets):
    """Pending plans of services."""

    age: Age = Field(default=DAY_S, description="Age of the oldest pending plan.")
    overdue: Count = Field(default=0, description="Plans that are overdue.")
    starved: Count = Field(default=0, description="File groups whose last three plans were cancelled.")


class WritersTargets(_Targets):
    """Writers that ended without a completion."""

    dead: Count = Field(default=0, description="Leases that expired more than ten minutes ago.")
    silent: Count = Field(default=0, description="Pending instants of other programs without a heartbeat.")


class IngestionTargets(_Targets):
    """Age of the data."""

    age: Age = Field(default=None, description="Age of the newest write. Default: none.")


class IndexesTargets(_Targets):
    """Indexes that readers cannot use."""

    unready: Count = Field(default=0, description="Indexes that are announced, behind, or dropped by another program.")


class MetadataTableTargets(_Targets):
    """The metadata table."""

    pending: Count = Field(default=0, description="Pending instants of the metadata table.")
    log_ratio: Ratio = Field(
        default=2.0, description="Log files of a slice for each delta after which it is compacted."
    )


class FilesKeptTargets(_Targets):
    """Old files that savepoints, holds and plans keep."""

    share: Ratio = Field(default=0.5, description="Bytes that they keep beyond the policy for each byte of the table.")


class HealthTargets(BaseModel):
    """Targets of all checks; None: the check is off."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    read_cost: ReadCostTargets | None = Field(default=ReadCostTargets(), description="Log files that readers merge.")
    small_files: SmallFilesTargets | None = Field(default=SmallFilesTargets(), description="Small files.")
    buckets: BucketsTargets | None = Field(default=BucketsTargets(), description="Sizes of buckets.")
    clean_lag: CleanLagTargets | None = Field(default=CleanLagTargets(), description="Old files.")
    timeline: TimelineTargets | None = Field(default=TimelineTargets(), description="Length of the timeline.")
    plans: PlansTargets | None = Field(default=PlansTargets(), description="Pending plans.")
    writers: WritersTargets | None = Field(default=WritersTargets(), description="Dead writers.")
    ingestion: IngestionTargets | None = Field(default=IngestionTargets(), description="Age of the data.")
    indexes: IndexesTargets | None = Field(default=IndexesTargets(), description="Indexes.")
    metadata_table: MetadataTableTargets | None = Field(default=MetadataTableTargets(), description="Metadata table.")
    files_kept: FilesKeptTargets | None = Field(default=FilesKeptTargets(), description="Files kept beyond the policy.")

    @model_validator(mode="before")
    @classmethod
    def _checks_or_off(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        for name, value in given.items():
            if name in cls.model_fields and not isinstance(value, Mapping | _Targets | None) and value is not False:
                raise ValueError(f"{name} must be off, or a mapping of its targets, found {value!r}")
        return {name: _off(value) for name, value in given.items()}

    def over(self, others: HealthTargets) -> HealthTargets:
        """Return these targets, with `others` in place of those that were not given."""
        update: dict[str, Any] = {}
        for name in others.model_fields_set:
            mine, other = getattr(self, name), getattr(others, name)
            if name not in self.model_fields_set:
                update[name] = other
            elif mine is not None and other is not None:
                update[name] = mine.over(other)
        return self.model_copy(update=update)


def checked_targets(given: HealthTargets | Mapping[str, Any]) -> HealthTargets:
    """Return targets of a mapping.

    Raises:
        InvalidRequest: an unknown check or target, or a wrong value.
    """
    if isinstance(given, HealthTargets):
        return given
    try:
        return HealthTargets.model_validate(given)
    except ValidationError as error:
        refused: InvalidRequest = invalid_request(error, HealthTargets)
        raise refused from None
