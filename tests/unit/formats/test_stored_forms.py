"""Refuse files of a newer form with the way out, and read files without a number as form 1. Each kind is raised in turn."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hudi_ops.commit.holds import FOLDER as HOLDS, list_holds
from hudi_ops.concurrency.lease.lease import lease_path, read_lease
from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.formats import stored_forms
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.builds.checkpoint import BuildCheckpoint, checkpoints_of, put_checkpoint
from hudi_ops.timeline.cancel.aborted import AbortedPlan, parse_aborted
from hudi_ops.timeline.content.ledger_chain import Link, link_bytes, read_chain
from hudi_ops.timeline.log.entries import Void, decode_entry, encode_entry

INSTANT = "20261101000000000"
OWNER = {"host": "h", "pid": 1, "started": "1"}


def slot(storage: Storage) -> tuple[str, Callable[[], object]]:
    entry = Void(
        table_id="t", decision_id="d", owner="o", at_ms=1, properties_slot=-1, archive_slot=-1, slot=0, reason="r"
    )
    storage.put("slot", encode_entry(entry))
    return "slot", lambda: decode_entry(storage.get("slot"), "slot")


def ledger(storage: Storage) -> tuple[str, Callable[[], object]]:
    path = f".hoodie/.ingest/{INSTANT}/s.json"
    storage.put(path, link_bytes(Link(INSTANT, {"a": (1, 2)}, {}, ()), "s", "file:///s"))
    return path, lambda: read_chain(storage, path)


def hold(storage: Storage) -> tuple[str, Callable[[], object]]:
    path = f"{HOLDS}/h.json"
    storage.put(path, json.dumps({"form": 1, "instant": INSTANT, "until_ms": 5, "owner": "o"}).encode())
    return path, lambda: list_holds(storage)


def aborted(storage: Storage) -> tuple[str, Callable[[], object]]:
    storage.put("a", AbortedPlan("t", INSTANT, "compaction", 3, "r").to_bytes())
    return "a", lambda: parse_aborted(storage.get("a"), "a", INSTANT)


def checkpoint(storage: Storage) -> tuple[str, Callable[[], object]]:
    put_checkpoint(storage, BuildCheckpoint(plan=INSTANT, epoch=1, built_at=INSTANT, partitions=("files",)))
    (info,) = storage.list(".hoodie/.indexing")
    return info.path, lambda: checkpoints_of(storage, INSTANT)


@pytest.mark.parametrize("kind", [slot, ledger, hold, aborted, checkpoint], ids=lambda kind: kind.__name__)
def test_a_newer_form_is_refused(kind: Callable[[Storage], tuple[str, Callable[[], object]]]) -> None:
    storage = MemoryStorage("forms")
    path, read = kind(storage)
    said = json.loads(storage.get(path))
    assert said.pop("form") == 1
    first = read()
    storage.put(path, json.dumps(said).encode())
    assert read() == first
    for form, error in ((2, Unsupported), (0, Corrupt), ("x", Corrupt)):
        storage.put(path, json.dumps({**said, "form": form}).encode())
        with pytest.raises(error) as refused:
            read()
        assert path in str(refused.value)
        assert ("upgrade hudi-ops" in str(refused.value)) is (error is Unsupported)


def test_the_owner_of_a_newer_lease_is_unknown() -> None:
    storage = MemoryStorage("forms")
    for form, is_known in ((1, True), (2, False)):
        said = {"form": form, "owner": OWNER, "role": "write", "beaten_ms": 1, "expires_ms": 2}
        storage.put(lease_path(INSTANT), json.dumps(said).encode())
        lease = read_lease(storage, INSTANT)
        assert lease is not None
        assert (lease.owner is not None) is is_known


def test_every_form_is_in_the_page() -> None:
    names = {name for name, value in vars(stored_forms).items() if name.isupper() and isinstance(value, int)}
    assert names == {"SLOT", "LEASE", "LEDGER", "HOLD", "CANCEL_REQUEST", "ABORTED_PLAN", "CHECKPOINT"}
