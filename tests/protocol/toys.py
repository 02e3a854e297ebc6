"""Small protocols upon the simulator, each with a bug that one kind of trouble brings to light, and each without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from hudi_ops.context import TableContext
from hudi_ops.errors import AlreadyExists, Busy, NotFound, OutcomeUnknown, Unavailable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.choices import FaultMenu
from hudi_ops.testing.simulation import RunRecord, Simulation
from tests.tables import START_MS

Run = Callable[[TableContext], object]


def simulation_of(*runs: Run, kinds: Iterable = (), most: int = 1, files: dict[str, bytes] | None = None) -> Simulation:
    """Actors a, b, c that run these functions."""
    storage = MemoryStorage("toy")
    for path, body in (files or {}).items():
        storage.put(path, body)
    simulation = Simulation(storage, START_MS, FaultMenu(frozenset(kinds), most))
    for name, run in zip("abcd", runs, strict=False):
        simulation.actor(name, run)
    return simulation


def number_at(ctx_or_history: TableContext | RunRecord, path: str = "n") -> int:
    """The number in a file; 0 when there is none."""
    try:
        return int(ctx_or_history.storage.get(path))
    except NotFound:
        return 0


def puts(count: int, prefix: str) -> Run:
    """So many puts to files of its own."""

    def run(ctx: TableContext) -> None:
        for number in range(count):
            ctx.storage.put(f"{prefix}{number}", b"")

    return run


def count_blindly(ctx: TableContext) -> None:
    """Lost update: nothing keeps another one from counting between read and write."""
    ctx.storage.put("n", str(number_at(ctx) + 1).encode())


def count_locked(ctx: TableContext) -> None:
    """Right as long as the lock is."""
    with ctx.locks.acquire(60.0, "count"):
        count_blindly(ctx)


def count_while_it_is_mine(ctx: TableContext) -> None:
    """Asks the lock before it writes."""
    with ctx.locks.acquire(60.0, "count") as held:
        number = number_at(ctx)
        ctx.storage.head("something")
        if not held.still_mine():
            raise Busy("the lock was lost")
        ctx.storage.put("n", str(number + 1).encode())


def count_even_if_busy(ctx: TableContext) -> None:
    """Takes a refusal of the lock for leave to go on."""
    try:
        count_locked(ctx)
    except Busy:
        count_blindly(ctx)


def count_in_slots(ctx: TableContext) -> None:
    """Right without a lock: a number is a name that nobody else can have."""
    number = 1
    while True:
        try:
            ctx.storage.put_if_absent(f"slot{number}", ctx.owner.host.encode())
        except AlreadyExists:
            number += 1
            continue
        return


def look_then_take(ctx: TableContext) -> str:
    """Check, then act."""
    if ctx.storage.head("mine") is not None:
        return "lost"
    ctx.storage.put("mine", ctx.owner.host.encode())
    return "won"


def take(ctx: TableContext) -> str:
    """Takes a failed create for another's win, which it need not be."""
    try:
        ctx.storage.put_if_absent("mine", ctx.owner.host.encode())
    except AlreadyExists:
        return "lost"
    return "won"


def put_both(ctx: TableContext) -> None:
    """Two files that must be one."""
    ctx.storage.put("x", b"1")
    ctx.storage.put("y", b"1")


def put_without_care(ctx: TableContext) -> str:
    """Reports success, whatever the storage says."""
    with suppress(Unavailable):
        ctx.storage.put("x", b"1")
    return "done"


def count_again_when_unknown(ctx: TableContext) -> None:
    """Takes an unknown outcome for a failure."""
    try:
        count_blindly(ctx)
    except OutcomeUnknown:
        count_blindly(ctx)


def replace_when_unknown(ctx: TableContext) -> int:
    """Its first try may still land, after the second; returns what it takes for the number."""
    try:
        ctx.storage.put("n", b"1")
    except OutcomeUnknown:
        ctx.storage.put("n", b"2")
        return 2
    return 1


def take_two_times(ctx: TableContext) -> list[int]:
    """Believes that a clock only goes forward, and not far."""
    times = []
    for name in ("first", "second"):
        ctx.storage.put(name, b"")
        times.append(ctx.clock.now_ms())
    return times


def write_under_lease(*, beats: bool) -> Run:
    """Relies on its lease for safety; whoever finds it 120 s old takes over."""

    def run(ctx: TableContext) -> None:
        def beat() -> None:
            ctx.storage.put("lease", str(ctx.clock.now_ms()).encode())

        def work() -> None:
            beat()
            ctx.storage.put("work", b"")
            count_blindly(ctx)

        if not beats:
            return work()
        with ctx.beats.every(30.0, beat):
            work()

    return run


def take_over(ctx: TableContext) -> None:
    """Does the work of one whose lease is old, unless it was done."""
    since_ms = number_at(ctx, "lease")
    if since_ms and ctx.clock.now_ms() - since_ms > 120_000 and not number_at(ctx):
        count_blindly(ctx)
        ctx.storage.put("took over", b"")
