"""Storage, lock, clock and heartbeats of one simulated process; each call is a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pyarrow as pa

from hudi_ops.concurrency.lock.lock_nodes import busy
from hudi_ops.concurrency.lock.locks import Held, LockHolder
from hudi_ops.context import TableContext
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import AlreadyExists, HudiOpsError, OutcomeUnknown, Unavailable
from hudi_ops.storage.protocol import Bytes, FileInfo, Folder, NewFiles, new_files
from hudi_ops.testing.faults import Crash, Fault
from hudi_ops.testing.process import Beat, Process
from hudi_ops.testing.simulated import SIMULATED_LOCK, simulated_context
from hudi_ops.testing.steps import LOCK, Event, PendingCall, Step
from hudi_ops.testing.world import Acquisition, LateEffect, fold

Result = TypeVar("Result")

_ENGINE = LocalEngine(threads=1)  # one for all: it measures the machine's memory once


def stepped_context(process: Process) -> TableContext:
    """Return a context in which every effect is a step of this process."""
    return replace(
        simulated_context(process.world.storage, process.world.clock, process.name),
        storage=SteppedStorage(process),
        locks=SteppedLock(process),
        clock=SteppedClock(process),
        beats=SteppedBeats(process),
        engine=_ENGINE,
    )


class SteppedStorage:
    """The world's storage as one process sees it; each call is a step that may be disturbed."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._late = 0

    @property
    def uri(self) -> str:
        """The world's storage's."""
        return self._world.storage.uri

    def get(self, path: str) -> bytes:
        """As any storage, unless disturbed."""
        return self._read("get", path, lambda: self._world.storage.get(path))

    def open_input(self, path: str) -> pa.NativeFile:
        """As any storage, unless disturbed; reads through the opened file are no steps."""
        return self._read("open_input", path, lambda: self._world.storage.open_input(path))

    def head(self, path: str) -> FileInfo | None:
        """As any storage, unless disturbed."""
        return self._call("head", path, lambda: self._world.storage.head(path), _told_info)

    def list(self, prefix: str = "") -> Sequence[FileInfo]:
        """As any storage, unless disturbed."""
        return self._call("list", prefix, lambda: self._world.storage.list(prefix), _told_files)

    def list_folder(self, prefix: str = "") -> Folder:
        """As any storage, unless disturbed."""
        return self._call("list_folder", prefix, lambda: self._world.storage.list_folder(prefix), _told_folder)

    def list_new(self, prefix: str, known: frozenset[str]) -> NewFiles:
        """List as `list_folder` does: the step returns the whole listing, also known names."""
        return new_files(self.list_folder(prefix), known)

    def put(self, path: str, body: Bytes) -> None:
        """As any storage, unless disturbed."""
        self._change("put", path, partial(self._world.storage.put, path, bytes(memoryview(body))))

    def put_if_absent(self, path: str, body: Bytes) -> None:
        """As any storage, unless disturbed."""
        self._change("put_if_absent", path, partial(self._world.storage.put_if_absent, path, bytes(memoryview(body))))

    def delete(self, path: str) -> None:
        """As any storage, unless disturbed."""
        self._change("delete", path, partial(self._world.storage.delete, path))

    def delete_all(self, paths: Sequence[str], *, ordered: bool = False) -> None:
        """One by one, so that anything may happen between them."""
        for path in paths:
            self.delete(path)

    def sweep_temp(self, older_than_ms: int, now_ms: int) -> int:
        """Do nothing: puts of the world leave no temporary files."""
        return 0

    def _read(self, name: str, path: str, effect: Callable[[], Result]) -> Result:
        def told(_: Result) -> tuple[str, bytes]:
            return "ok", self._world.body_digest(path)

        return self._call(name, path, effect, told)

    def _change(self, name: str, path: str, effect: Callable[[], None]) -> None:
        def carried_out() -> None:
            effect()
            self._world.changed(path)

        self._call(name, path, carried_out, lambda _: ("ok", b""))

    def _call(
        self, name: str, path: str, effect: Callable[[], Result], told: Callable[[Result], tuple[str, bytes]]
    ) -> Result:
        step = self._process.pause(PendingCall(name, path))
        try:
            if isinstance(step.trouble, Fault):
                raise self._disturb(step.trouble, step, effect)
            result = effect()
        except HudiOpsError as error:
            self._process.saw(step, type(error).__name__)
            raise
        said, digest = told(result)
        self._process.saw(step, said, digest)
        return result

    def _disturb(self, fault: Fault, step: Step, effect: Callable[[], object]) -> BaseException:
        # Without the step's number: runs that end alike must say the same.
        story = f"injected {fault.value} at {step.operation}"
        if fault is Fault.ERROR_BEFORE:
            return Unavailable(story)
        if fault is Fault.EXISTS_THOUGH_ABSENT:
            return AlreadyExists(story)
        if fault is Fault.LANDS_LATER:
            self._late += 1
            name = f"{self._process.name}~late{self._late}"
            self._process.scheduler.late.append(LateEffect(name, step.operation.path, effect))
            return OutcomeUnknown(story)
        if fault in {Fault.CRASH_BEFORE, Fault.CRASH_AFTER}:
            if fault is Fault.CRASH_AFTER:
                with suppress(HudiOpsError):  # refused by the store, and nothing receives the answer
                    effect()
            self._process.die()
            return Crash(story)
        # A request that is refused by the store reports so: only what took effect can lose its reply or be sent twice.
        effect()
        return OutcomeUnknown(story) if fault is Fault.ERROR_AFTER else AlreadyExists(story)


