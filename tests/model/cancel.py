"""Actors of the cancel protocol (RFC-79) on a table that only processes with the commit log write."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from tests.model.checker import Actor, Model, Operation, Steps, World
from tests.model.operations import (
    FOREIGN,
    INFLIGHT,
    LIST,
    NEXT,
    READ_LOG,
    SHARED,
    STARTS,
    Answer,
    Files,
    Log,
    Rules,
    apply,
    archived,
    completed,
    decide,
    delete,
    delete_data,
    fate,
    find_live_lease,
    free_lock,
    ingested,
    is_data,
    may_write,
    newest_epoch,
    note,
    plan_inputs,
    put,
    put_inflight,
    take_lock,
    wait,
)


def execute(me: str, rules: Rules, cleans: bool = False) -> Steps:
    """Execute the plan: TAKEOVER, inflight file, data file, COMPLETE; with `cleans`, abort it when it was cancelled."""

    def take_over(log: Log, files: Files) -> Answer:
        if fate(log) is not None or "requested" not in files or completed(files) or INFLIGHT[1] in files:
            return "ended"
        return ("takeover", newest_epoch(log) + 1, me)

    if (yield find_live_lease(me)):
        return
    entry = yield from decide(me, take_over, rules)
    if entry == "ended":
        return
    epoch = entry[1]
    yield put(f"lease {me}")
    yield free_lock(me)
    yield delete_data(below=epoch)
    if (yield put_inflight()) and (yield from look_again(epoch, rules)):
        yield put(f"data {epoch}")
        yield from complete(me, epoch, rules)
    yield delete(f"lease {me}")
    yield note(forget=f"writes {epoch} {me}")
    if cleans:
        yield from abort(me, rules)


def look_again(epoch: int, rules: Rules) -> Generator[Operation, Any, bool]:
    """Return whether the instant is still this executor's; takes the inflight file back when it was cancelled.

    On a shared table it puts the requested file back that a late withdrawal removed. Only an owner may, since a cancel
    waits until earlier owners cannot write.
    """
    log = yield READ_LOG
    goes_on, cancelled = fate(log) is None and newest_epoch(log) == epoch, fate(log) == "cancel"
    log = ()
    if cancelled:
        yield delete(*INFLIGHT)
    if goes_on and rules.shared and "requested" not in (yield LIST):
        yield put("requested")
    return goes_on


def complete(me: str, epoch: int, rules: Rules) -> Steps:
    """Decide COMPLETE and apply it, unless the plan was cancelled, taken over, or its group changed since it was planned."""

    def prepare(log: Log, files: Files) -> Answer:
        if rules.on("fate in the decision") and fate(log) is not None:
            return "ended"
        if rules.on("epoch in the decision") and newest_epoch(log) != epoch:
            return "taken over"
        if completed(files) or "inflight" not in files or INFLIGHT[1] in files:
            return "no inflight file of ours"
        return ("complete", epoch) if ingested(log) <= (plan_inputs(log) or frozenset()) else "conflict"

    entry = yield from decide(me, prepare, rules)
    if not isinstance(entry, str):
        yield from apply(entry)
        yield free_lock(me)


def request(me: str, rules: Rules, times: int = 1) -> Steps:
    """Request a cancel: CANCEL slot, whether or not an executor lives, then the queue file."""

    def prepare(log: Log, files: Files) -> Answer:
        return fate(log) or ("cancel", me)

    while times:
        entry = yield from decide(me, prepare, rules)
        if not isinstance(entry, str):
            yield put("queue")
            yield free_lock(me)
            entry = "cancel"
        yield note(f"{me} heard {entry}")
        times -= 1


def abort(me: str, rules: Rules) -> Steps:
    """Abort a cancelled plan: rollback instant, data files, `.aborted`, inflight, requested, queue file, in this order."""
    if rules.on("request before abort") and fate((yield READ_LOG)) != "cancel":
        return
    if (yield find_live_lease(me)):
        return
    if not (yield from begin_rollback(me, rules)):
        return
    yield note(f"{me} rolls back")
    yield delete_data()
    yield delete("delta")
    yield put("aborted")
    yield delete(*INFLIGHT)
    yield delete("requested")
    yield delete("queue")
    yield put("rolled back")
    if not rules.on("second look"):
        yield put("swept")


def begin_rollback(me: str, rules: Rules) -> Generator[Operation, Any, bool]:
    """Put the rollback instant that excludes other aborters; returns whether this process is the one that goes on.

    The lock may be lost, so others are looked for again once it is there. The next process goes on with one that was left.
    """
    yield take_lock(me)
    files = yield LIST
    others = rollbacks(files)
    begins = "rolled back" not in files and (me == NEXT or not others or not rules.on("rollback instant"))
    takes_over = bool(others) and me == NEXT
    files = frozenset()
    if begins and not takes_over:
        yield put(f"rollback {me}")
    yield free_lock(me)
    if begins and not takes_over and rules.on("rollback instant"):
        others = rollbacks((yield LIST))
        if others != {f"rollback {me}"}:
            yield delete(f"rollback {me}")
            return False
    return begins


def rollbacks(files: Files) -> frozenset[str]:
    """Return the rollback instants of the plan."""
    return frozenset(name for name in files if name.startswith("rollback "))


def sweep(rules: Rules) -> Steps:
    """Look a second time, once no executor can write: delete what one put late, then mark the plan swept."""
    if "aborted" not in (yield LIST):
        return
    if rules.on("second look"):
        yield wait("no executor can write", lambda world: not may_write(world))
        yield delete_data()
        yield delete(*INFLIGHT, "requested", "queue", "delta")
    yield put("swept")


def archive(me: str, rules: Rules) -> Steps:
    """Archive the aborted plan, once it is swept."""

    def prepare(log: Log, files: Files) -> Answer:
        ready = "aborted" in files and ("swept" in files or not rules.on("archive waits for swept"))
        return ("archive",) if ready and not archived(log) else "not yet"

    entry = yield from decide(me, prepare, rules)
    if not isinstance(entry, str):
        yield delete("aborted", "swept")
        yield free_lock(me)


def ingest(me: str, rules: Rules) -> Steps:
    """Ingest into the plan's group: in one decision, CANCEL of the pending plan, then the own COMPLETE."""
    files = yield LIST
    log = yield READ_LOG
    after_plan, before = completed(files), ingested(log)
    log, files = (), frozenset()

    def prepare(log: Log, files: Files) -> Answer:
        if ingested(log) != before or (completed(files) and not after_plan):
            return "conflict"
        if plan_inputs(log) is not None and fate(log) is None:
            return ("cancel", me)
        return ("ingest", me, after_plan)

    entry = yield from decide(me, prepare, rules)
    if entry == ("cancel", me):
        yield put("queue")
        yield note(f"{me} heard cancel")
        entry = yield from decide(me, prepare, rules, locked=True)
    if not isinstance(entry, str):
        yield from apply(entry)
        yield free_lock(me)


