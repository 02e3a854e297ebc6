"""Guards of the product, how each is removed, and the tests that must fail without it.

A row removes one guard by one replacement of text that stands once in its file, so that a moved or rewritten guard is noticed:
`tests/meta/test_guards.py` holds the rows against the files. `python -m tests.guards` removes them, one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guard:
    """A guard: what it prevents, where it stands, what stands there without it, and which tests must find that."""

    name: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]


def _row(name: str, file: str, text: str, without: str, *tests: str) -> Guard:
    return Guard(name, f"hudi_ops/{file}", text, without, tuple(f"tests/{test}" for test in tests))


GUARDS = [
    _row(
        "a slot that another decision holds is lost, not won",
        "storage/claim.py",
        "return Claimed(is_own(body, decision_id, read_id), body)",
        "return Claimed(True, body)",
        "storage/test_claim.py",
        "protocol/test_commit_log_races.py",
    ),
    _row(
        "a put whose reply was lost is read back",
        "storage/claim.py",
        "return read_id(body) == decision_id",
        "return False",
        "storage/test_claim.py",
        "protocol/test_commit_log.py",
    ),
    _row(
        "a worker stops once its instant was given to another",
        "concurrency/lease/monitor.py",
        "is_taken = taken is not None and taken[1].epoch > epoch",
        "is_taken = False",
        "unit/concurrency/test_keeper.py",
        "protocol/test_plans_and_takeovers.py",
    ),
    _row(
        "a superseded worker cannot complete",
        "concurrency/attempt_status.py",
        "if taken is not None and taken[1].epoch > attempt.epoch:",
        "if False:",
        "protocol/test_plans_and_takeovers.py",
    ),
    _row(
        "an attempt below the archive boundary cannot complete",
        "concurrency/attempt_status.py",
        "if attempt.instant <= state.log.boundary:",
        "if False:",
        "protocol/test_plans_and_takeovers.py",
        "protocol/test_late_appliers.py",
        "protocol/test_holes.py::test_a_hole_is_closed[W4 an applier that slept wakes nothing that was archived]",
        "protocol/test_left_states.py",
    ),
    _row(
        "an executor does not complete a compaction that left a log file out",
        "services/compaction/service.py",
        "        refuse_missing_log_files(session, state, attempt.instant, plan, seen)",
        "        pass",
        "services/compaction/test_races.py",
    ),
    _row(
        "writes that completed since an attempt began are looked at",
        "concurrency/contenders.py",
        "    return now.completed_beyond(seen, instant)",
        "    return []",
        "protocol/test_conflicts.py",
    ),
    _row(
        "a file whose writer is pending is looked at again",
        "view/known_files.py",
        "writer is not None and writer.is_completed and ",
        "writer is not None and ",
        "unit/view/test_known_files.py",
    ),
    _row(
        "a timeline that is listed again is in the order of its instants",
        "timeline/active.py",
        "        if _is_unordered(self.instants, changed, instants):",
        "        if False:",
        "unit/timeline/test_fold.py",
    ),
    _row(
        "a release without chains refuses a link of a ledger",
        "timeline/content/ledger_chain.py",
        '"added": files} if link.upon',
        '"files": files} if link.upon',
        "unit/timeline/test_ledger_chain.py",
    ),
    _row(
        "a VOID takes back what a log had derived",
        "timeline/log/commit_log.py",
        "    if any(isinstance(entry, Void) for _, entry in added):",
        "    if False:",
        "unit/timeline/test_log_grown.py",
    ),
    _row(
        "what was pending and is gone may have completed",
        "concurrency/contenders.py",
        "        yield from vanished(self.storage, begun, now)\n",
        "",
        "protocol/test_conflicts.py::test_what_a_foreign_archiver_took_away_may_have_completed",
    ),
    _row(
        "a decision is void when Apache Hudi completed between slot and file",
        "commit/apply/invalidate.py",
        "if reason := completed_between(commits, state, entry, mine) or planned_between(ctx, state, entry, mine):",
        "if reason := planned_between(ctx, state, entry, mine):",
        "protocol/test_overwrite_strangers.py",
        "protocol/test_strangers.py",
        "protocol/test_holes.py::test_a_hole_is_closed[W2 a commit of Apache Hudi between slot and file voids]",
    ),
    _row(
        "a completed file whose decision was voided meanwhile is taken back",
        "commit/apply/decided.py",
        "        if is_voided(log, slot):\n",
        "        if False:\n",
        "protocol/test_late_appliers.py",
    ),
    _row(
        "a writer of Apache Hudi that is starting is let in first",
        "commit/checks.py",
        "    refuse_starting(session.ctx, state, attempt.instant)\n",
        "",
        "protocol/test_early_detection.py",
        "protocol/test_holes.py::test_a_hole_is_closed[W5 a writer of Apache Hudi that is starting is let in first]",
    ),
    _row(
        "an instant with a live lease is not taken over",
        "commit/takeover.py",
        "        refuse_leased(session, state, read_lease(session.ctx.storage, instant), instant)\n",
        "",
        "protocol/test_plans_and_takeovers.py",
    ),
    _row(
        "an epoch is above those before it",
        "commit/takeover.py",
        "epoch = newest[1].epoch + 1 if newest is not None else 1",
        "epoch = 1",
        "protocol/test_plans_and_takeovers.py",
        "services/compaction/test_races.py",
    ),
    _row(
        "file names carry the epoch",
        "services/compaction/tasks.py",
        "source.number, self.epoch, self.instant)",
        "source.number, 0, self.instant)",
        "services/compaction/test_races.py",
    ),
    _row(
        "a marker is put before its log file",
        "services/write/tasks/append.py",
        "    put_marker(task.storage, task.instant, path, replaces=False)\n    task.storage.put(path, body)\n",
        "    task.storage.put(path, body)\n    put_marker(task.storage, task.instant, path, replaces=False)\n",
        "protocol/test_ingest_crashes.py::test_crash_at_every_storage_operation",
    ),
    _row(
        "the history is there before the boundary moves",
        "commit/archive_boundary.py",
        "        refuse_missing_history(session, state, history)\n",
        "",
        "protocol/test_plans_and_takeovers.py",
        "protocol/test_holes.py::test_a_hole_is_closed[H6 the history is written before the ARCHIVE]",
    ),
    _row(
        "nothing pending is archived",
        "commit/archive_boundary.py",
        "        refuse_pending_below(state, boundary)\n",
        "",
        "protocol/test_plans_and_takeovers.py",
    ),
    _row(
        "a completed file that was deleted is not put back without its data files",
        "commit/apply/decided.py",
        "        refuse_lost(self._ctx.storage, self._commits, state, entry)\n",
        "",
        "protocol/test_lost_completions.py::test_condition_4_a_file_that_it_names_and_that_nothing_explains_is_corrupt",
    ),
    _row(
        "an earlier moment whose files were cleaned is refused",
        "view/moment.py",
        "            self._refuse_cleaned(listed, self.as_of)\n",
        "            pass\n",
        "property/test_past_moments.py",
    ),
    _row(
        "a lost data file is named by readers",
        "view/moment.py",
        "            self._refuse_lost(listed, found)\n",
        "            pass\n",
        "protocol/test_lost_data_files.py",
    ),
    _row(
        "a log file lies upon the slice in force when it completed, not when it was requested",
        "view/slices.py",
        "    return WriterTimes(timeline, config.history_folder, commits.archived).lie_upon(pairs)",
        "    return [log >= base for log, base in pairs]",
        "protocol/test_archived_writers.py",
    ),
    _row(
        "two plans do not work on one file group",
        "services/base/publish.py",
        "        refuse_overlapping_plan(session, revised, state)\n",
        "",
        "services/compaction/test_races.py::test_two_planners_share_no_group",
        "protocol/test_plans_and_takeovers.py",
    ),
    _row(
        "loose statistics of the metadata table are put above those that they contradict",
        "metadata/writer/commit.py",
        "    if delta.above is not None:\n        apply_delta(storage, delta.above, completion_time)\n",
        "",
        "protocol/test_metadata_strangers.py",
        "protocol/test_metadata_named_late.py",
        "unit/metadata/test_delta.py",
    ),
    _row(
        "a delta that a later one contradicts is refused",
        "commit/apply/delta_maker.py",
        "        refuse_contradicted(self.session.ctx.storage, self._records, self.attempt.instant, new, state.config.version)\n",
        "",
        "protocol/test_metadata_strangers.py",
        "protocol/test_metadata_named_late.py",
    ),
    _row(
        "hoodie.properties is held against the log",
        "timeline/settings/settings_check.py",
        "    return agreed(storage, log) if differences(kept, config.raw) else config",
        "    return config",
        "protocol/test_logged_settings.py",
    ),
    _row(
        "text after a closing quote is refused",
        "sources/csv_quotes.py",
        "        return None if self._alternates(data, quotes, shift) else self._follow_runs(data, quotes, shift)",
        "        return None",
        "unit/files/test_csv_quotes.py",
    ),
]
