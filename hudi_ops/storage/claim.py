"""Claim of a name: the only interpreter of a failed conditional put.

A failed `put_if_absent` does not say who owns the name. A request that the client library sent twice reports `AlreadyExists`
to its winner; a store that answers 409 reports it when nothing exists; a lost reply says nothing. So nothing else in this
library may conclude "won" or "lost" from such an error: it calls `claim`, which reads back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hudi_ops.errors import AlreadyExists, Internal, NotFound, OutcomeUnknown, Unavailable
from hudi_ops.storage.protocol import Storage

ATTEMPTS = 5
"""Most puts of a name before the outcome counts as unknown."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """Owner of a claimed name.

    Attributes:
        won: the name holds the claimer's decision.
        body: the bytes under the name. The claimer must use these bytes, not its own: an earlier try of the same decision, which
            seemed to fail, may have put other bytes (another completion time).
    """

    won: bool
    body: bytes


def claim(
    storage: Storage,
    path: str,
    entry_bytes: bytes,
    decision_id: str,
    read_id: Callable[[bytes], str],
    *,
    attempts: int = ATTEMPTS,
) -> Claimed:
    """Create the name for this decision, or read its owner (docs/protocol §3).

    The name must never be deleted: a writer that slept would win it again. `entry_bytes` contains `decision_id`, which all tries of
    this decision share and no other decision has; `read_id` returns the id in a body. At most `attempts` puts are made. The result
    is won or lost, with the bytes under the name.

    Raises:
        OutcomeUnknown: no try could be settled, and one of them may have landed or may land later.
        Unavailable: every try was refused without effect.
        Internal: the body does not hold the decision's id.
        Corrupt: the file under the name is no entry, according to `read_id`.
    """
    if read_id(entry_bytes) != decision_id:
        raise Internal(
            f"the entry for {path} does not belong to the decision that claims it",
            expected=decision_id,
            found=read_id(entry_bytes),
        )
    unsettled: AlreadyExists | OutcomeUnknown | None = None
    refused: Unavailable | None = None
    for _ in range(attempts):
        try:
            storage.put_if_absent(path, entry_bytes)
            return Claimed(True, entry_bytes)
        except (AlreadyExists, OutcomeUnknown) as error:
            unsettled = error
        except Unavailable as error:
            refused = error
        try:
            body = storage.get(path)
        except NotFound:
            continue  # a 409 without a winner, or a put that may still land: try again
        except Unavailable as error:
            refused = error
            continue
        return Claimed(is_own(body, decision_id, read_id), body)
    if unsettled is None and refused is not None:
        raise refused
    # Also if the last try was certainly refused: an earlier try may still land.
    raise OutcomeUnknown(
        f"the owner of {path} is unknown after {attempts} tries",
        expected="an entry of this or another decision",
        found=f"{type(unsettled).__name__} when it was put, and no file when it was read back",
        next_step="delete nothing; the next write resolves it (see `hudi-ops timeline` before a bulk_insert is "
        "repeated)",
    ) from unsettled


def is_own(body: bytes, decision_id: str, read_id: Callable[[bytes], str]) -> bool:
    """Return whether the body read back is this decision, which a failed put does not tell."""
    return read_id(body) == decision_id


def ensure(storage: Storage, path: str, body: bytes) -> bool:
    """Create a file whose bytes are the same for every creator, unless it exists.

    Returns:
        Whether this call surely created it.

    Raises:
        OutcomeUnknown: the file may exist now or later.
    """
    for _ in range(ATTEMPTS):
        try:
            storage.put_if_absent(path, body)
            return True
        except (AlreadyExists, OutcomeUnknown):
            if storage.head(path) is not None:
                return False  # from this or another creator: the bytes are the same
    raise OutcomeUnknown(
        f"it is unknown whether {path} exists after {ATTEMPTS} tries",
        next_step="delete nothing; run the same call again, which resolves it",
    )
