"""Check `timeline`: completed writes on the timeline, and what stops archives."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.commit.support import refuse_unserviced
from hudi_ops.config.requests import CleanRequest
from hudi_ops.config.requests.targets import TimelineTargets
from hudi_ops.errors import Unsupported
from hudi_ops.health.check import EVIDENCE_MAX, TABLE, Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.health.unblock import ABANDONED, changes_ms, end_of, is_abandoned
from hudi_ops.services.archive.measure import Block, blocks_of, timeline_ratio
from hudi_ops.services.cancel.endings import Words
from hudi_ops.services.clean.policy import Policy
from hudi_ops.services.write.automatic import kept_by_archive

_COMMANDS: dict[str, Words] = {
    "replaced": ("clean", TABLE),
    "clean": ("clean", TABLE),
    "left": ("recover", TABLE),
    "unswept": ("recover", TABLE),
    "late": ("compact", TABLE, "--threshold", "1"),
    "metadata_compaction": ("metadata", "compact", TABLE),
}
_ORDER = ("savepoint", "hold", "restore", "rollback", "cancel", "recover", "compact", "cluster", "resize", "clean")
"""Order of the commands: a clean may need the end of what is before it; what is not named comes last."""


@dataclass(frozen=True, kw_only=True)
class TimelineFacts(Facts):
    """Length of the timeline.

    Attributes:
        ratio: completed writes for each one of the number above which archiving begins.
        writes: completed writes on the timeline.
        oldest: request time of the oldest one; empty: there is none.
        most: number above which archiving begins.
        blocks: why archiving stands still; empty: it does not, or it is not due.
        ends: words of the commands that end each block; none where only an owner ends it.
    """

    ratio: float
    writes: int
    oldest: str
    most: int
    blocks: tuple[Block, ...] = ()
    ends: tuple[tuple[Words, ...], ...] = ()


def measure(look: Look) -> Facts | NotHere:
    """Measure the timeline; raise as `services.archive.measure.blocks_of`."""
    state = look.state
    try:
        refuse_unserviced(state.config, "an archive")
    except Unsupported as error:
        return NotHere(error.what)
    least, most = kept_by_archive(state, look.upkeep, look.now_ms)
    changes = [Policy.of(look.upkeep.clean.completed(CleanRequest())).until_ms(state, look.now_ms)]
    blocks: tuple[Block, ...] = ()
    if len(state.timeline.completed_writes) > most:
        blocks, until_ms = blocks_of(look.session, state, look.view, (least, most), look.now_ms)
        pending = [one for one in state.timeline.pending if any(one.time in block.names for block in blocks)]
        changes += [until_ms, *(changes_ms(look, one) for one in pending)]
    return TimelineFacts(
        ratio=timeline_ratio(state.timeline, most),
        writes=len(state.timeline.completed_writes),
        oldest=state.timeline.start,
        most=most,
        blocks=blocks,
        ends=tuple(_ends(look, block) for block in blocks),
        until_ms=min((change for change in changes if change is not None and change > look.now_ms), default=None),
    )


def _ends(look: Look, block: Block) -> tuple[Words, ...]:
    if block.rule in _COMMANDS:
        return (_COMMANDS[block.rule],)
    if block.rule == "savepoint":
        return tuple(("savepoint", "delete", TABLE, name) for name in block.names)
    if block.rule == "hold":
        return tuple(("hold", "release", TABLE, name) for name in block.names)
    pending = (one for one in look.state.timeline.pending if one.time in block.names)
    return tuple(words for one in pending if (words := end_of(look, one)))


def judge(facts: TimelineFacts, targets: TimelineTargets, now_ms: int) -> Judgement:
    """Judge the length of the timeline.

    The commands end what keeps the oldest instants, then archive.
    """
    ratio = Measure("ratio", facts.ratio, targets.ratio)
    commands: list[Words] = []
    if ratio.is_missed:
        commands = list(dict.fromkeys(words for ends in facts.ends for words in ends))
        commands.sort(key=lambda words: _ORDER.index(words[0]) if words[0] in _ORDER else len(_ORDER))
        commands.append(("archive", TABLE))
    return Judgement(
        (ratio,),
        tuple(
            Evidence("instant", one.instant, f"{one.action} stays: {one.why}") for one in facts.blocks[:EVIDENCE_MAX]
        ),
        tuple(commands),
        f"{_note(facts)}; {ABANDONED}" if any(map(is_abandoned, commands)) else _note(facts),
    )


def _note(facts: TimelineFacts) -> str:
    note = f"{facts.writes:,} completed writes are on the timeline since {facts.oldest}; archiving begins above {facts.most:,}"
    if facts.writes <= facts.most:
        return ""
    return f"{note}; it stands still: {facts.blocks[0].why}" if facts.blocks else note


CHECK = Check("timeline", TimelineFacts, measure, judge)
"""The check."""
