"""Marks count which branches a suite of simulations reached, and a suite that missed one fails."""

from __future__ import annotations

import pytest

from hudi_ops.concurrency import transaction
from hudi_ops.storage.claim import claim
from hudi_ops.testing.marks import logged_marks, refuse_unreached, watched


def test_marks_count_what_was_logged_and_which_guards_refused() -> None:
    with watched(claim, transaction.unfinished) as marks, logged_marks() as logged:
        transaction.logger.info("slot %s was taken by another writer", 7)
        with pytest.raises(Exception, match="does not belong to the decision"):
            transaction.claim(None, "x", b"", "id", lambda _: "other")
    assert marks == {"storage.claim.claim": 1, "storage.claim.claim!Internal": 1}
    assert transaction.claim is claim
    refuse_unreached(["hudi_ops.concurrency.transaction: slot"], logged)
    with pytest.raises(AssertionError, match=r"never reached: concurrency\.transaction\.unfinished"):
        refuse_unreached(["concurrency.transaction.unfinished", "storage.claim"], marks)
