"""Say what a completion means for announced partitions, and which ones are added next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from hudi_ops.timeline.instant import Instant


@dataclass(frozen=True)
class Verdict:
    """What a completion or a pending instant means for the new partitions.

    `verdict` is `carried`, `missing`, `applied`, `undone`, `out of order` or `waiting`.
    """

    instant: str
    action: str
    verdict: str
    why: str = ""


def first_run(new: Sequence[Instant], judged: Sequence[Verdict]) -> tuple[list[Instant], list[Instant], list[Instant]]:
    """Return the completions carried first, the next ones that were not, and the others.

    Each is in order of completion.
    """
    carried = {one.instant for one in judged if one.verdict == "carried"}
    lead = list(takewhile(lambda one: one.time in carried, new))
    run = list(takewhile(lambda one: one.time not in carried, new[len(lead) :]))
    return lead, run, list(new[len(lead) + len(run) :])
