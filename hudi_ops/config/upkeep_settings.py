"""Settings of cleans, archives and cancels, and which of them writers run after commits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hudi_ops.config.requests import ArchiveRequest, CancelSettings, CleanRequest, PolicyName
from hudi_ops.config.requests.services import KEEP_MAX, KEEP_MIN, RETAIN_MAX

AUTOMATIC = ("clean", "archive")
"""Services that writers may run after a commit."""

_AUTOMATIC = "Whether writers do it after their commits. Default: as recorded when the table was created."


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class CleanSettings(_Settings):
    """What cleans of a table retain, where a request does not say it."""

    automatic: bool | None = Field(default=None, description=_AUTOMATIC)
    policy: PolicyName = Field(default="commits", description="commits, hours or versions.")
    retain: int | None = Field(
        default=None, ge=1, le=RETAIN_MAX, description="How many of them. Default: 10 commits, 24 hours, 3 slices."
    )

    def completed(self, request: CleanRequest) -> CleanRequest:
        """Return a request with these values in place of those that it does not give."""
        given = request.model_fields_set
        policy = request.policy if "policy" in given else self.policy
        retain = request.retain if "retain" in given or policy != self.policy else self.retain
        return request.model_copy(update={"policy": policy, "retain": retain})


class ArchiveSettings(_Settings):
    """How many writes archives keep on the timeline, where a request does not say it."""

    automatic: bool | None = Field(default=None, description=_AUTOMATIC)
    keep_min: int = KEEP_MIN
    keep_max: int = KEEP_MAX

    @model_validator(mode="after")
    def _bounds_agree(self) -> ArchiveSettings:
        if self.keep_min > self.keep_max:
            raise ValueError(f"keep_min is {self.keep_min}, above keep_max, which is {self.keep_max}")
        return self

    def completed(self, request: ArchiveRequest) -> ArchiveRequest:
        """Return a request with these values in place of those that it does not give."""
        declared = {"keep_min": self.keep_min, "keep_max": self.keep_max}
        return request.model_copy(
            update={name: value for name, value in declared.items() if name not in request.model_fields_set}
        )


@dataclass(frozen=True)
class UpkeepSettings:
    """Settings of the services that keep a table small.

    `cancel` is the policy of its compaction plans; None: they are not cancellable.
    """

    clean: CleanSettings = field(default_factory=CleanSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    cancel: CancelSettings | None = None

    def record(self) -> dict[str, dict[str, str | int]]:
        """Return what the creation of a table records: automatic services, and what each keeps."""
        kept = {"clean": self.clean, "archive": self.archive}
        return {
            name: kept[name].model_dump(exclude={"automatic"}, exclude_none=True) for name in self.automatic(AUTOMATIC)
        }

    def upon(self, recorded: Mapping[str, Mapping[str, str | int]]) -> UpkeepSettings:
        """Return these settings, with recorded ones in place of those that were not given."""
        clean, archive = self.clean, self.archive
        if not {"policy", "retain"} & clean.model_fields_set:
            said: dict[str, Any] = {**recorded.get("clean", {}), "automatic": clean.automatic}
            if "retain" in said:
                said["retain"] = min(int(said["retain"]), RETAIN_MAX)  # a table may have recorded more
            clean = CleanSettings.model_validate(said)
        if not {"keep_min", "keep_max"} & archive.model_fields_set:
            archive = ArchiveSettings.model_validate({**recorded.get("archive", {}), "automatic": archive.automatic})
        return replace(self, clean=clean, archive=archive)

    def automatic(self, recorded: Collection[str]) -> tuple[str, ...]:
        """Return the services that a writer runs after its commits.

        Args:
            recorded: those that the table's creation recorded.
        """
        chosen = {"clean": self.clean.automatic, "archive": self.archive.automatic}
        return tuple(name for name in AUTOMATIC if (name in recorded if chosen[name] is None else chosen[name]))

    def beside(self, scheduled: Collection[str]) -> UpkeepSettings:
        """Return the settings where Airflow runs some services on a schedule.

        These are not automatic, except where `automatic` is set. A scheduled clean also archives, so it turns off both.
        """
        by_schedule = {"automatic": False}
        clean, archive = self.clean, self.archive
        if "clean" in scheduled and clean.automatic is None:
            clean = clean.model_copy(update=by_schedule)
        if {"clean", "archive"} & {*scheduled} and archive.automatic is None:
            archive = archive.model_copy(update=by_schedule)
        return replace(self, clean=clean, archive=archive)
