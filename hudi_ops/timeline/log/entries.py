"""What the commit log says: its kinds of entry, and their bytes (docs/protocol.md §2).

Source: RFC-79 (decide once), RFC-22 (order of completion); the log replaces their lock-guarded files.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hudi_ops.config.table import TableFacts
from hudi_ops.errors import Corrupt

ADOPTS = "adopt "
"""How the decision's id of slot 0 begins in tables that were adopted."""


class _Entry(BaseModel):
    """What every entry carries: the table's id, the decision's id (the same for every try of one decision), who, and when.

    `properties_slot` and `archive_slot` are those of the last PROPERTIES and ARCHIVE below this slot, so that the head alone tells
    where the rest of a log is. Older entries lack them: -1 is "not said" for the first, and "none, or not said" for the second.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    table_id: str
    decision_id: str
    owner: str
    at_ms: int
    properties_slot: int = -1
    archive_slot: int = -1


class Plan(_Entry):
    """A service's plan is published; `payload` is the path of the exact bytes of its requested file."""

    kind: Literal["PLAN"] = "PLAN"
    instant: str
    action: str
    payload: str
    footprint: str = ""

    @property
    def notes(self) -> frozenset[str]:
        """Paths of all that it points to."""
        return frozenset({self.payload})


class Takeover(_Entry):
    """Who may work on an instant from now on."""

    kind: Literal["TAKEOVER"] = "TAKEOVER"
    instant: str
    epoch: int


class Complete(_Entry):
    """An instant counts.

    `payload` is the path of the exact bytes of its completed file, and `metadata` that of what it adds to the table's metadata
    table, empty where there is none to keep; `metadata_seen` says what its decider found on the timeline of that (docs/protocol.md
    §18), empty in older entries.

    `seen` holds request times that its decider found on the timeline, of completed writes that it did not know from the log, with
    completion times above `seen_from`, and of pending plans: whatever else is found there by who applies it came afterwards.
    `seen_from` is None where nothing is said, in older entries and for what is no write.
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

    @property
    def notes(self) -> frozenset[str]:
        """Paths of all that it points to."""
        return frozenset(path for path in (self.payload, self.metadata) if path)


class Cancel(_Entry):
    """An instant will never complete."""

    kind: Literal["CANCEL"] = "CANCEL"
    instant: str
    reason: str


class Void(_Entry):
    """A COMPLETE or PLAN in `slot` could not be applied."""

    kind: Literal["VOID"] = "VOID"
    slot: int
    reason: str


class Properties(_Entry):
    """Keys of `hoodie.properties` to set and to remove; `facts` is the whole of what Apache Hudi does not store.

    Of the two lists of the metadata table's partitions only changes are said, since Apache Hudi changes them, too: `adds` were
    built, at the metadata table's instant `built_at`, and `drops` go. `upon` is the digest of what had completed when a build was
    decided (`timeline.completed`): what it added holds of that table alone.

    `to_build` names partitions that it dropped for them to be built anew: whoever goes on after a death
    finds there what there was.

    `settings` are the values that `hoodie.properties` is held against from this slot on; they are never folded onto it. Slot 0 of
    a table of ours lacks them, as `set` holds all of its properties; so do entries of earlier releases, which pass over the field
    (`timeline.settings_check`).

    `doubled_keys` counts record keys that lay in more than one file group, of all writes that had completed by `counted_until`;
    None: nobody counted them.
    """

    kind: Literal["PROPERTIES"] = "PROPERTIES"
    set: dict[str, str] = {}
    remove: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    built_at: str = ""
    upon: str = ""
    facts: TableFacts
    to_build: tuple[str, ...] = ()
    doubled_keys: int | None = None
    counted_until: str = ""
    settings: dict[str, str] = {}


class Archive(_Entry):
    """Instants up to `boundary` leave the active timeline; `history` names the file that keeps them."""

    kind: Literal["ARCHIVE"] = "ARCHIVE"
    boundary: str
    history: str


Entry = Annotated[Plan | Takeover | Complete | Cancel | Void | Properties | Archive, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[Entry] = TypeAdapter(Entry)


def encode_entry(entry: Entry) -> bytes:
    """The slot's bytes: one JSON object."""
    return entry.model_dump_json().encode()


def decode_entry(data: bytes, path: str = "") -> Entry:
    """Read a slot.

    Raises:
        Corrupt: not an entry of a kind this version knows; deciding on past it would not be safe.
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
    """The decision id in a slot's bytes, for `storage.claim`; empty when there is none."""
    try:
        return decode_entry(data).decision_id
    except Corrupt:
        return ""
