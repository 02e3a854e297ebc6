"""Renew leases from a process of its own (`concurrency/lease/heartbeat_process.py`), while Python's global lock is held here.

One a process, started by its first lease and kept until the process ends. Whatever goes wrong with it, threads take over.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lease import heartbeat_process as beater
from hudi_ops.concurrency.lease.heartbeat_threads import FAREWELL_S, ThreadBeats
from hudi_ops.concurrency.lease.lease import Renewal
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.open import open_storage
from hudi_ops.storage.protocol import Storage

logger = logging.getLogger(__name__)

# A word that was sent so long before a beat is due is heard before it: the beater listens before it beats.
_HEARD_S = 1.0
# Lines that may lie unheard in the pipe, which takes no more once a quarter of it is full; and how long to wait for room in it.
_UNHEARD_LINES = 16
_ROOM_S = 2.0
_CLOCK = SystemClock()


class ProcessBeats:
    """Has leases renewed by a process beside this one. Safe between threads; forgotten by processes that are forked."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._beater: _Beater | None = None
        self._threads = ThreadBeats()
        self._why_not = ""

    @contextmanager
    def every(self, interval_s: float, beat: Callable[[], None]) -> Iterator[None]:
        """Have a lease renewed each `interval_s` seconds until the context ends.

        Args:
            interval_s: from one beat to the next; the first one is due after it.
            beat: a `Renewal`; what another process cannot do is called from threads.
        """
        kept = self._keep(interval_s, beat)
        if kept is None:
            with self._threads.every(interval_s, beat):
                yield
            return
        try:
            yield
        finally:
            kept.end()

    @property
    def process_id(self) -> int | None:
        """The process beside this one; None while there is none."""
        return self._beater.process_id if self._beater is not None and not self._beater.is_gone else None

    def close(self, *, is_waited_for: bool = True) -> None:
        """End the process beside this one; the next lease starts another.

        Args:
            is_waited_for: return when it has ended; False where this process ends too.
        """
        with self._guard:
            beater_, self._beater = self._beater, None
        if beater_ is not None:
            beater_.close(is_waited_for)

    def abandon(self) -> None:
        """In a forked child: let go of what belongs to its parent."""
        if self._beater is not None:
            self._beater.let_go()

    def _keep(self, interval_s: float, beat: Callable[[], None]) -> _Kept | None:
        if not isinstance(beat, Renewal) or not is_shareable(beat):
            logger.info("leases are renewed by a thread of this process: no other process can open the storage")
            return None
        with self._guard:
            if self._beater is None or self._beater.is_gone:
                self._beater = self._start()
            return self._beater.keep(interval_s, beat, self._threads) if self._beater is not None else None

    def _start(self) -> _Beater | None:
        try:
            return _Beater()
        except OSError as error:
            if str(error) != self._why_not:
                self._why_not = str(error)
                logger.warning("no process could be started to renew leases, threads do it: %s", error)
            return None