def _told_info(info: FileInfo | None) -> tuple[str, bytes]:
    return ("nothing", b"") if info is None else (f"{info.size_bytes} bytes", str(info.modified_ms).encode())


def _told_files(files: Sequence[FileInfo]) -> tuple[str, bytes]:
    return f"{len(files)} files", repr([(one.path, one.size_bytes, one.modified_ms) for one in files]).encode()


def _told_folder(folder: Folder) -> tuple[str, bytes]:
    said, digest = _told_files(folder.files)
    return f"{said}, {len(folder.folders)} folders", digest + repr(folder.folders).encode()


class SteppedClock:
    """Time of one process: the world's time with a skew; sleeps until the scheduler wakes it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        """Wall time of this process."""
        process = self._process
        process.scheduler.clock_was_read(process.name)
        now_ms = process.world.clock.now_ms() + process.skew_ms
        process.seen = fold(process.seen, str(now_ms))
        return now_ms

    def monotonic_s(self) -> float:
        """Seconds since the simulation began."""
        process = self._process
        process.scheduler.clock_was_read(process.name)
        elapsed_s = process.world.clock.monotonic_s()
        process.seen = fold(process.seen, str(elapsed_s))
        return elapsed_s

    def sleep_s(self, seconds: float) -> None:
        """Add a step that is made once the time has come."""
        process = self._process
        process.scheduler.clock_was_read(process.name)
        wake_ms = process.world.clock.wall_ms + round(seconds * 1000)
        process.saw(process.pause(PendingCall("sleep", f"{seconds:g}s"), wake_ms), "awake")


class SteppedBeats:
    """Beats that are made at their due time in the world, unless the process is paused."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @contextmanager
    def every(self, interval_s: float, beat: Callable[[], None]) -> Iterator[None]:
        """Call `beat` each `interval_s` seconds of the world's time until the context ends."""
        interval_ms = round(interval_s * 1000)
        self._process.scheduler.clock_was_read(self._process.name)
        mine = Beat(interval_ms, beat, self._process.world.clock.wall_ms + interval_ms)
        self._process.beats.append(mine)
        try:
            yield
        finally:
            with suppress(ValueError):  # a dead process has no beats
                self._process.beats.remove(mine)


class SteppedLock:
    """The world's lock as one process sees it."""

    address = SIMULATED_LOCK

    def __init__(self, process: Process) -> None:
        self._process = process

    @contextmanager
    def acquire(self, timeout_s: float, purpose: str) -> Iterator[Held]:
        """Wait in line for the lock; time-outs are of the world's time.

        Raises:
            Busy: not acquired in time, or never granted by the simulation.
        """
        held = self._wait(timeout_s, purpose)
        try:
            yield _SteppedHeld(self._process, held)
        finally:
            step = self._process.pause(PendingCall("release", LOCK))
            self._process.world.lock.free(held)
            self._process.saw(step, "ok")

    def holder(self) -> LockHolder | None:
        """Return who holds the lock now, or None."""
        held = self._process.world.lock.held
        self._process.seen = fold(self._process.seen, "" if held is None else held.actor)
        return None if held is None else held.holder

    def _wait(self, timeout_s: float, purpose: str) -> Acquisition:
        process, lock = self._process, self._process.world.lock
        process.scheduler.clock_was_read(process.name)
        deadline_ms = process.world.clock.wall_ms + round(timeout_s * 1000)
        process.seen = fold(process.seen, str(deadline_ms))
        step = process.pause(PendingCall("acquire", LOCK))
        if step.trouble is Event.LOCK_REFUSED:
            process.saw(step, "refused")
            step = process.pause(PendingCall("sleep", f"{timeout_s:g}s"), deadline_ms)
        else:
            while not lock.can_enter(process.name) and process.world.clock.wall_ms < deadline_ms:
                process.saw(step, "waits")
                lock.waiting.append(process.name) if process.name not in lock.waiting else None
                process.is_queued = True
                step = process.pause(PendingCall("acquire", LOCK), deadline_ms)
                process.is_queued = False
            if lock.can_enter(process.name):
                holder = LockHolder(process.name, f"simulated-{process.name}", purpose, process.world.clock.wall_ms)
                held = lock.enter(process.name, holder)
                process.saw(step, f"token {held.token}")
                return held
        lock.leave_queue(process.name)
        process.saw(step, "Busy")
        raise busy(process.world.storage.uri, None if lock.held is None else lock.held.holder, timeout_s)


class _SteppedHeld:
    """One acquisition as its holder sees it."""

    def __init__(self, process: Process, held: Acquisition) -> None:
        self._process = process
        self._held = held

    @property
    def token(self) -> int:
        return self._held.token

    def still_mine(self) -> bool:
        answer = not self._held.is_noticed
        self._process.seen = fold(self._process.seen, str(answer))
        return answer
