"""Infer the time zone of a table's instants from the change times of files, as a hint.

A completed file is put right after its completion time was taken, so that the difference between that time, read as UTC, and the
file's change time is the UTC offset of its writer. Copying a table resets change times, and several zones share an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from zoneinfo import available_timezones

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.result import Result
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.names import ms_of_instant, parse_file_name
from hudi_ops.timeline.settings.properties_file import load_config

FILES_MAX = 40
"""Completed files that are compared, spread over the timeline."""
LATE_MS_MAX = 60_000
EARLY_MS_MAX = 2_000
"""Limits of a file's change time after its completion time, and before it if the storage's clock is behind."""
SURE_FILES = 5
"""Number of agreeing files from which the confidence is high."""
NAMES_SHOWN = 4

_REGIONS = ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")


@dataclass(frozen=True)
class ZoneEvidence(Result):
    """Time zones that fit the change times of a table's completed files.

    Attributes:
        compared: number of files compared.
        agreeing: number of them that fit the candidates.
        offsets: UTC offsets of these, as `+05:30`.
        candidates: zones of the IANA data base that fit the most files.
        confidence: `high`, `low`, or `none` if there are no reliable candidates.
    """

    compared: int = 0
    agreeing: int = 0
    offsets: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    confidence: Literal["high", "low", "none"] = "none"

    @property
    def example(self) -> str:
        """Return a zone as an example of its spelling: the first candidate, if there is one."""
        return self.candidates[0] if self.candidates else "Europe/Berlin"

    def __str__(self) -> str:
        if self.confidence == "none":
            return (
                f"the change times of {self.compared} completed files fit no time zone: the table was copied, "
                "or its writers are in several zones"
            )
        rest = len(self.candidates) - NAMES_SHOWN
        names = ", ".join(self.candidates[:NAMES_SHOWN]) + (f" and {rest} more zones" if rest > 0 else "")
        return (
            f"the change times of {self.agreeing} of {self.compared} completed files suggest UTC{' and UTC'.join(self.offsets)} "
            f"({self.confidence} confidence), as in {names}; a copied table would mislead"
        )


def missing_zone(storage: Storage) -> ZoneEvidence | None:
    """Return the evidence for a table that needs a time zone; else None.

    A table needs one if its instants are in local time and it has no commit log.
    """
    config = load_config(storage)
    if not config.is_in_local_time or read_slot(storage, 0) is not None:
        return None
    return zone_evidence(storage, config)


def zone_evidence(storage: Storage, config: TableConfig) -> ZoneEvidence:
    """Compare completion times of a table's files with their change times, by one listing.

    Timeline layout 1 keeps no completion times, and gives no evidence.
    """
    completed = sorted(
        (file.completion_time, info.modified_ms)
        for info in storage.list_folder(config.timeline_folder).files
        if (file := parse_file_name(info.name, config.layout)) is not None and len(file.completion_time) == 17
    )
    step = -(-len(completed) // FILES_MAX) or 1
    chosen = completed[::-step]
    fits = {zone: [at for at, times in enumerate(chosen) if _fits(*times, zone)] for zone in _zones()}
    most = max(map(len, fits.values()), default=0)
    if 2 * most <= len(chosen):
        return ZoneEvidence(compared=len(chosen))
    candidates = sorted((zone for zone, fit in fits.items() if len(fit) == most), key=_rank)
    offsets = {_offset(chosen[at][0], candidates[0]) for at in fits[candidates[0]]}
    is_sure = most >= SURE_FILES and 10 * most >= 9 * len(chosen)
    return ZoneEvidence(len(chosen), most, tuple(sorted(offsets)), tuple(candidates), "high" if is_sure else "low")


def _zones() -> Sequence[str]:
    return sorted(zone for zone in available_timezones() if zone == "UTC" or zone.partition("/")[0] in _REGIONS)


def _fits(time: str, modified_ms: int, zone: str) -> bool:
    try:
        late_ms = modified_ms - ms_of_instant(time, zone)
    except InvalidRequest:
        return False  # no calendar time
    return -EARLY_MS_MAX <= late_ms <= LATE_MS_MAX


def _rank(zone: str) -> tuple[bool, bool, str]:
    """Return the sort key: UTC first, then Europe's zones before others with their offsets."""
    return zone != "UTC", not zone.startswith("Europe/"), zone


def _offset(time: str, zone: str) -> str:
    minutes = (ms_of_instant(time) - ms_of_instant(time, zone)) // 60_000
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
