"""Answer requests about one table.

There is one sync, and one encoding of each partition, at a time; waits have a deadline.

Runs on the event loop; what blocks runs in threads. A request that gives up at its deadline leaves the work to others.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hudi_ops.errors import HudiOpsError
from hudi_ops.server.encoding import Cache, Key, encode_parts, estimated_bytes, files_answer, partitions_answer, size_of
from hudi_ops.server.limits import Limits
from hudi_ops.server.questions import Address, FilesQuestion, Refused
from hudi_ops.server.states import HeldState
from hudi_ops.server.table_reader import NotServed, TableReader
from hudi_ops.view.remote.wire import UNKNOWN_STATE, Part

logger = logging.getLogger(__name__)

UNKNOWN_KEPT = 1000
"""Unknown states that are remembered."""

T = TypeVar("T")


@dataclass
class ServedTable:
    """One table of the server.

    Attributes:
        readers: threads that read storage.
        encoders: threads that encode.
        why_not: why the table is not served; empty: it is, or was not looked at yet.
        looked: the first look at the table has ended.
    """

    reader: TableReader
    limits: Limits
    cache: Cache
    readers: Executor
    encoders: Executor
    why_not: str = ""
    looked: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    synced_s: float = 0.0
    _sync: asyncio.Future[None] | None = None
    _begun: int = 0
    _ended: int = 0
    _lookups: dict[tuple[str, str, str], asyncio.Future[None]] = field(default_factory=dict)
    _encoding: dict[Key, asyncio.Future[Part]] = field(default_factory=dict)
    _unknown: dict[tuple[str, str, str], float] = field(default_factory=dict)

    async def files(
        self, address: Address, wanted: FilesQuestion, until_s: float, take: Callable[[int], None]
    ) -> bytes:
        """Return the answer with files; `take` is called before, with its estimated bytes.

        Raises:
            Refused: the table or state is not served, the answer is too large, or the deadline passed, or by `take`.
        """
        state = await self.state(address, until_s)
        is_whole = not wanted.partitions
        paths = state.view.files.partitions if is_whole else wanted.partitions
        take(estimated_bytes(state.view.files, paths))
        parts = await self._parts(state, paths, is_newest=wanted.is_newest, until_s=until_s)
        if size_of([*parts.values()]) > self.limits.answer_bytes:
            raise Refused(413, "the answer is above its limit: ask for fewer partitions")

        def answer() -> bytes:
            return files_answer(state, address.about, parts, is_newest=wanted.is_newest, is_whole=is_whole)

        return await self._within(self._run(self.encoders, answer), until_s)

    async def partitions(self, address: Address, until_s: float) -> bytes:
        """Return the answer with the names of partitions; raise as `files` does."""
        state = await self.state(address, until_s)
        return await self._within(self._run(self.encoders, lambda: partitions_answer(state, address.about)), until_s)

    async def state(self, address: Address, until_s: float) -> HeldState:
        """Return the state that a request names.

        Requests for an unknown state share one sync.

        Raises:
            Refused: 404, it is not known or the table is not served; 409, another table; 503, the deadline passed.
        """
        if (state := self._held(address)) is not None:
            self._count("held")
            return state
        key = address.about
        if time.monotonic() - self._unknown.get(key, -math.inf) > self.limits.unknown_s:
            lookup = self._lookups.get(key)
            if lookup is None:
                lookup = self._lookups[key] = asyncio.ensure_future(self._found_out(address))
                lookup.add_done_callback(_retrieved)
            await self._within(lookup, until_s)
            if (state := self._held(address)) is not None:
                self._count("synced")
                return state
        if self.why_not:
            raise Refused(404, self.why_not)
        states = self.reader.states
        if states is not None and states.table_id != address.table_id:
            raise Refused(409, "the table has another id")
        self._count("unknown")
        raise Refused(404, UNKNOWN_STATE)

    def _held(self, address: Address) -> HeldState | None:
        states = self.reader.states
        if states is None or states.table_id != address.table_id:
            return None
        return states.find(address.start, address.digest)

    def _remember(self, key: tuple[str, str, str]) -> None:
        self._unknown.pop(key, None)
        self._unknown[key] = time.monotonic()
        while len(self._unknown) > UNKNOWN_KEPT:
            del self._unknown[next(iter(self._unknown))]

    async def _found_out(self, address: Address) -> None:
        """Read the timeline after this call, and remember an unknown state.

        It is not read again if a sync that runs already finds the state.

        Raises:
            Refused: 503, the table cannot be read.
        """
        try:
            before = self._begun
            while self._held(address) is None and self._ended <= before:
                await asyncio.shield(self._synced())
            if self._held(address) is None:
                self._remember(address.about)
        finally:
            del self._lookups[address.about]

    def _synced(self) -> asyncio.Future[None]:
        """Return the sync that runs, or begin one."""
        if self._sync is None:
            self._begun += 1
            self._sync = asyncio.ensure_future(self._synced_now())
            self._sync.add_done_callback(_retrieved)
        return self._sync

    async def _synced_now(self) -> None:
        try:
            await self._run(self.readers, self.reader.sync)
            self.why_not = ""
        except NotServed as error:
            self.why_not = str(error)
        except HudiOpsError as error:
            logger.warning("table %s cannot be read: %s", self.reader.location.name, error)
            raise Refused(503, "the table cannot be read now", 1) from error
        except Exception as error:
            logger.exception("a sync of table %s failed", self.reader.location.name)
            raise Refused(503, "the table cannot be read now", 1) from error
        finally:
            self._sync, self._ended, self.synced_s = None, self._begun, time.monotonic()

    async def look(self) -> None:
        """Read the table for the first time; after an error the next request reads it again."""
        try:
            await self._synced()
        except Refused:
            logger.warning("table %s is not served yet", self.reader.location.name)
        if self.why_not:
            logger.warning("table %s is not served: %s", self.reader.location.name, self.why_not)
        self.looked = True

    async def _parts(
        self, state: HeldState, paths: Sequence[str], *, is_newest: bool, until_s: float
    ) -> dict[str, Part]:
        """Return encoded partitions: cached ones, those being encoded, and the others."""
        found: dict[str, Part] = {}
        waiting: dict[str, asyncio.Future[Part]] = {}
        own: list[str] = []
        for path in paths:
            key = (state.serial, path, is_newest)
            if (part := self.cache.get(key)) is not None:
                found[path] = part
            elif key in self._encoding:
                waiting[path] = self._encoding[key]
            else:
                own.append(path)
        if own:
            loop = asyncio.get_running_loop()
            for path in own:
                future = waiting[path] = self._encoding[state.serial, path, is_newest] = loop.create_future()
                future.add_done_callback(_retrieved)
            task = asyncio.ensure_future(self._encode(state, own, is_newest=is_newest))
            task.add_done_callback(_retrieved)
        if waiting:
            await self._within(asyncio.wait(waiting.values()), until_s)
            found |= {path: future.result() for path, future in waiting.items()}
        return found

    async def _encode(self, state: HeldState, paths: Sequence[str], *, is_newest: bool) -> None:
        """Encode partitions in a thread, and hand them to all that wait for them."""
        futures = {path: self._encoding[state.serial, path, is_newest] for path in paths}
        try:
            parts = await self._run(self.encoders, lambda: encode_parts(state, paths, is_newest=is_newest))
        except Exception as error:  # noqa: BLE001 - those that wait raise it
            logger.warning("partitions of %s cannot be encoded: %s", self.reader.location.name, error)
            for future in futures.values():
                future.set_exception(Refused(503, "the partitions cannot be encoded now", 1))
        else:
            for path, future in futures.items():
                self.cache.put((state.serial, path, is_newest), parts[path])
                future.set_result(parts[path])
        finally:
            for path in paths:
                del self._encoding[state.serial, path, is_newest]

    async def _run(self, where: Executor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(where, work)

    async def _within(self, work: Awaitable[T], until_s: float) -> T:
        """Wait for work until a deadline; the work goes on after it.

        Raises:
            Refused: 503, the deadline passed.
        """
        task = asyncio.ensure_future(work)
        task.add_done_callback(_retrieved)
        try:
            return await asyncio.wait_for(asyncio.shield(task), until_s - time.monotonic())
        except TimeoutError:
            self._count("deadlines")
            raise Refused(503, "no answer within the deadline", 1) from None

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def status(self) -> dict[str, Any]:
        """Return counts, ages and bytes."""
        states = self.reader.states
        found: dict[str, Any] = {
            "not_served": self.why_not,
            "states": len(states.held) if states is not None else 0,
            "syncs": self.reader.syncs,
            "builds": self.reader.builds,
            "requests": dict(self.counts),
            "heap_bytes": self.reader.heap_bytes,
            "synced_s_ago": round(time.monotonic() - self.synced_s, 1) if self.synced_s else None,
        }
        return found | self.newest()

    def newest(self) -> dict[str, Any]:
        """Return id, start and digest of the newest state; nothing if none is held."""
        states = self.reader.states
        if states is None or not states.held:
            return {}
        newest = states.newest
        return {
            "table_id": states.table_id,
            "start": newest.start,
            "digest": newest.digest(states.table_id, newest.start),
            "files": newest.view.files.count,
            "partitions": len(newest.view.files.partitions),
        }


def _retrieved(future: asyncio.Future[Any]) -> None:
    """Take note of an error of work that no request waits for; it was logged where it arose."""
    if not future.cancelled():
        future.exception()
