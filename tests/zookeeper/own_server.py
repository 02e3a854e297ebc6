"""An embedded ZooKeeper that tests kill and pause."""

from __future__ import annotations

import os
import signal

from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.errors import InvalidRequest, Unavailable
from tests.signals import freeze, thaw


class OwnServer(EmbeddedZooKeeper):
    """A server of one test; signals go to its process only while that runs."""

    def kill(self) -> None:
        """End it as a crash would."""
        pid = self._pid_to_signal()
        os.kill(pid, signal.SIGKILL)
        if not self._ended(pid, 10.0):
            raise Unavailable(f"ZooKeeper process {pid} of {self.folder} does not end", pid=pid)

    def pause(self) -> None:
        """Keep its connections, and stop its answers."""
        freeze(self._pid_to_signal())

    def resume(self) -> None:
        thaw(self._pid_to_signal())

    def _pid_to_signal(self) -> int:
        pid = self._running_pid()
        if not pid:
            raise InvalidRequest(f"the ZooKeeper of {self.folder} does not run", next_step="start it.")
        return pid
