"""The atomic operations of the model of cancelled plans, and what its log and its files say.

There is one plan, on one file group. Slots of the log:

| entry | says |
| --- | --- |
| ("plan", inputs) | the plan, and the ingestions whose files it read |
| ("takeover", epoch, executor) | who executes the plan from now on |
| ("takeover", epoch, requester, "fence") | the same, by a process that only ends the execution (on a shared table) |
| ("complete", epoch), ("cancel", requester) | the plan's fate: the first of them counts |
| ("ingest", name, after plan) | an ingestion completes; it began before or after the plan was visible |
| ("archive",) | the aborted plan leaves the timeline |

Files: requested, inflight, "inflight by a foreign executor" (what the content of inflight says), "completed EPOCH", aborted,
swept, queue, "lease WHO", "data EPOCH", delta, "rollback WHO", "rolled back" and "done INGESTION". Notes: "writes EPOCH WHO"
while an executor may still put files, and what the properties need of the past.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from tests.model.checker import Operation, Outcomes, Steps, World

Log = tuple[tuple[Any, ...], ...]
Files = frozenset[str]
Entry = tuple[Any, ...]
Answer = Entry | str
Prepare = Callable[[Log, Files], "Answer | Generator[Operation, Any, Answer]"]

FOREIGN = "foreign"
"""The executor of Apache Hudi, and the epoch of its data file."""
INFLIGHT = ("inflight", "inflight by a foreign executor")
"""The inflight file, and what its content says: all of it goes at once."""
STARTS = "a foreign executor starts"
"""The note between its look at the requested file and its inflight file."""
SHARED = "shared"
"""The note of a table that Apache Hudi shares."""
NEXT = "next process"
"""The process that comes when all others have ended, and finds every lease of theirs expired."""

READ_LOG = Operation("reads the log", lambda world: [(world, world.log)])
LIST = Operation("lists the timeline", lambda world: [(world, world.files)])


class Rules(NamedTuple):
    """The guards that are left out, and whether Apache Hudi shares the table."""

    without: frozenset[str] = frozenset()
    shared: bool = False

    def on(self, guard: str) -> bool:
        """Return whether a guard is in place."""
        return guard not in self.without


def take_lock(me: str) -> Operation:
    """Wait for the table lock and take it."""
    return Operation(
        "takes the lock", lambda world: [(world._replace(lock=me), None)], lambda world: world.lock is None
    )


def free_lock(me: str) -> Operation:
    """Give the table lock back, if it was not lost."""

    def outcomes(world: World) -> Outcomes:
        return [(world._replace(lock=None) if world.lock == me else world, None)]

    return Operation("frees the lock", outcomes)


def claim(slot: int, entry: Entry) -> Operation:
    """Put an entry into a slot, unless the slot is taken; a takeover's executor may put files from then on."""

    def outcomes(world: World) -> Outcomes:
        if len(world.log) > slot:
            return [(world, False)]
        notes = world.notes | {f"writes {entry[1]} {entry[2]}"} if entry[0] == "takeover" else world.notes
        return [(world._replace(log=(*world.log, entry), notes=notes), True)]

    return Operation(f"claims slot {slot} for {' '.join(str(part) for part in entry)}", outcomes)


def put(*names: str) -> Operation:
    """Put files."""
    return Operation(
        f"puts {' and '.join(names)}", lambda world: [(world._replace(files=world.files | set(names)), None)]
    )


def delete(*names: str) -> Operation:
    """Delete files."""
    return Operation(
        f"deletes {' and '.join(names)}", lambda world: [(world._replace(files=world.files - set(names)), None)]
    )


def put_inflight() -> Operation:
    """Put the inflight file unless a foreign executor did; answers whether it is ours."""

    def outcomes(world: World) -> Outcomes:
        foreign = INFLIGHT[1] in world.files
        return [(world if foreign else world._replace(files=world.files | {"inflight"}), not foreign)]

    return Operation("puts inflight", outcomes)


def delete_data(below: int | None = None) -> Operation:
    """Delete the plan's data files: of all epochs and of foreign executors, or of the epochs below one."""

    def gone(name: str) -> bool:
        return is_data(name) and (below is None or (name[5:].isdigit() and int(name[5:]) < below))

    def outcomes(world: World) -> Outcomes:
        return [(world._replace(files=frozenset(name for name in world.files if not gone(name))), None)]

    return Operation("deletes data files" + ("" if below is None else f" of epochs below {below}"), outcomes)


