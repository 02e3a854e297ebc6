"""Storage with planned failures, for crash and error sweeps.

A sweep runs a protocol once for every operation and fault:

    for number in itertools.count(1):
        storage = FaultyStorage(fresh_state(), FaultPlan.at(number, Fault.CRASH_AFTER))
        ...
        if not storage.fired:
            break
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from hudi_ops.errors import AlreadyExists, HudiOpsError, OutcomeUnknown, Unavailable
from hudi_ops.storage.protocol import Bytes, FileInfo, Folder, NewFiles, Storage, new_files

Result = TypeVar("Result")

_MUTATIONS = frozenset({"put", "put_if_absent", "delete"})


class Fault(Enum):
    """Faults of a storage call."""

    CRASH_BEFORE = "F1"
    CRASH_AFTER = "F2"
    ERROR_BEFORE = "F3"
    ERROR_AFTER = "F4"
    LANDS_LATER = "F5"
    EXISTS_THOUGH_ABSENT = "F6"
    EXISTS_BY_ITSELF = "F7"

    def applies_to(self, operation: str) -> bool:
        """Return whether the fault can happen to an operation; elsewhere a plan has no effect."""
        if self in {Fault.EXISTS_THOUGH_ABSENT, Fault.EXISTS_BY_ITSELF}:
            return operation == "put_if_absent"
        if self in {Fault.ERROR_AFTER, Fault.LANDS_LATER}:
            return operation in _MUTATIONS
        return True


class Crash(BaseException):
    """Process death at this storage call. Not an `Exception`, so that only tests catch it."""


class Faults(Protocol):
    """Source of faults: decides which call gets which fault."""

    def fault_at(self, number: int, point: str) -> Fault | None:
        """Return the fault of an operation, if any, by number from 1 and point, `operation:path`."""
        ...


@dataclass(frozen=True)
class FaultPlan:
    """Faults by number of the operation, counted from 1."""

    faults: Mapping[int, Fault] = field(default_factory=dict)

    @classmethod
    def at(cls, number: int, fault: Fault) -> FaultPlan:
        """Return a plan with one fault."""
        return cls({number: fault})

    def fault_at(self, number: int, point: str) -> Fault | None:
        """Return the fault planned for this number."""
        return self.faults.get(number)


@dataclass(frozen=True)
class _LateCall:
    """Call that takes effect at a later operation; `effect` has its path and body."""

    at: int
    point: str
    effect: partial[Any]


class FaultyStorage:
    """Storage that counts its calls and disturbs those that a plan names. Thread-safe.

    After a crash every call raises `Crash`: a dead process does no more I/O. What other threads had already handed to
    the inner storage may still land, as with a real one.

    Args:
        inner: the storage with the state; tests inspect it after a crash.
        plan: the faults.
        only_mutations: count (and so disturb) only put, put_if_absent and delete.
        lag_operations: after how many further operations a put of `Fault.LANDS_LATER` lands; without it, at `land()`.
    """

    def __init__(
        self,
        inner: Storage,
        plan: Faults | None = None,
        *,
        only_mutations: bool = False,
        lag_operations: int | None = None,
    ) -> None:
        self.inner = inner
        self._plan = plan or FaultPlan()
        self._only_mutations = only_mutations
        self._lag_operations = lag_operations
        self._lock = threading.Lock()
        self._history: list[str] = []
        self._fired: list[str] = []
        self._late: list[_LateCall] = []
        self._dead = False

    @property
    def dead(self) -> bool:
        """Whether the process that uses this storage has crashed."""
        return self._dead

    @property
    def history(self) -> Sequence[str]:
        """Return the counted operations as `operation:path`; operation n is `history[n - 1]`."""
        with self._lock:
            return tuple(self._history)

    @property
    def operations(self) -> int:
        """Number of operations counted."""
        with self._lock:
            return len(self._history)

    @property
    def fired(self) -> Sequence[str]:
        """Faults that took place: kind, number and point, such as `F2 7 put:a/b`."""
        with self._lock:
            return tuple(self._fired)

    @property
    def in_flight(self) -> int:
        """Number of effects that have not landed yet."""
        with self._lock:
            return len(self._late)

    @property
    def late_calls(self) -> Sequence[tuple[str, bytes]]:
        """Return point and body of each call that has not landed yet, the oldest first."""
        with self._lock:
            return tuple((late.point, b"".join(map(bytes, late.effect.args[1:]))) for late in self._late)

    def land(self) -> None:
        """Let the oldest late effect land, if there is one; requests of a dead process land, too."""
        with self._lock:
            effect = self._late.pop(0).effect if self._late else None
        if effect is not None:
            _carry_out(effect)

    @property
    def uri(self) -> str:
        """The inner storage's."""
        return self.inner.uri

    def get(self, path: str) -> bytes:
        """As the inner storage, unless disturbed."""
        return self._call("get", path, partial(self.inner.get, path))

    def open_input(self, path: str) -> pa.NativeFile:
        """As the inner storage, unless disturbed; reads through the opened file are not counted."""
        return self._call("open_input", path, partial(self.inner.open_input, path))

    def head(self, path: str) -> FileInfo | None:
        """As the inner storage, unless disturbed."""
        return self._call("head", path, partial(self.inner.head, path))

    def list(self, prefix: str = "") -> Sequence[FileInfo]:
        """As the inner storage, unless disturbed."""
        return self._call("list", prefix, partial(self.inner.list, prefix))

    def list_folder(self, prefix: str = "") -> Folder:
        """As the inner storage, unless disturbed."""
        return self._call("list_folder", prefix, partial(self.inner.list_folder, prefix))

    def list_new(self, prefix: str, known: frozenset[str]) -> NewFiles:
        """List as `list_folder` does: the faults see the whole listing, also known names."""
        return new_files(self.list_folder(prefix), known)

    def put(self, path: str, body: Bytes) -> None:
        """As the inner storage, unless disturbed."""
        self._call("put", path, partial(self.inner.put, path, body))

    def put_if_absent(self, path: str, body: Bytes) -> None:
        """As the inner storage, unless disturbed."""
        self._call("put_if_absent", path, partial(self.inner.put_if_absent, path, body))

    def sweep_temp(self, older_than_ms: int, now_ms: int) -> int:
        """As the inner storage; not counted, since no protocol relies on it."""
        return self.inner.sweep_temp(older_than_ms, now_ms)

    def delete(self, path: str) -> None:
        """As the inner storage, unless disturbed."""
        self._call("delete", path, partial(self.inner.delete, path))

    def delete_all(self, paths: Sequence[str], *, ordered: bool = False) -> None:
        """One by one, so that anything may happen between them."""
        for path in paths:
            self.delete(path)

    def _call(self, operation: str, path: str, effect: partial[Result]) -> Result:
        self._refuse_the_dead()
        if self._only_mutations and operation not in _MUTATIONS:
            return effect()
        point = f"{operation}:{path}"
        with self._lock:
            self._history.append(point)
            number = len(self._history)
            due = [late for late in self._late if late.at <= number]
            self._late = [late for late in self._late if late.at > number]
        for late in due:
            _carry_out(late.effect)
        fault = self._plan.fault_at(number, point)
        if fault is None or not fault.applies_to(operation):
            result = effect()
            self._refuse_the_dead()  # another thread crashed the process: nothing receives the answer
            return result
        with self._lock:
            self._fired.append(f"{fault.value} {number} {point}")
        raise self._disturb(fault, number, point, effect)

    def _disturb(self, fault: Fault, number: int, point: str, effect: partial[Any]) -> BaseException:
        story = f"injected {fault.value} at operation {number}, {point}"
        if fault is Fault.CRASH_BEFORE:
            self._dead = True
            return Crash(story)
        if fault is Fault.ERROR_BEFORE:
            return Unavailable(story)
        if fault is Fault.EXISTS_THOUGH_ABSENT:
            return AlreadyExists(story)
        if fault is Fault.LANDS_LATER:
            with self._lock:
                at = number + self._lag_operations if self._lag_operations is not None else _NEVER
                self._late.append(_LateCall(at, point, effect))
            return OutcomeUnknown(story)
        if fault is Fault.CRASH_AFTER:
            _carry_out(effect)
            self._dead = True
            return Crash(story)
        # A request that is refused by the store reports so: only what took effect can lose its reply or be sent twice.
        effect()
        return OutcomeUnknown(story) if fault is Fault.ERROR_AFTER else AlreadyExists(story)

    def _refuse_the_dead(self) -> None:
        if self._dead:
            raise Crash("a storage call of a process that is dead")


_NEVER = 1 << 62


def _carry_out(effect: Callable[[], object]) -> None:
    try:
        effect()
    except HudiOpsError:
        return  # refused by the store, and nothing receives the answer
