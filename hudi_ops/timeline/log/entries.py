"""Entries of the commit log: their kinds and bytes (docs/protocol §2).

Source: RFC-79 (decide once), RFC-22 (order of completion); the log replaces their lock-guarded files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hudi_ops.config.table import TableFacts
from hudi_ops.errors import Corrupt
from hudi_ops.formats.stored_forms import SLOT, SlotForm, refuse_newer
from hudi_ops.timeline.cancel.policy import OnOverlap

ADOPTS = "adopt "
"""Prefix of the decision id of slot 0 in adopted tables."""


class _Entry(BaseModel):
    """Common fields of every entry.

    These are the table's id, the decision's id (the same for every try of one decision), the owner, and the time.
    `properties_slot` and `archive_slot` are the slots of the last PROPERTIES and ARCHIVE below this slot, so that the head is
    enough to find them; -1: there is none.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    table_id: str
    decision_id: str
    owner: str
    at_ms: int
    properties_slot: int
    archive_slot: int
    form: SlotForm = SLOT


class Plan(_Entry):
    """Publication of a service's plan, whose exact bytes are in the file `payload`.

    `cancellable`: whether a cancel may end it (RFC-79). It is overdue once it is `cancel_after_hours` old, or once
    `cancel_after_instants` instants were requested after it; None: never. `on_overlap` is the effect of a write to its file groups.
    Before it cancels the plan, a write waits until the plan is `cancel_wait_s` seconds old.
    """

    kind: Literal["PLAN"] = "PLAN"
    instant: str
    action: str
    payload: str
    footprint: str
    cancellable: bool
    cancel_after_hours: float | None = None
    cancel_after_instants: int | None = None
    on_overlap: OnOverlap
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

    `payload` is the path of the exact bytes of its completed file. `metadata` is the path of its delta of the metadata table, empty
    if the table has none. `metadata_seen` is a digest of the metadata table's timeline as its decider read it (docs/protocol
    §18), empty without a delta.

    `seen` holds request times that its decider found on the timeline: of pending plans, and of completed writes that are not in the
    log and completed after `seen_from`. Any other such plan or write that an applier finds was added later. `seen_from` is None for
    instants that are no writes.

    `indexes` names the partitions of the metadata table for which the delta was made, even if it has no record for them. From it a
    build that announced its partitions learns which completions cover them.
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

    `cause` is `request`, `policy`, `ingestion` or `priority`; it is empty if the CANCEL precedes the rollback of a dead writer.
    `requester` names the person or process that asked, `by` the instant with precedence.
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


class CarriedFields(TypedDict):
    """Fields of a PROPERTIES entry that the next one keeps, unless it changes them."""

    facts: TableFacts
    settings: dict[str, str]
    upkeep: dict[str, dict[str, str | int]] | None


class Properties(_Entry):
    """Keys of `hoodie.properties` to set and to remove.

    `facts` holds the table facts that Apache Hudi does not store. Of the two lists of the metadata table's partitions only changes
    are stored, since Apache Hudi changes the lists, too: `adds` were built, at the metadata table's instant `built_at`; `drops` are
    removed.

    `announces` names partitions that the build of the plan `plan` has filled at `built_at`: writers add to them from this slot on,
    readers ignore them. `adds` lists announced partitions once they are complete.

    `to_build` names dropped partitions that must be built again: a process that continues after a crash learns from it which
    partitions existed.

    `settings` are the values with which `hoodie.properties` is compared from this slot on; appliers never write them into it
    (`timeline.settings.settings_check`).

    `doubled_keys` counts the record keys in more than one file group, over all writes that had completed by `counted_until`; None:
    they were not counted.

    `automatic` names services that writers run after commits, with their settings (`config.upkeep_settings`), as
    slot 0 of a created table records them. `upkeep` replaces it from this slot on; None: it was never altered. Each entry carries
    facts, settings and `upkeep` of the one before.
    """

    kind: Literal["PROPERTIES"] = "PROPERTIES"
    set: dict[str, str] = {}
    remove: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    announces: tuple[str, ...] = ()
    plan: str = ""
    drops: tuple[str, ...] = ()
    built_at: str = ""
    facts: TableFacts
    to_build: tuple[str, ...] = ()
    doubled_keys: int | None = None
    counted_until: str = ""
    settings: dict[str, str]
    automatic: dict[str, dict[str, str | int]] = {}
    upkeep: dict[str, dict[str, str | int]] | None = None

    def carried(self) -> CarriedFields:
        """Return the fields that the next entry has unless it changes them."""
        return CarriedFields(facts=self.facts, settings=self.settings, upkeep=self.upkeep)


class Archive(_Entry):
    """Archiving of instants up to `boundary`, which the history file `history` holds."""

    kind: Literal["ARCHIVE"] = "ARCHIVE"
    boundary: str
    history: str


class Savepoint(_Entry):
    """Creation or deletion of the savepoint of a completed write.

    It does not decide about the write. `completion_time` is the one in the savepoint's file name; `payload` is the path of the
    exact bytes of that file, empty for a deletion.
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
        """Yield a CANCEL with the facts of this entry for each write that it undoes."""
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
    """Return the CANCEL in the fate of an instant; None if no CANCEL decides it."""
    return fate[1] if fate is not None and isinstance(fate[1], Cancel) else None


def encode_entry(entry: Entry) -> bytes:
    """Encode a slot: one JSON object."""
    return entry.model_dump_json().encode()


def decode_entry(data: bytes, path: str = "") -> Entry:
    """Read a slot.

    Raises:
        Corrupt: the bytes are no whole entry of a kind that this release knows; later decisions would not be safe.
        Unsupported: a newer release wrote it.
    """
    try:
        return _ADAPTER.validate_json(data)
    except ValidationError as error:
        refuse_newer(data, SLOT, path or "a commit log slot")
        wrong = error.errors()[0]
        raise Corrupt(
            f"{path or 'a commit log slot'} is not a commit log entry",
            expected="a JSON object with a known kind and all fields of it",
            found=f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}, in {data[:80]!r}",
            next_step="run `hudi-ops verify`; if a newer hudi-ops wrote it, upgrade",
        ) from error


def decision_id_of(data: bytes) -> str:
    """Return the decision id in a slot's bytes, for `storage.claim`; empty when there is none."""
    try:
        return decode_entry(data).decision_id
    except Corrupt:
        return ""
