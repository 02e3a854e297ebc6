"""A process that takes and releases a ZooKeeper lock on commands from stdin, for tests that stop and kill it.

Commands: `acquire SECONDS PURPOSE…`, `mine`, `token`, `holder`, `release`. Arguments: connect string, base path, key.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.errors import Busy


def main() -> None:
    hosts, base_path, key = sys.argv[1:]
    lock = ZooKeeperLock(
        hosts, base_path, key, session_timeout_s=2.0, connect_timeout_s=5.0, owner="child", run="run-7"
    )
    stack, held = ExitStack(), None
    print("ready", flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        if command == "acquire":
            try:
                held = stack.enter_context(lock.acquire(float(words[0]), " ".join(words[1:])))
                answer = "acquired"
            except Busy:
                answer = "refused"
        elif command == "mine":
            answer = str(held.still_mine())
        elif command == "holder":
            holder = lock.holder()
            answer = holder.owner if holder else "nobody"
        elif command == "token":
            answer = str(held.token)
        else:
            stack.close()
            answer = "released"
        print(answer, flush=True)


main()
