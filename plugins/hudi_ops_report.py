"""Turn the output of an application into a log: levels of lines, and a sentence."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

# The applications begin a line with a date and a level, Spark's JVM with a date in two digits and a level.
_HEADER = re.compile(r"\d{2,4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d\S* (?P<level>[A-Z]+) ")
_LEVELS = {
    "ERROR": logging.ERROR,
    "CRITICAL": logging.ERROR,
    "FATAL": logging.ERROR,
    "WARNING": logging.WARNING,
    "WARN": logging.WARNING,
}


class LineLevels:
    """Level of each line of an application's output; a message has the level of its first line."""

    def __init__(self) -> None:
        self._level = logging.INFO

    def level_of(self, line: str) -> int:
        """Return the level at which a line is logged."""
        header = _HEADER.match(line)
        if header is not None:
            self._level = _LEVELS.get(header["level"], logging.INFO)
        elif not line.strip():
            self._level = logging.INFO
        return self._level


def parse_result(line: str) -> dict[str, Any] | None:
    """Return the result that a line of output holds, or None."""
    text = line.strip()
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and {"app", "ok"} <= value.keys() else None


def sentence(result: Mapping[str, Any]) -> str:
    """Return what a successful application did: rows, files, seconds, instant.

    An application of the user's own, whose result says something else, gets the general sentence.
    """
    say = {
        "ingest": _ingested,
        "compact": _compacted,
        "cluster": _clustered,
        "resize": _resized,
        "clean": _cleaned,
        "archive": _archived,
        "cancel": _cancelled,
        "index": _built,
        "verify": _verified,
        "recover": _recovered,
    }.get(str(result.get("app")))
    said = (say(result) if say is not None else "") or f"{result.get('app')} succeeded"
    return f"Dry run, nothing was changed: {said}" if result.get("dry_run") else said


def _ingested(result: Mapping[str, Any]) -> str:
    if not result.get("instant"):
        return _nothing(result)
    changes = [f"{result[name]:,} {name}" for name in ("inserted", "updated", "deleted", "ignored") if result.get(name)]
    changes += [f"{result['logged']:,} into log files"] if result.get("logged") else []
    rows = _counted(result.get("rows_in"), "row") + (f" ({', '.join(changes)})" if changes else "")
    return f"Ingested {rows} from {_counted(result.get('files'), 'file')} into {_end(result)}"


def _compacted(result: Mapping[str, Any]) -> str:
    def done() -> str:
        logs = _counted(result.get("log_files"), "log file")
        bases = _counted(result["slices"], "base file")
        return f"Compacted {logs} into {bases} with {_counted(result.get('rows'), 'row')} of {_end(result)}"

    return _rewritten(result, "compaction", "slices", done)


def _clustered(result: Mapping[str, Any]) -> str:
    return _rewritten(result, "clustering", "groups", lambda: _by_groups(result, "Clustered", "file group", "file"))


def _resized(result: Mapping[str, Any]) -> str:
    return _rewritten(result, "resize", "groups", lambda: _by_groups(result, "Resized", "bucket", "bucket"))


def _by_groups(result: Mapping[str, Any], did: str, before: str, after: str) -> str:
    left, groups = result.get("left_out") or 0, result["groups"]
    files = f"{_counted(result.get('replaced'), before)} into {_counted(result.get('files'), after)}"
    lost = f"; left out {left:,} of {_counted(groups + left, 'plan group')}, which writes touched" if left else ""
    return f"{did} {files} with {_counted(result.get('rows'), 'row')} of {_end(result)}{lost}"


def _rewritten(result: Mapping[str, Any], action: str, rewritten: str, done: Callable[[], str]) -> str:
    """Return the sentence of a service that rewrites file groups: its plan or what was done."""
    if not result.get("instant"):
        return _nothing(result)
    if "verdicts" in result:
        planned = dict(result.get("counts") or {}).get("planned", 0)
        return f"Planned the {action} of {_counted(planned, 'file group')} of {_end(result)}"
    if not result.get(rewritten):
        return f"{result.get('table')}, instant {result['instant']}: {result.get('note') or 'nothing was left to do'}"
    return done()


