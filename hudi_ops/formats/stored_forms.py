"""Number the forms of files that this library alone stores (docs/compatibility.md).

A file without a number has form 1. A reader refuses a number above its own: a newer release wrote the file, and what it says may
not be ignored.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from hudi_ops.errors import Unsupported

FORM = "form"

SLOT = LEASE = LEDGER = HOLD = CANCEL_REQUEST = ABORTED_PLAN = CHECKPOINT = 1

SlotForm = Annotated[int, Field(ge=1, le=SLOT)]
HoldForm = Annotated[int, Field(ge=1, le=HOLD)]
CheckpointForm = Annotated[int, Field(ge=1, le=CHECKPOINT)]
AbortedPlanForm = Annotated[int, Field(ge=1, le=ABORTED_PLAN)]


def is_known_form(record: dict[str, Any], newest: int) -> bool:
    """Return whether this release reads a JSON object; one without a number has form 1."""
    form = record.get(FORM, 1)
    return isinstance(form, int) and 1 <= form <= newest


def refuse_newer(data: bytes, newest: int, path: str) -> None:
    """Refuse a file of a newer form; call it when the file could not be decoded.

    Raises:
        Unsupported: its number is above `newest`.
    """
    try:
        form = json.loads(data).get(FORM, 1)
    except (ValueError, AttributeError, RecursionError):
        return
    if isinstance(form, int) and form > newest:
        raise Unsupported(
            f"{path} was stored by a newer hudi-ops",
            expected=f"form {newest}, or an earlier one",
            found=f"form {form}",
            next_step="upgrade hudi-ops; nothing is damaged, so delete nothing",
        )
