"""Check `files_kept`: old files that savepoints, holds and plans keep beyond the policy."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.commit.support import refuse_unserviced
from hudi_ops.config.requests.targets import FilesKeptTargets
from hudi_ops.errors import Unsupported
from hudi_ops.health.check import EVIDENCE_MAX, TABLE, Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.health.unblock import ABANDONED, changes_ms, end_of, is_abandoned
from hudi_ops.services.cancel.endings import Words
from hudi_ops.services.clean.keepers import HOLD, SAVEPOINT
from hudi_ops.services.clean.measure import Keeper, KeptFiles, files_kept

_KINDS = {SAVEPOINT: "savepoint", HOLD: "hold"}


@dataclass(frozen=True, kw_only=True)
class FilesKeptFacts(Facts):
    """Files that are kept beyond the policy.

    Attributes:
        kept: the files, and what keeps them.
        ends: for each keeper the words of the command that ends it; empty: only its owner ends it.
    """

    kept: KeptFiles
    ends: tuple[Words, ...] = ()


def measure(look: Look) -> Facts | NotHere:
    """Measure what is kept beyond the policy; raise as `services.clean.measure.files_kept`."""
    try:
        refuse_unserviced(look.state.config, "a clean")
    except Unsupported as error:
        return NotHere(error.what)
    kept = files_kept(look.session, look.state, look.view, look.upkeep.clean, look.now_ms)
    ends = tuple(_end(look, one) for one in kept.keepers)
    pending = (look.state.timeline.find(one.name, one.action) for one in kept.keepers if one.action)
    changes = [kept.until_ms, *(changes_ms(look, one) for one in pending if one is not None)]
    until_ms = min((change for change in changes if change is not None), default=None)
    return FilesKeptFacts(kept=kept, ends=ends, until_ms=until_ms)


def _end(look: Look, keeper: Keeper) -> Words:
    if keeper.reason == SAVEPOINT:
        return "savepoint", "delete", TABLE, keeper.name
    if keeper.reason == HOLD:
        return "hold", "release", TABLE, keeper.name
    found = look.state.timeline.find(keeper.name, keeper.action)
    return end_of(look, found) if found is not None else ()


def judge(facts: FilesKeptFacts, targets: FilesKeptTargets, now_ms: int) -> Judgement:
    """Judge the bytes that are kept.

    The commands end the keepers of most bytes, until the target is met.
    """
    kept = facts.kept
    share = Measure("share", kept.share, targets.share)
    commands: list[Words] = []
    running: list[str] = []
    if share.is_missed:
        for one, words in zip(kept.keepers, facts.ends, strict=True):
            commands += [words] if words and words not in commands else []
            running += [] if words else [f"{one.action} {one.name}"]
            if one.left <= (share.target or 0.0) * kept.table_bytes:
                break
    notes = [f"{kept.files:,} files, {kept.bytes:,} bytes, are kept beyond the policy"] if kept.files else []
    notes += [f"{kept.others:,} further savepoints, holds or plans keep files, too"] if kept.others else []
    notes += [f"{' and '.join(running)} is under way, or only the program that began it ends it"] if running else []
    notes += [ABANDONED] if any(map(is_abandoned, commands)) else []
    return Judgement(
        (share,),
        tuple(
            Evidence(
                _KINDS.get(one.reason, "instant"),
                one.name,
                f"{f'{one.action}, ' if one.action else ''}keeps {one.bytes:,} bytes",
            )
            for one in kept.keepers[:EVIDENCE_MAX]
        ),
        tuple(commands),
        "; ".join(notes),
    )


CHECK = Check("files_kept", FilesKeptFacts, measure, judge)
"""The check."""