def _cleaned(result: Mapping[str, Any]) -> str:
    if "removed" in result:
        return _cancelled(result)
    if not result.get("instant"):
        return _nothing(result)
    if "verdicts" in result:
        planned = dict(result.get("counts") or {}).get("planned", 0)
        return f"Planned the deletion of {_counted(planned, 'file')} of {_end(result)}"
    if result.get("note"):
        return f"{result.get('table')}, instant {result['instant']}: {result['note']}"
    held = f", {_counted(result['held_back'], 'file')} held back" if result.get("held_back") else ""
    return f"Deleted {_counted(result.get('deleted'), 'file')}{held} of {_end(result)}"


def _cancelled(result: Mapping[str, Any]) -> str:
    if "removed" not in result:
        files = f", {_counted(result['files'], 'file')} deleted" if result.get("files") else ""
        plan = f"{result.get('action') or 'plan'} {result.get('instant')}"
        return f"Cancelled {plan} of {result.get('table')}: {result.get('reason')}{files}"
    if result.get("note"):
        return _nothing(result)
    counts = [f"{_counted(len(result.get(name) or ()), 'plan')} {name}" for name in ("cancelled", "removed", "waiting")]
    return f"{result.get('table')}: {', '.join(counts)}"


def _archived(result: Mapping[str, Any]) -> str:
    if not result.get("instants"):
        return _nothing(result)
    kept = f"{_counted(result.get('kept'), 'instant')} left on the timeline"
    moved = f"{_counted(result['instants'], 'instant')} of {result.get('table')} up to {result.get('boundary')}"
    return f"Archived {moved}, {kept}"


def _built(result: Mapping[str, Any]) -> str:
    if not result.get("instant") or not result.get("partitions"):
        planned = f"Planned index build {result['instant']} of {result.get('table')}: {result.get('note')}"
        return planned if result.get("instant") and "verdicts" in result else _nothing(result)
    names = ", ".join(result.get("partitions") or ())
    verdicts = dict(result.get("verdicts") or {})
    since = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    caught_up = f"; {_counted(result.get('rounds'), 'round')} of catch-up, {since}" if since else ""
    waited = "".join(f"; it {note}" for note in result.get("waited_for") or ())
    files = _counted(result.get("files"), "file")
    return f"Built {names} from {files} in the metadata table of {_end(result)}{caught_up}{waited}"


def _verified(result: Mapping[str, Any]) -> str:
    checks = sum(dict(result.get("checks") or {}).values())
    findings = _counted(len(result.get("findings") or ()), "finding")
    return f"Verified {result.get('table')}: no error, {findings}, {checks:,} things checked"


def _recovered(result: Mapping[str, Any]) -> str:
    undone, left = result.get("rolled_back") or (), result.get("left") or ()
    if not undone and not left:
        return f"{result.get('table')}: nothing to recover"
    instants = f" ({', '.join(str(one['instant']) for one in undone)})" if undone else ""
    done = f"{_counted(len(undone), 'write')} rolled back{instants}"
    return f"Recovered {result.get('table')}: {done}, {len(left):,} pending left alone"


def _nothing(result: Mapping[str, Any]) -> str:
    return f"{result.get('table')}: {result.get('note') or 'nothing to do'}"


def _end(result: Mapping[str, Any]) -> str:
    seconds = result.get("seconds")
    took = f" in {seconds:.1f} s" if isinstance(seconds, int | float) and seconds else ""
    return f"{result.get('table')}{took}, instant {result['instant']}"


def _counted(count: Any, noun: str) -> str:
    return f"{count or 0:,} {noun}{'' if count == 1 else 's'}"
