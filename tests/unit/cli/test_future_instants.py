"""`--accept-future-instants`: each command that takes instants has the option that its error names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.context import TableContext
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock

DAY_MS = 86_400_000


@pytest.mark.parametrize("command", [("index", "trips", "run", "--rebuild"), ("index", "trips", "run", "record_index")])
def test_metadata_is_built_behind_an_instant_in_the_future(
    trips: Path, call: Callable[..., Any], command: tuple[str, ...]
) -> None:
    ahead = ManualClock(SystemClock().now_ms() + 400 * DAY_MS)
    Table(TableContext(storage=LocalStorage(trips), locks=InProcessLock("t"), clock=ahead)).truncate()
    refused = call(*command, "--json")
    assert (refused.code, refused.json["error"]) == (13, "Unavailable")
    assert "--accept-future-instants" in refused.json["next_step"]
    assert "`conflicts`" in refused.json["next_step"]
    assert call(*command, "--accept-future-instants", "--json").code == 0
    for other in (("metadata", "compact", "trips"), ("index", "trips", "drop")):
        assert call(*other, "--accept-future-instants", "--dry-run", "--json").code == 0
