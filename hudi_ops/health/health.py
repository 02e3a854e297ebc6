"""Judge the health of one table."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hudi_ops.commit.session import Session
from hudi_ops.config.places import PROGRAM
from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.errors import Conflict, HudiOpsError
from hudi_ops.health.check import EVIDENCE_MAX, TABLE, Check, Facts, Judgement, NotHere
from hudi_ops.health.checks import CHECKS
from hudi_ops.health.look import Look
from hudi_ops.health.one_look import OneLook
from hudi_ops.health.seen import Seen, settings_digest, state_digest
from hudi_ops.health.unadopted import NOTE
from hudi_ops.health.verdict import (
    MISSED_EXIT_CODE,
    CheckVerdict,
    EvidenceSaid,
    HealthVerdict,
    gravest,
    ms_of,
    said_measure,
    said_time,
)
from hudi_ops.timeline.log.commit_log import Log

LOOKS_MAX = 3
"""Most looks at a table, if other processes change it during a look."""

_OF_SERVICES = ("compact", "cluster", "resize", "alter", "clean", "archive", "index", "metadata")
COMMANDS = frozenset([*_OF_SERVICES, "cancel", "recover", "rollback", "restore", "savepoint", "hold"])
"""Commands that checks advise. Facts of a previous verdict may come from a file, and advise no others."""

logger = logging.getLogger(__name__)


def health(
    session: Session,
    targets: HealthTargets | None = None,
    previous: HealthVerdict | Mapping[str, Any] | None = None,
    *,
    name: str = "",
    now_ms: int | None = None,
) -> HealthVerdict:
    """Return the verdict on a table; change nothing.

    An unchanged table costs six reads, if `previous` is the last verdict on it.

    Args:
        session: of the table.
        targets: of the checks; None: the defaults.
        previous: last verdict, as an object or as plain values; that of another table, form or release is not used.
        name: by which commands call the table; empty: its folder or URI.
        now_ms: time of the verdict, in ms since 1970; None: now.

    Raises:
        InvalidRequest: the path is not a table.
        Unsupported: its version cannot be read.
        Unavailable: storage did not answer.
        Conflict: others changed the table at each look.
        Corrupt: its settings, its commit log or its timeline cannot be read. What only a check reads makes this check unknown.
    """
    now_ms = session.ctx.clock.now_ms() if now_ms is None else now_ms
    uri, settings = session.ctx.storage.uri, settings_digest(session)
    before, name = _usable(previous, uri), name or uri.removeprefix("file://")
    facts: dict[str, Facts | NotHere | HudiOpsError]
    for tried in range(LOOKS_MAX):
        storage = OneLook(session.ctx.storage)
        if before is not None and before.settings == settings and (known := _known(before, now_ms)) is not None:
            digest = state_digest(storage, before.head)
            if digest == before.digest and (found := _kept_verdict(name, known, targets, before, now_ms)) is not None:
                return found
        try:
            look = Look.at(session, storage, now_ms)
            log = look.state.log
            digest = state_digest(storage, log.head)
            facts = {check.name: _measured(check, look) for check in CHECKS}
            break
        except Conflict:
            if tried + 1 == LOOKS_MAX:
                raise
    return _verdict(name, facts, targets, before, now_ms, _seen(facts, uri, log, digest, settings))


@cache
def release() -> str:
    """Return the release of this library."""
    try:
        return version(PROGRAM)
    except PackageNotFoundError:
        return "unknown"


def verdict_of(given: Any) -> HealthVerdict | None:
    """Return a verdict from its plain values; None: of another form, or none at all."""
    if isinstance(given, HealthVerdict):
        return given
    try:
        return HealthVerdict.model_validate(given)
    except ValidationError:
        return None


def _usable(previous: HealthVerdict | Mapping[str, Any] | None, uri: str) -> Seen | None:
    """Return what the previous verdict knew; None: it is of another table, form or release."""
    found = verdict_of(previous) if previous is not None else None
    seen = found.seen if found is not None else None
    return seen if seen is not None and (seen.release, seen.uri) == (release(), uri) else None


def _kept_verdict(
    table: str,
    known: Mapping[str, Facts | NotHere | HudiOpsError],
    targets: HealthTargets | None,
    kept: Seen,
    now_ms: int,
) -> HealthVerdict | None:
    """Return the verdict by kept facts; None: they are damaged, and the table is measured anew."""
    try:
        return _verdict(table, known, targets, kept, now_ms, kept)
    except (ValueError, LookupError, TypeError, ArithmeticError):
        logger.warning("the facts of the previous verdict on %s are damaged: it is measured anew", table)
        return None


@cache
def _adapters() -> Mapping[str, TypeAdapter[Facts]]:
    return {check.name: TypeAdapter(check.facts) for check in CHECKS}


def _known(kept: Seen, now_ms: int) -> dict[str, Facts | NotHere | HudiOpsError] | None:
    """Return the kept facts of all checks.

    None: some are missing, or stopped being true with time.
    """
    if kept.until_ms is not None and now_ms >= kept.until_ms:
        return None
    found: dict[str, Facts | NotHere | HudiOpsError] = {}
    for check in CHECKS:
        facts = kept.facts.get(check.name)
        try:
            if facts is not None:
                found[check.name] = _adapters()[check.name].validate_python(facts)
            elif check.name in kept.not_here:
                found[check.name] = NotHere(kept.not_here[check.name])
            else:
                return None
        except ValidationError:
            return None
    return found


def _measured(check: Check, look: Look) -> Facts | NotHere | HudiOpsError:
    try:
        return check.measure(look)
    except Conflict:
        raise
    except HudiOpsError as error:
        return error


def _seen(found: Mapping[str, Facts | NotHere | HudiOpsError], uri: str, log: Log, digest: str, settings: str) -> Seen:
    """Return what the next verdict needs.

    After an error of a check it has no facts, so that the check is tried again.
    """
    facts = {name: one for name, one in found.items() if isinstance(one, Facts)}
    if any(isinstance(one, HudiOpsError) for one in found.values()):
        facts = {}
    return Seen(
        release=release(),
        uri=uri,
        table_id=log.table_id,
        head=log.head,
        digest=digest,
        settings=settings,
        until_ms=min((one.until_ms for one in facts.values() if one.until_ms is not None), default=None),
        facts={name: _adapters()[name].dump_python(one, mode="json") for name, one in facts.items()},
        not_here={name: one.why for name, one in found.items() if isinstance(one, NotHere)},
    )


def _verdict(
    table: str,
    found: Mapping[str, Facts | NotHere | HudiOpsError],
    targets: HealthTargets | None,
    before: Seen | None,
    now_ms: int,
    seen: Seen,
) -> HealthVerdict:
    targets = targets or HealthTargets()
    earlier = before.since if before is not None else {}
    note = NOTE if seen.head < 0 else ""
    checks = tuple(
        _check_verdict(check, found[check.name], getattr(targets, check.name), earlier.get(check.name), table, now_ms)
        for check in CHECKS
    )
    codes = [int(one.error["exit_code"]) for one in checks if one.error is not None]
    is_missed = any(one.status == "missed" for one in checks)
    return HealthVerdict(
        table=table,
        path=seen.uri,
        at=said_time(now_ms),
        note=note,
        status="missed" if is_missed else "unknown" if codes else "healthy",
        exit_code=gravest([*codes, MISSED_EXIT_CODE if is_missed else 0]),
        checks=checks,
        seen=seen.model_copy(
            update={"since": {one.check: (one.status, one.since) for one in checks if one.since is not None}}
        ),
    )


def _check_verdict(
    check: Check,
    found: Facts | NotHere | HudiOpsError,
    targets: Any,
    earlier: tuple[str, str] | None,
    table: str,
    now_ms: int,
) -> CheckVerdict:
    if targets is None:
        return CheckVerdict(check=check.name, status="off")
    if isinstance(found, NotHere):
        return CheckVerdict(check=check.name, status="not_applicable", note=found.why, tolerate_s=targets.tolerate)
    if isinstance(found, HudiOpsError):
        since = _since(None, earlier, now_ms)
        error = found.at(table=table).as_dict()
        return CheckVerdict(check=check.name, status="unknown", since=since, tolerate_s=targets.tolerate, error=error)
    judged: Judgement = check.judge(found, targets, now_ms)
    return CheckVerdict(
        check=check.name,
        status="missed" if judged.is_missed else "healthy",
        since=_since(judged.since_ms, earlier, now_ms, judged.mended_ms) if judged.is_missed else None,
        tolerate_s=targets.tolerate,
        measures=tuple(map(said_measure, judged.measures)),
        evidence=tuple(
            EvidenceSaid(kind=one.kind, name=one.name, detail=one.detail) for one in judged.evidence[:EVIDENCE_MAX]
        ),
        commands=tuple(_command(words, table) for words in judged.commands) if judged.is_missed else (),
        note=judged.note,
    )


def _since(since_ms: int | None, earlier: tuple[str, str] | None, now_ms: int, mended_ms: int | None = None) -> str:
    """Return since when a check is missed or unknown.

    The facts may say it; else it is the time of the first verdict that saw it, or of the last run of the service that mends it.
    """
    if since_ms is not None:
        return said_time(min(since_ms, now_ms))
    first_ms = ms_of(earlier[1]) if earlier is not None else None
    if first_ms is not None:
        return said_time(min(max(first_ms, mended_ms or 0), now_ms))
    return said_time(now_ms)


def _command(words: tuple[str, ...], table: str) -> str:
    if not words or words[0] not in COMMANDS:
        raise ValueError(f"{words} is no command that a check advises")
    named = f"./{table}" if table.startswith("-") else table
    return shlex.join([PROGRAM, *(named if word == TABLE else word for word in words)])
