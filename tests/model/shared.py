"""Actors of the cancel protocol on a table that Apache Hudi shares: a foreign executor, and who withdraws the plan before a CANCEL.

The foreign executor knows no slots. Its steps are those that were seen with Apache Hudi: it reads the requested file, puts the
inflight file without the lock, writes a base file, and completes under the lock if the inflight file is there.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from tests.model.checker import Operation, Outcomes, Steps, World
from tests.model.operations import (
    FOREIGN,
    INFLIGHT,
    LIST,
    READ_LOG,
    STARTS,
    Answer,
    Entry,
    Files,
    Log,
    Rules,
    apply,
    completed,
    decide,
    delete,
    delete_data,
    earlier_may_write,
    fate,
    find_live_lease,
    free_lock,
    ingested,
    newest_epoch,
    note,
    plan_inputs,
    put,
    take_lock,
    wait,
)


def _read_requested() -> Operation:
    def outcomes(world: World) -> Outcomes:
        starts = "requested" in world.files and not completed(world.files)
        notes = world.notes | {f"writes {FOREIGN}", STARTS} if starts else world.notes
        return [(world._replace(notes=notes), starts)]

    return Operation("reads requested", outcomes)


def _start() -> Operation:
    def outcomes(world: World) -> Outcomes:
        notes = world.notes - {STARTS}
        return [(world._replace(files=world.files | set(INFLIGHT), notes=notes), None)]

    return Operation("puts its inflight", outcomes)


def execute_foreign(rules: Rules, reads_again: bool) -> Steps:
    """Execute the plan as Apache Hudi does; with `reads_again`, fail when the requested file is gone at the end.

    Apache Hudi reads it again before it completes where there is a metadata table; without one it was seen to complete.
    """
    if not (yield _read_requested()):
        return
    yield _start()
    yield put(f"data {FOREIGN}")
    yield take_lock(FOREIGN)
    files = yield LIST
    fails = (
        completed(files)
        or (reads_again and "requested" not in files)
        or ("inflight" not in files and rules.on("foreign inflight check"))
    )
    files = frozenset()
    if not fails:
        yield put("delta")
        yield put(f"completed {FOREIGN}")
    yield free_lock(FOREIGN)
    yield note(forget=f"writes {FOREIGN}")


Prepared = Generator[Operation, Any, Answer]


def withdraw(entry: Entry, files: Files, rules: Rules) -> Prepared:
    """Take the plan off the timeline, under the lock; returns the entry to claim, or "busy" when a foreign executor began.

    An inflight file of a foreign executor gets its requested file back: without it every read of Apache Hudi fails. An
    inflight file of ours does not: its executor does that. A process that sleeps before such a put would put the file
    after a later CANCEL, and Apache Hudi would execute it.
    """
    began, foreign, lacks = "inflight" in files, INFLIGHT[1] in files, "requested" not in files
    files = frozenset()
    if began:
        if lacks and (foreign or not rules.on("no blind put back")):
            yield put("requested")
        return "busy"
    yield delete("requested")
    if rules.on("wait before the second list"):
        yield wait(
            "a foreign executor that read requested has begun",
            lambda world: STARTS not in world.notes,
        )
    if rules.on("list again"):
        files = yield LIST
        began = "inflight" in files or completed(files)
        foreign = INFLIGHT[1] in files or completed(files)
        files = frozenset()
        if foreign or (began and not rules.on("no blind put back")):
            yield put("requested")
        if began:
            return "busy"
    return entry


def wait_for_earlier_owners(epoch: int) -> Operation:
    """Wait until no owner of an earlier epoch can put files: it has ended, or its lease and the second look have passed."""
    return wait("no earlier owner can write", lambda world: not earlier_may_write(world, epoch))


def request_shared(me: str, rules: Rules, times: int = 1) -> Steps:
    """Request a cancel of a plan that a foreign executor may find.

    A plan that an executor of ours began is taken over first. The CANCEL waits until that executor cannot write and its
    data files are gone: they may not outlive the plan on the timeline, and a plan on the timeline may be executed.
    """

    def fence(log: Log, files: Files) -> Answer:
        if fate(log) or completed(files):
            return fate(log) or "complete"
        if INFLIGHT[1] in files:
            return "busy"
        if newest_epoch(log) == 0:
            return "not begun"
        return (
            ("takeover", newest_epoch(log) + 1, me, "fence") if rules.on("fence before the cancel") else ("cancel", me)
        )

    def cancel(log: Log, files: Files) -> Answer | Prepared:
        if fate(log) or completed(files):
            return fate(log) or "complete"
        if newest_epoch(log) != epoch:
            return "busy"
        return withdraw(("cancel", me), files, rules)

    def leave(log: Log, files: Files) -> Answer | Prepared:
        if fate(log) is None and newest_epoch(log) == epoch and "inflight" in files and INFLIGHT[1] not in files:
            return delete_inflight()
        return "left"

    def delete_inflight() -> Prepared:
        yield delete(*INFLIGHT)
        return "left"

    while times:
        epoch = 0
        answer = yield from decide(me, fence, rules)
        if not isinstance(answer, str):
            yield free_lock(me)
            if answer[0] == "takeover":
                epoch = answer[1]
                yield wait_for_earlier_owners(epoch)
                yield delete_data(below=epoch)
                yield from decide(me, leave, rules)
                answer = "fenced"
        if answer in {"not begun", "fenced"}:
            answer = yield from decide(me, cancel, rules)
            if not isinstance(answer, str):
                yield put("queue")
                yield free_lock(me)
        yield note(f"{me} heard {answer if isinstance(answer, str) else 'cancel'}", forget=f"writes {epoch} {me}")
        times -= 1


def ingest_shared(me: str, rules: Rules) -> Steps:
    """Ingest into the plan's group: withdraw the plan, CANCEL it, then the own COMPLETE, all in one decision.

    A plan that an executor of ours began is Busy.
    """
    files = yield LIST
    log = yield READ_LOG
    after_plan, before = completed(files), ingested(log)
    log, files = (), frozenset()

    def prepare(log: Log, files: Files) -> Answer | Prepared:
        if ingested(log) != before or (completed(files) and not after_plan):
            return "conflict"
        if plan_inputs(log) is None or fate(log) is not None or after_plan:
            return ("ingest", me, after_plan)
        if newest_epoch(log):
            return "busy"
        if not rules.on("withdraw before the complete"):
            return ("cancel", me)
        return withdraw(("cancel", me), files, rules)

    entry = yield from decide(me, prepare, rules)
    if entry == ("cancel", me):
        yield put("queue")
        yield note(f"{me} heard cancel")
        entry = yield from decide(me, prepare, rules, locked=True)
    if not isinstance(entry, str):
        yield from apply(entry)
        yield free_lock(me)


def mend(me: str, rules: Rules) -> Steps:
    """End a withdrawal that another process left between the removal of the requested file and the CANCEL.

    The withdrawal is ended and not undone. The other process may only sleep: its CANCEL would win the slot, and a requested
    file that was put back meanwhile would be executed after it. A foreign executor that began gets the file back, and the
    plan; so does one that completed.
    """
    if not rules.on("put back after a crash"):
        return
    log = yield READ_LOG
    files = yield LIST
    lacks = plan_inputs(log) is not None and "requested" not in files
    end, began = fate(log), INFLIGHT[1] in files or completed(files)
    log, files = (), frozenset()
    if lacks and end is None and not began and rules.on("no blind put back"):
        if not (yield find_live_lease(me)):
            yield from request_shared(me, rules)
    elif lacks and end != "cancel":
        yield take_lock(me)
        if fate((yield READ_LOG)) != "cancel":
            yield put("requested")
        yield free_lock(me)