class _Beater:
    """The process, and the pipe to it."""

    def __init__(self) -> None:
        program = Path(sys.executable or "")
        if not program.name.startswith("python") or not Path("/proc/self/stat").exists():
            raise OSError(f"{program} is no Python, or this system has no /proc")
        self.pipe, theirs = socket.socketpair()
        self._bell, hears = socket.socketpair()
        self._unheard = 0
        self.is_gone = False
        self._pid = os.getpid()
        self._environment = dict(os.environ)
        self._kept: dict[str, _Kept] = {}
        self._names = count()
        self._sending = threading.Lock()
        self._hearing = threading.Lock()
        self._unread = b""
        try:
            with theirs, hears:
                # Isolated and without site: it begins in a few ms, and finds our modules by the path that it is told.
                self._process = subprocess.Popen(
                    [str(program), "-I", "-S", beater.__file__, str(self._pid)],
                    stdin=theirs.fileno(),
                    stdout=hears.fileno(),  # a bell for it to hear: it has nothing to print
                    stderr=subprocess.DEVNULL,
                )
        except OSError:
            self.let_go()
            raise
        self.send("path", json.dumps([str(Path(place).absolute()) for place in sys.path]))
        threading.Thread(target=self._watch, name="hudi-ops-beats", daemon=True).start()

    def keep(self, interval_s: float, renewal: Renewal, threads: ThreadBeats) -> _Kept:
        now_s = _CLOCK.monotonic_s()
        kept = _Kept(self, str(next(self._names)), now_s + interval_s, interval_s, renewal, threads)
        told = {"uri": renewal.storage.uri, "instant": renewal.instant, "facts": renewal.facts}
        environment = dict(os.environ)
        if environment != self._environment:
            # Keys for a store may have been set since.
            self._environment = environment
            self.send("environment", json.dumps(environment))
        self._kept[kept.name] = kept
        renewal.look = self.hear
        if not self.send("keep", kept.name, f"{kept.due_s:.6f}", str(interval_s), json.dumps(told)):
            self.lost("it does not listen")
            kept.fall_back()  # it may have been lost already, and its leases handed to threads before this one was there
        elif interval_s < 2 * beater.LOOK_S:
            self.ring()
        return kept

    @property
    def process_id(self) -> int:
        return int(self._process.pid)

    def forget(self, kept: _Kept) -> None:
        self._kept.pop(kept.name, None)

    def send(self, *words: str) -> bool:
        """Tell it something; False when it cannot be told, which never takes long."""
        if self.is_gone or self._pid != os.getpid():
            return False
        line = (" ".join(words) + "\n").encode()
        with self._sending:
            try:
                # It is woken long before the pipe is full; on a machine that is too busy for it, it may be all the same.
                poller = select.poll()
                poller.register(self.pipe, select.POLLOUT)
                if not poller.poll(1000 * _ROOM_S):
                    return False
                self.pipe.sendall(line)
            except OSError:
                return False
            self._unheard += 1
            if self._unheard > _UNHEARD_LINES:
                self.ring()
            return True

    def ring(self) -> None:
        """Have it listen now."""
        self._unheard = 0
        with suppress(OSError):  # it is gone, which the pipe tells too; or it rings already
            self._bell.send(b".", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def let_go(self) -> None:
        """Close what leads to it; more than once does no harm."""
        self.pipe.close()
        self._bell.close()

    def hear(self) -> None:
        """Take in what it said."""
        if self.is_gone or self._pid != os.getpid():
            return
        with self._hearing:
            try:
                said = self.pipe.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if not said:
                self.lost("it ended")
                return
            *lines, self._unread = (self._unread + said).split(b"\n")
            for line in lines:
                self._take_in(line.decode())

    def close(self, is_waited_for: bool) -> None:
        self.is_gone = True
        # Closing alone is no end while the thread that watches waits for a word.
        with suppress(OSError):
            self.pipe.shutdown(socket.SHUT_RDWR)
        self.let_go()
        if not is_waited_for:
            self._process.returncode = (
                0  # a process that ends need not wait for this one, nor be warned that it did not
            )
            return
        try:
            self._process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(self.pipe, select.POLLIN)
        while not self.is_gone:
            poller.poll(1000 * beater.LOOK_S)
            self.hear()

    def _take_in(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "useless":
            self.lost(rest)
            return
        name, _, rest = rest.partition(" ")
        kept = self._kept.get(name)
        if kept is None:
            return
        if word == "beaten":
            started_s, ended_s = rest.split()
            kept.renewal.beaten(float(started_s), float(ended_s))
        elif word == "lost":
            kept.renewal.lost()
        elif word == "stopped":
            kept.stopped.set()
            self.forget(kept)
        else:
            logger.warning("lease of %s was not renewed, threads try, too: %s", kept.renewal.instant, rest)
            kept.beat_here_too()

    def lost(self, why: str) -> None:
        """Threads take over what it kept."""
        if self.is_gone:
            return
        self.is_gone = True
        logger.warning("the process that renews leases is of no use, threads go on: %s", why)
        for kept in list(self._kept.values()):
            kept.fall_back()
        self._process.kill()
        self._process.wait()
        self.let_go()


class _Kept:
    """One lease that the process renews."""

    def __init__(
        self, of: _Beater, name: str, due_s: float, interval_s: float, renewal: Renewal, threads: ThreadBeats
    ) -> None:
        self.name = name
        self.due_s = due_s
        self.renewal = renewal
        self.stopped = threading.Event()
        self._of = of
        self._interval_s = interval_s
        self._threads = threads
        self._guard = threading.Lock()
        self._stack = ExitStack()
        self._is_over = False
        self._is_here = False

    def fall_back(self) -> None:
        """Renew it from threads, from now on."""
        self.stopped.set()
        self.beat_here_too()

    def beat_here_too(self) -> None:
        """Have threads renew it as well: the other process may lack what opens the storage, a key that was set in code for one."""
        with self._guard:
            if not self._is_over and not self._is_here:
                self._is_here = True
                self._stack.enter_context(self._threads.every(self._interval_s, self.renewal, first_s=0.0))

    def end(self) -> None:
        """Have it renewed no more. When this returns no beat is under way, or the one that hangs will undo itself."""
        if self._of._pid != os.getpid():
            return
        with self._guard:
            self._is_over = True
        self._stack.close()
        may_have_begun = _CLOCK.monotonic_s() > self.due_s - _HEARD_S
        was_told = self._of.send("stop", self.name)
        if not was_told:
            self._of.lost("it does not listen")  # what was not told to stop must not go on
        if not was_told or not may_have_begun:
            self._of.forget(self)
            return
        self._of.ring()
        deadline_s = _CLOCK.monotonic_s() + FAREWELL_S
        while not self.stopped.is_set() and _CLOCK.monotonic_s() < deadline_s:
            self._of.hear()
            self.stopped.wait(0.02)
        if self.stopped.is_set():
            return
        logger.warning("a beat of %s still hangs after its work has ended", self.renewal.instant)
        self.renewal.when_settled = self._settle

    def _settle(self) -> None:
        self._of.send("settle", self.name)
        self._of.ring()


def is_shareable(renewal: Renewal) -> bool:
    """Whether another process renews the same lease when it opens the storage by its URI, and by the same clock."""
    storage: Storage = renewal.storage
    try:
        return isinstance(renewal.clock, SystemClock) and type(open_storage(storage.uri)) is type(storage)
    except HudiOpsError:
        return False


def process_beats() -> ProcessBeats:
    """The beats of this process."""
    return _Beats.one


class _Beats:
    one = ProcessBeats()

    @classmethod
    def after_fork(cls) -> None:
        # The pipe is the parent's: held open here, it would not close when the parent ends.
        cls.one.abandon()
        cls.one = ProcessBeats()


os.register_at_fork(after_in_child=_Beats.after_fork)
atexit.register(lambda: process_beats().close(is_waited_for=False))
