"""Limits of a timeline server."""

from __future__ import annotations

from dataclasses import dataclass

STATES_MAX = 16
"""States of a table that are held by default."""

MEMORY_MB = 512
"""Memory of views and encoded partitions by default, in megabytes."""


@dataclass(frozen=True)
class Limits:
    """What a server holds, and what it takes and gives at most.

    Attributes:
        states: states of a table that are held.
        memory_bytes: of views on the heap and of encoded partitions, half for each.
        open_requests: requests at a time; further ones are refused with 429.
        body_bytes: of a request.
        batch: partitions that a request names.
        answer_bytes: of an answer.
        open_answers_bytes: of the answers that are being made or sent, roughly; further requests are refused with 429.
        deadline_s: time in which a request is answered, where it does not name one.
        deadline_max_s: longest time that a request may name.
        unknown_s: time in which a state that was not found is not looked for again.
    """

    states: int = STATES_MAX
    memory_bytes: int = MEMORY_MB << 20
    open_requests: int = 256
    body_bytes: int = 4 << 20
    batch: int = 10_000
    answer_bytes: int = 256 << 20
    open_answers_bytes: int = 1 << 30
    deadline_s: float = 1.0
    deadline_max_s: float = 10.0
    unknown_s: float = 1.0
