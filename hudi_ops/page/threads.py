"""Read the registry in threads of the page's own, for a limited time.

Airflow's API server answers heartbeats of tasks in the threads that it shares. A database that hangs must not take them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from hudi_ops.config.places import REGISTRY_VARIABLE
from hudi_ops.errors import Unavailable

LIMIT_S = 10.0
"""Seconds after which a reader is told that the registry does not answer."""

THREADS = 8
"""Most threads that read the registry, those that wait for it in vain included."""

_NO_ANSWER = "the registry did not answer in time"
_NEXT = {
    "expected": f"an answer of its database within {LIMIT_S:g} s",
    "next_step": f"look at the database that {REGISTRY_VARIABLE} names; tables and services do not need it",
}

T = TypeVar("T")

_free = threading.BoundedSemaphore(THREADS)


async def in_thread(read: Callable[[], T]) -> T:
    """Return what a function returns that reads the registry; it raises as the function does.

    Raises:
        Unavailable: it took too long, or all threads are taken by such ones.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + LIMIT_S
    while not _free.acquire(blocking=False):
        if loop.time() > deadline_s:
            raise Unavailable(_NO_ANSWER, **_NEXT)
        await asyncio.sleep(0.02)
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return  # its reader has gone
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type] # without an error it is the result

    def work() -> None:
        result, failed = None, None
        try:
            result = read()
        except BaseException as error:  # noqa: BLE001
            failed = error
        finally:
            _free.release()
        try:
            loop.call_soon_threadsafe(settle, result, failed)
        except RuntimeError:
            return  # the server has stopped

    # Not a pool: its threads would keep the server alive while the database hangs.
    threading.Thread(target=work, name="registry of the page", daemon=True).start()
    try:
        return await asyncio.wait_for(asyncio.shield(done), deadline_s - loop.time())
    except TimeoutError:
        done.cancel()
        raise Unavailable(_NO_ANSWER, **_NEXT) from None