def note(*add: str, forget: str = "") -> Operation:
    """Note something for the properties; no storage operation."""
    label = f"notes {', '.join(add)}" if add else f"no longer {forget}"
    return Operation(label, lambda world: [(world._replace(notes=(world.notes | set(add)) - {forget}), None)])


def wait(label: str, ready: Callable[[World], bool]) -> Operation:
    """Wait for a condition."""
    return Operation(f"waits until {label}", lambda world: [(world, None)], ready)


def find_live_lease(me: str) -> Operation:
    """Answer whether another executor's lease lives: one that is there may have expired at any time."""

    def outcomes(world: World) -> Outcomes:
        there = any(name.startswith("lease ") and name != f"lease {me}" for name in world.files)
        return [(world, live) for live in ((True, False) if there and me != NEXT else (False,))]

    return Operation("finds a live lease", outcomes)


def is_data(name: str) -> bool:
    """Return whether a file is a data file of the plan."""
    return name.startswith("data ")


def may_write(world: World) -> bool:
    """Return whether any executor may still put files of the plan."""
    return any(name.startswith("writes ") for name in world.notes)


def earlier_may_write(world: World, epoch: int) -> bool:
    """Return whether an owner of an earlier epoch may still put files of the plan."""
    writers = (name.split()[1] for name in world.notes if name.startswith("writes "))
    return any(writer.isdigit() and int(writer) < epoch for writer in writers)


def completed(files: Files) -> bool:
    """Return whether the plan's completed file is on the timeline."""
    return any(name.startswith("completed ") for name in files)


def fate(log: Log) -> str | None:
    """Return the plan's fate, "complete" or "cancel": the first such slot counts."""
    return next((entry[0] for entry in log if entry[0] in {"complete", "cancel"}), None)


def archived(log: Log) -> bool:
    """Return whether the plan lies below the ARCHIVE boundary."""
    return ("archive",) in log


def newest_epoch(log: Log) -> int:
    """Return the epoch of the newest TAKEOVER, 0 without one."""
    return max((entry[1] for entry in log if entry[0] == "takeover"), default=0)


def ingested(log: Log) -> frozenset[str]:
    """Return the ingestions that completed."""
    return frozenset(entry[1] for entry in log if entry[0] == "ingest")


def plan_inputs(log: Log) -> frozenset[str] | None:
    """Return the ingestions whose files the plan read, None when there is no plan."""
    return next((entry[1] for entry in log if entry[0] == "plan"), None)


def unapplied(log: Log, files: Files) -> Entry | None:
    """Return the first decided entry whose file is missing."""
    for slot, entry in enumerate(log):
        if entry[0] == "complete" and fate(log[:slot]) is None and not completed(files):
            return entry
        if entry[0] == "ingest" and f"done {entry[1]}" not in files:
            return entry
    if log and log[-1][0] == "plan" and "requested" not in files:
        return log[-1]
    return None


def apply(entry: Entry) -> Steps:
    """Put the file that a decided entry asks for; any process may, any number of times."""
    if entry[0] == "ingest":
        yield put(f"done {entry[1]}")
    elif entry[0] == "complete":
        if fate((yield READ_LOG)) == "complete":
            yield put(f"completed {entry[1]}")
    elif entry[0] == "plan":
        yield put("requested")
        if fate((yield READ_LOG)) == "cancel":
            yield delete("requested")


def decide(me: str, prepare: Prepare, rules: Rules, locked: bool = False) -> Generator[Operation, Any, Answer]:
    """Claim the next slot for the entry that `prepare` makes, under the lock; returns it, or the reason to claim none.

    The lock is still held when an entry is returned, as far as this process knows.
    """
    if not locked:
        yield take_lock(me)
    while True:
        log = yield READ_LOG
        files = yield LIST
        undone = unapplied(log, files)
        if undone and undone[0] == "plan" and rules.shared and rules.on("no blind put back"):
            undone = None
        if undone is not None:
            slot, log, files = len(log), (), frozenset()
            yield from apply(undone)
            continue
        answer = prepare(log, files)
        slot, log, files = len(log), (), frozenset()
        if isinstance(answer, Generator):
            answer = yield from answer
        if isinstance(answer, str):
            yield free_lock(me)
            return answer
        while True:
            if (yield claim(slot, answer)):
                return answer
            if rules.on("slot decides"):
                break
            slot += 1
