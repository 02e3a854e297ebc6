"""Entries of the commit log: their kinds and bytes (docs/protocol.md §2).

Source: RFC-79 (decide once), RFC-22 (order of completion); the log replaces their lock-guarded files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hudi_ops.config.table import TableFacts
from hudi_ops.errors import Corrupt

ADOPTS = "adopt "
"""How the decision's id of slot 0 begins in tables that were adopted."""


class _Entry(BaseModel):
    """Common fields of every entry.

    These are the table's id, the decision's id (the same for every try of one decision), the owner, and the time.
    `properties_slot` and `archive_slot` are those of the last PROPERTIES and ARCHIVE below this slot, so that the head alone
    locates the rest of a log. Older entries lack them: -1 is "unknown" for the first, and "none, or unknown" for the second.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    table_id: str
    decision_id: str
    owner: str
    at_ms: int
    properties_slot: int = -1
    archive_slot: int = -1


class Plan(_Entry):
    """Publication of a service's plan, whose exact bytes are in the file `payload`.

    `cancellable`: whether a cancel may end it (RFC-79); None in entries of earlier releases. It is overdue once it is
    `cancel_after_hours` old, or once `cancel_after_instants` instants were requested after it; None: never. `on_overlap` says what
    a write to its file groups does: `pass` completes beside it, `shrink` completes and is left out of it, `cancel` ends it first;
    empty in entries of earlier releases. A write that would end it waits first until it is `cancel_wait_s` old.
    """

    kind: Literal["PLAN"] = "PLAN"
    instant: str
    action: str
    payload: str
    footprint: str = ""
    cancellable: bool | None = None
    cancel_after_hours: float | None = None
    cancel_after_instants: int | None = None
    on_overlap: str = ""
    cancel_wait_s: float = 0.0

    @property
    def notes(self) -> frozenset[str]:
        """Paths of its payloads."""
        return frozenset({self.payload})


class Takeover(_Entry):
    """Change of the executor of an instant."""

    kind: Literal["TAKEOVER"] = "TAKEOVER"
    instant: str
    epoch: int


class Complete(_Entry):
    """Completion of an instant.

    `payload` is the path of the exact bytes of its completed file, and `metadata` that of its delta of the table's metadata
    table, empty where there is none to maintain; `metadata_seen` is the decider's view of that timeline (docs/protocol.md
    §18), empty in older entries.

    `seen` holds request times that its decider found on the timeline, of completed writes that it did not know from the log,
    with completion times above `seen_from`, and of pending plans: any other that the applying process finds there came
    afterwards. `seen_from` is None in older entries and for instants that are no writes.

    `indexes` names the partitions of the metadata table for which the delta was made, also those without a record in it. A build
    that announced its partitions reads there which completions carry them. It is empty in entries of earlier releases.
    """

    kind: Literal["COMPLETE"] = "COMPLETE"
    instant: str
    action: str
    epoch: int
    completion_time: str
    payload: str
    metadata: str = ""
    metadata_seen: str = ""
    seen: tuple[str, ...] = ()
    seen_from: str | None = None
    indexes: tuple[str, ...] = ()

    @property
    def notes(self) -> frozenset[str]:
        """Paths of its payloads."""
        return frozenset(path for path in (self.payload, self.metadata) if path)


class Cancel(_Entry):
    """Decision that an instant will never complete.

    `cause` says what led to it: `request`, `policy`, `ingestion` or `priority`; it is empty in entries of earlier
    releases, and where a rollback of a dead writer needs it. `requester` names who asked, `by` the instant that it made way for.
    """

    kind: Literal["CANCEL"] = "CANCEL"
    instant: str
    reason: str
    cause: str = ""
    requester: str = ""
    by: str = ""


class Void(_Entry):
    """Revocation of a COMPLETE or PLAN in `slot` that could not be applied."""

    kind: Literal["VOID"] = "VOID"
    slot: int
    reason: str


class Properties(_Entry):
    """Keys of `hoodie.properties` to set and to remove.

    `facts` is all that Apache Hudi does not store. Of the two lists of the metadata table's partitions only changes are
    stored, since Apache Hudi changes them, too: `adds` were built, at the metadata table's instant `built_at`, and `drops`
    go. `upon` is the digest of the instants that had completed when a build of an earlier release was decided
    (`timeline.completed`): the added partitions hold those alone.

    `announces` names partitions that the build of the plan `plan` has filled at `built_at`: writers add to them from this slot on,
    readers ignore them. `adds` without `upon` lists announced ones, once nothing is missing in them. Releases without announcements
    ignore the field, so the build looks whether the file names them.

    `to_build` names dropped partitions that are to be built again: the process that continues after a crash finds there which
    ones existed.

    `settings` are the values with which `hoodie.properties` is compared from this slot on; they are never folded onto it.
    Slot 0 of a table of this library lacks them, as `set` holds all of its properties; so do entries of earlier releases,
    which ignore the field (`timeline.settings.settings_check`).

    `doubled_keys` counts record keys that lay in more than one file group, of all writes that had completed by
    `counted_until`; None: they were not counted.

    `automatic` names services that writers run after commits, with what each keeps (`config.upkeep_settings`). Slot 0's counts.
    Entries of earlier releases and of adoptions lack it: there are none.
    """

    kind: Literal["PROPERTIES"] = "PROPERTIES"
    set: dict[str, str] = {}
    remove: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    announces: tuple[str, ...] = ()
    plan: str = ""
    drops: tuple[str, ...] = ()
    built_at: str = ""
    upon: str = ""
    facts: TableFacts
    to_build: tuple[str, ...] = ()
    doubled_keys: int | None = None
    counted_until: str = ""
    settings: dict[str, str] = {}
    automatic: dict[str, dict[str, str | int]] = {}


class Archive(_Entry):
    """Archiving of instants up to `boundary`, which the file `history` keeps."""

    kind: Literal["ARCHIVE"] = "ARCHIVE"
    boundary: str
    history: str


class Savepoint(_Entry):
    """Making or deletion of the savepoint of a completed write.

    It has no part in the write's fate. `completion_time` is the one in the savepoint's file name; `payload` holds the exact bytes
    of that file, and is empty for a deletion.
    """

    kind: Literal["SAVEPOINT"] = "SAVEPOINT"
    instant: str
    is_made: bool
    completion_time: str
    payload: str = ""

    @property
    def notes(self) -> frozenset[str]:
        """Paths of its payloads."""
        return frozenset({self.payload} - {""})


class Restore(_Entry):
    """Restore of the table to a savepoint.

    From this slot on the writes `undone` count as cancelled. `instant` is the restore's own, `savepoint` the write to which the
    table returns. `undone` are completed writes, newest completion first; `payload` holds the exact bytes of the restore's
    requested file.
    """

    kind: Literal["RESTORE"] = "RESTORE"
    instant: str
    savepoint: str
    undone: tuple[str, ...]
    payload: str

    @property
    def action(self) -> str:
        """Pending word of its instant."""
        return "restore"

    @property
    def notes(self) -> frozenset[str]:
        """Paths of its payloads."""
        return frozenset({self.payload})

    def cancels(self) -> Iterator[Cancel]:
        """Yield what this entry says of each write that it undoes: the same as a CANCEL."""
        fields = self.model_dump(
            include={"table_id", "decision_id", "owner", "at_ms", "properties_slot", "archive_slot"}
        )
        reason = f"restore {self.instant} to savepoint {self.savepoint}"
        for instant in self.undone:
            yield Cancel(**fields, instant=instant, reason=reason)


Entry = Annotated[
    Plan | Takeover | Complete | Cancel | Void | Properties | Archive | Savepoint | Restore, Field(discriminator="kind")
]
_ADAPTER: TypeAdapter[Entry] = TypeAdapter(Entry)


def cancel_of(fate: tuple[int, Entry] | None) -> Cancel | None:
    """Return the CANCEL that decides an instant, given its fate; None without one."""
    return fate[1] if fate is not None and isinstance(fate[1], Cancel) else None


def encode_entry(entry: Entry) -> bytes:
    """Encode a slot: one JSON object."""
    return entry.model_dump_json().encode()


def decode_entry(data: bytes, path: str = "") -> Entry:
    """Read a slot.

    Raises:
        Corrupt: not an entry of a kind this version knows; deciding past it would not be safe.
    """
    try:
        return _ADAPTER.validate_json(data)
    except ValidationError as error:
        raise Corrupt(
            f"{path or 'a commit log slot'} is not a commit log entry",
            expected="a JSON object with a known kind",
            found=repr(data[:80]),
            next_step="if a newer hudi-ops wrote it, upgrade; otherwise run `hudi-ops verify`",
        ) from error


def decision_id_of(data: bytes) -> str:
    """Return the decision id in a slot's bytes, for `storage.claim`; empty when there is none."""
    try:
        return decode_entry(data).decision_id
    except Corrupt:
        return ""
