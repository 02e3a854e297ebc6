"""Change recorded settings of a table: limits of hash rings, cleans and archives.

Source: docs/protocol §2, §25.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from hudi_ops.commit.session import Session
from hudi_ops.config.definition import Alteration
from hudi_ops.config.requests.request import invalid_request
from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings
from hudi_ops.errors import InvalidRequest
from hudi_ops.index.bucket_engine import bucket_limits
from hudi_ops.services.base.result import Result
from hudi_ops.timeline.log.commit_log import Log, automatic_of
from hudi_ops.timeline.log.entries import Entry, Properties
from hudi_ops.timeline.log.head import newest_log
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

_Recorded = Mapping[str, Mapping[str, str | int]]


@dataclass(frozen=True)
class AlteredSetting:
    """One changed setting; None: it is not recorded."""

    setting: str
    before: str | int | None
    after: str | int | None

    def __str__(self) -> str:
        before, after = ("none" if value is None else value for value in (self.before, self.after))
        return f"{self.setting}: {before} -> {after}"


@dataclass(frozen=True)
class AlterResult(Result):
    """Result of an alteration; `slot` records it, None if nothing changed."""

    table: str
    changes: tuple[AlteredSetting, ...]
    slot: int | None = None
    dry_run: bool = False


def alter_table(session: Session, request: Alteration, *, dry_run: bool = False) -> AlterResult:
    """Change recorded settings of a table; other settings stay.

    Raises:
        InvalidRequest: nothing is asked for, values contradict each other or the table, or the table has no commit log.
        Busy: the lock is held.
    """
    storage = session.ctx.storage
    if not request.model_fields_set:
        raise InvalidRequest(
            "nothing says what to alter", table=storage.uri, expected="at least one setting", found="none",
            next_step="pass the settings to change, as `hudi-ops alter TABLE --buckets-max 64`",
        )  # fmt: skip
    log, config = newest_log(storage), load_config(storage)
    if log is None:
        raise InvalidRequest(
            "the table has no commit log that records settings",
            table=config.name,
            expected="a table that was made or adopted by hudi-ops",
            found="no commit log",
            next_step="run `hudi-ops adopt TABLE` first",
        )
    changes = _changes(log, *_altered(session, log, config, request), automatic_of(storage, log))
    if dry_run or not changes:
        return AlterResult(config.name, changes, dry_run=dry_run)

    def prepare(state: TableState, slot: int) -> Entry | None:
        nonlocal changes
        facts, upkeep = _altered(session, state.log, state.config, request)
        before = automatic_of(storage, state.log)
        changes = _changes(state.log, facts, upkeep, before)
        if not changes:
            return None
        fields = state.log.properties.carried()
        fields["facts"] = facts
        if upkeep != before:
            fields["upkeep"] = {name: dict(values) for name, values in upkeep.items()}
        decision = session.entry(state, f"alter {session.ctx.ids.new_id()}")
        return Properties(**decision, **fields, to_build=state.log.properties.to_build)

    decided = session.decide(prepare, "alter the table's settings")
    if decided is None:
        return AlterResult(config.name, ())
    logger.info("slot %s alters %s: %s", decided.slot, config.name, "; ".join(map(str, changes)))
    return AlterResult(config.name, changes, decided.slot)


def _altered(session: Session, log: Log, config: TableConfig, request: Alteration) -> tuple[TableFacts, _Recorded]:
    """Return the facts and the automatic services after the alteration.

    Raises:
        InvalidRequest: values contradict each other or the table. Raised by `bucket_limits` and `_kept`, too.
    """
    facts, given = log.properties.facts, request.model_dump(exclude_none=True)
    if facts.limits.keys() & given.keys():
        least, most = (given.get(name, held or None) for name, held in facts.limits.items())
        least, most = bucket_limits(facts.index, config.table_type, facts.buckets, least, most, config.name)
        facts = facts.model_copy(update={"buckets_min": least, "buckets_max": most})
    recorded = automatic_of(session.ctx.storage, log)
    upkeep: dict[str, Mapping[str, str | int]] = {}
    for service in ("clean", "archive"):
        held = recorded.get(service)
        wanted = {
            key.removeprefix(f"{service}_"): value for key, value in given.items() if key.startswith(f"{service}_")
        }
        is_on = given.get(service, "off" if held is None else "on") == "on"
        if wanted and not is_on:
            raise InvalidRequest(
                f"writers do not {service} this table after their commits, so that nothing records what it keeps",
                table=config.name,
                expected=f"{service} on",
                found="off",
                next_step=f"pass `--{service} on`, too; a single run takes its own options: `hudi-ops {service} TABLE --help`",
                field=service,
            )
        if is_on:
            upkeep[service] = _kept(service, held or {}, wanted)
    return facts, upkeep


def _kept(service: str, held: Mapping[str, str | int], wanted: Mapping[str, str | int]) -> Mapping[str, str | int]:
    if wanted.get("policy", held.get("policy")) != held.get("policy"):
        held = {}  # a number of commits says nothing of hours
    elif held and not wanted:
        return held
    model = CleanSettings if service == "clean" else ArchiveSettings
    try:
        settings = model.model_validate({**held, **wanted})
    except ValidationError as error:
        raise invalid_request(error, model) from None
    return settings.model_dump(exclude={"automatic"}, exclude_none=True)


def _changes(log: Log, facts: TableFacts, upkeep: _Recorded, before: _Recorded) -> tuple[AlteredSetting, ...]:
    held = log.properties.facts
    found: list[tuple[str, Any, Any]] = [(name, old, facts.limits[name]) for name, old in held.limits.items()]
    for service in ("clean", "archive"):
        found.append((service, "on" if service in before else "off", "on" if service in upkeep else "off"))
        old, new = before.get(service, {}), upkeep.get(service, {})
        found += [(f"{service}_{name}", old.get(name), new.get(name)) for name in {**old, **new}]
    return tuple(AlteredSetting(*one) for one in found if one[1] != one[2])
