"""Checkpoint of an index build: the progress of its executor.

Each executor of a plan puts its own file, named by its epoch, so an executor that was taken over cannot change its successor's
file. The commit log decides; a checkpoint only records which files the build has, and the progress of catch-up.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from hudi_ops.errors import Corrupt
from hudi_ops.formats.stored_forms import CHECKPOINT, CheckpointForm, refuse_newer
from hudi_ops.storage.protocol import Storage

FOLDER = ".hoodie/.indexing"
"""Folder of the checkpoints below a table's root; Apache Hudi leaves it alone."""


class BuildCheckpoint(BaseModel):
    """State of one execution of an index build.

    Attributes:
        form: number of the form in which it is stored.
        plan: instant of the plan on the data table's timeline.
        epoch: epoch of the executor.
        built_at: instant of the build on the metadata table's timeline.
        partitions: names of the partitions that it builds.
        phase: `build` until they are announced, then `catch-up`.
        groups: number of file groups of each partition, once they exist.
        looked_at: file names of the completed instants that the build's files cover.
        defined: names that the build added to the table's index definitions.
        deltas: instants of catch-up on the metadata table's timeline.
        looked_at_last: file names of the completed instants that are covered once the last of `deltas` is complete.
        rounds: rounds that added completions.
        records: number of records of the first base files, by partition.
        at_ms: time of this checkpoint in ms since 1970.
        reading: what it reads now: `files` or `keys`; empty: nothing.
        done: number of files or keys that it has read.
        total: number of files or keys to read.
        seconds_left: estimated time in seconds for the rest, during catch-up for the whole catch-up; None: unknown, or other
            writers complete as fast as catch-up adds.
        catch_up_per_s: completions per second that catch-up adds; None: it has added none.
        ingest_per_s: completions per second of other writers since the announcement; None: not announced.
        verdicts: number of instants by what they mean for the new partitions: `carried`, `applied`, `waiting`, …
        note: what the build waits for; empty: nothing.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    form: CheckpointForm = CHECKPOINT
    plan: str
    epoch: int
    built_at: str
    partitions: tuple[str, ...]
    phase: Literal["build", "catch-up"] = "build"
    groups: dict[str, int] = {}
    looked_at: tuple[str, ...] = ()
    defined: tuple[str, ...] = ()
    deltas: tuple[str, ...] = ()
    looked_at_last: tuple[str, ...] = ()
    rounds: int = 0
    records: dict[str, int] = {}
    at_ms: int = 0
    reading: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    catch_up_per_s: float | None = None
    ingest_per_s: float | None = None
    verdicts: dict[str, int] = {}
    note: str = ""

    @property
    def progress(self) -> str:
        """Phase, files or keys being read, verdicts and rates, in words."""
        said = [f"{self.phase}, round {self.rounds}"]
        if self.reading:
            said.append(f"{self.done} of {self.total} {self.reading} read")
        if self.verdicts:
            said.append(", ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items())))
        return "; ".join([*said, *pace_words(self.catch_up_per_s, self.ingest_per_s, self.seconds_left)])

    @property
    def instants(self) -> frozenset[str]:
        """Instants of the build on the metadata table's timeline."""
        return frozenset({self.built_at, *self.deltas})


def pace_words(catch_up_per_s: float | None, ingest_per_s: float | None, seconds_left: float | None) -> list[str]:
    """Return the known rates of a build and its estimated end, in words."""
    said = []
    if catch_up_per_s is not None:
        said.append(f"catch-up adds {catch_up_per_s:.2f} completions/s")
    if ingest_per_s is not None:
        said.append(f"other writers complete {ingest_per_s:.2f}/s")
    if seconds_left is not None:
        said.append(f"about {seconds_left:.0f} s left")
    return said


def put_checkpoint(storage: Storage, checkpoint: BuildCheckpoint) -> None:
    """Replace the checkpoint of an execution."""
    storage.put(_path(checkpoint.plan, checkpoint.epoch), checkpoint.model_dump_json().encode())


def checkpoints_of(storage: Storage, plan: str) -> list[BuildCheckpoint]:
    """Return the checkpoints of a plan's executions, oldest first.

    Raises:
        Corrupt: one of them cannot be read.
    """
    found = []
    for info in storage.list(f"{FOLDER}/{plan}"):
        try:
            found.append(BuildCheckpoint.model_validate_json(body := storage.get(info.path)))
        except ValidationError as error:
            refuse_newer(body, CHECKPOINT, info.path)
            raise Corrupt(
                f"{info.path} is not the checkpoint of an index build",
                instant=plan,
                expected="a JSON object with the fields of a checkpoint",
                found=str(error.errors()[0]["msg"]),
                next_step=f"`hudi-ops cancel TABLE {plan} --force` removes the build; then build the index again",
            ) from error
    return sorted(found, key=lambda one: one.epoch)


def planned_builds(storage: Storage) -> list[str]:
    """Return the plans that have checkpoints, oldest first."""
    return sorted(storage.list_folder(FOLDER).folders)


def drop_checkpoints(storage: Storage, plan: str) -> None:
    """Delete the checkpoints of a plan that has ended."""
    for info in storage.list(f"{FOLDER}/{plan}"):
        storage.delete(info.path)


def drop_checkpoint(storage: Storage, plan: str, epoch: int) -> None:
    """Delete the checkpoint of one execution."""
    storage.delete(_path(plan, epoch))


def _path(plan: str, epoch: int) -> str:
    return f"{FOLDER}/{plan}/{epoch:06d}.json"