def plan_and_execute(me: str, rules: Rules) -> Steps:
    """Publish the plan from what was ingested, then execute it."""
    inputs = ingested((yield READ_LOG))

    def prepare(log: Log, files: Files) -> Answer:
        return ("plan", inputs) if ingested(log) == inputs and plan_inputs(log) is None else "conflict"

    entry = yield from decide(me, prepare, rules)
    if isinstance(entry, str):
        return
    yield from apply(entry)
    yield free_lock(me)
    yield from execute(me, rules)


def recover(rules: Rules, mend: Callable[[], Steps] | None = None) -> Steps:
    """Finish what the others left: decided entries, a withdrawal, an abort, its second look, and the archive."""
    yield from decide(NEXT, lambda log, files: "nothing", rules)
    if mend is not None:
        yield from mend()
    if fate((yield READ_LOG)) == "cancel":
        yield from abort(NEXT, rules)
        yield from sweep(rules)
        yield from archive(NEXT, rules)
        if archived((yield READ_LOG)):
            yield delete("aborted", "swept", *INFLIGHT, "requested", "queue")


def crash(world: World, name: str) -> World:
    """Free the lock of a process that ended; it puts no file any more."""
    kept = frozenset(text for text in world.notes if not (text.startswith("writes ") and text.endswith(f" {name}")))
    kept -= {STARTS} if name == FOREIGN else set()
    return world._replace(lock=None if world.lock == name else world.lock, notes=kept)


def always(world: World) -> Iterator[str]:
    """Name the properties that a state violates."""
    done = completed(world.files)
    if done and "aborted" in world.files:
        yield "completed and aborted"
    if done and fate(world.log) == "cancel":
        yield "completed after a cancel"
    if done and any(name.endswith(" heard cancel") for name in world.notes):
        yield "visible after a request succeeded"
    for name in world.files:
        if name.startswith("completed ") and f"data {name[10:]}" not in world.files:
            yield "a data file of the completed plan is gone"
    for entry in world.log:
        if entry[0] == "ingest" and done and not entry[2] and entry[1] not in (plan_inputs(world.log) or ()):
            yield "an ingestion is lost"
    ours = any(is_data(name) and name != f"data {FOREIGN}" for name in world.files)
    if ours and SHARED in world.notes and not done and not {"requested", "inflight"} & world.files:
        yield "a base file of ours is off the timeline of a shared table"
    if archived(world.log) and (may_write(world) or any(is_data(name) for name in world.files)):
        yield "archived while a data file is there or may come"
    if sum(name.endswith(" rolls back") for name in world.notes - {f"{NEXT} rolls back"}) > 1:
        yield "two processes roll the plan back"
    for name in world.notes:
        if name.endswith(" heard cancel") and name.replace("cancel", "complete") in world.notes:
            yield "a repeated request has another answer"


def at_end(world: World) -> Iterator[str]:
    """Name the properties that the last state violates."""
    files, log = world.files, world.log
    if any(entry[0] == "complete" and not (completed(files) and fate(log) == "complete") for entry in log):
        yield "a decided COMPLETE is not visible"
    if any(entry[0] == "ingest" and f"done {entry[1]}" not in files for entry in log):
        yield "a decided ingestion is not visible"
    if "inflight" in files and "requested" not in files:
        yield "an inflight file has no requested file"
    if plan_inputs(log) is not None and fate(log) is None and "requested" not in files and not completed(files):
        yield "a pending plan is lost"
    if fate(log) == "cancel":
        if not archived(log):
            yield "a cancelled plan is never archived"
        for name in files & {"aborted", "swept", "inflight", "requested", "queue", "delta"}:
            yield f"{name} of a cancelled plan is left"
        if any(is_data(name) for name in files):
            yield "a data file of a cancelled plan is left"


def model(world: World, *actors: Actor, rules: Rules, mend: Callable[[], Steps] | None = None) -> Model:
    """Return a model of these actors, with the process that comes after them; `mend` is what it does on a shared table."""
    following = Actor(NEXT, lambda: recover(rules, mend), False, False, last=True)
    return Model([*actors, following], world, always, at_end, crash)


PLANNED = World(log=(("plan", frozenset()),), files=frozenset({"requested"}))
"""A table with one plan."""
