"""Which tests the quick tier leaves out, and why; which of them the soak alone holds.

A place is a folder, a file, a test, or one case of a test, below `tests`; the closest one that a table names decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from random import Random

import pytest

TIERS = ("quick", "full", "soak")

_HUDI = "needs Apache Hudi on Spark"
_SPARK = "starts Spark"
_PROCESSES = "starts, kills or measures processes"
_SEARCH = "searches schedules for many seconds"
_LARGE = "moves gigabytes or thousands of files"
_SWEEP = "goes wrong at each of many points"
_CASE = "is not in the sample of cases that quick runs"
_LIKE = "repeats what quick proves with a like case"
_WAITS = "waits for seconds"

LEFT_OUT: dict[str, str | None] = {
    "interop": _HUDI,
    "interop/test_compare.py": None,
    "interop/test_covering_reads.py": None,
    "e2e": _PROCESSES,
    "e2e/test_spark_engine.py": None,
    "zookeeper": "starts ZooKeeper servers",
    "airflow/test_applications.py": _PROCESSES,
    "airflow/test_cancel_dag.py::test_a_run_cancels_a_plan_without_spark": _PROCESSES,
    "airflow/test_scheduler.py": _PROCESSES,
    "airflow/test_stops.py": _PROCESSES,
    "airflow/test_clean_dag.py::test_a_dag_run_plans_and_executes_and_the_next_skips": _PROCESSES,
    "airflow/test_clustering_dag.py::test_a_dag_run_merges_and_sorts_on_executors": _PROCESSES,
    "airflow/test_clustering_dag.py::test_a_dag_run_splits_buckets_on_executors": _PROCESSES,
    "airflow/test_compaction_dag.py::test_a_dag_run_plans_and_executes_and_the_next_skips": _PROCESSES,
    "airflow/test_compaction_dag.py::test_a_plan_that_was_left_is_executed_on_executors_and_once": _PROCESSES,
    "airflow/test_compaction_dag.py::test_execute_run_alone_takes_the_oldest_plan_or_says_that_there_is_none": _PROCESSES,
    "airflow/test_compaction_dag.py::test_the_plan_task_runs_alone": _PROCESSES,
    "airflow/test_dag_runs.py": _PROCESSES,
    "airflow/test_docs_page.py": _PROCESSES,
    "airflow/test_indexing_dag.py::test_a_dag_run_builds_what_was_asked_for_once": _PROCESSES,
    "airflow/test_indexing_dag.py::test_each_task_can_be_killed_and_tried_again": _PROCESSES,
    "airflow/test_indexing_dag.py::test_the_result_says_what_catch_up_did_and_what_it_waited_for": _PROCESSES,
    "airflow/test_submit_operator.py": _PROCESSES,
    "property/test_merge_on_read_spark.py": _SPARK,
    "property/test_table_model_spark.py": _SPARK,
    "airflow/test_installed.py": _PROCESSES,
    "docs/test_snippets.py::test_every_snippet_of_a_page_runs_as_printed[quickstart.md]": _SPARK,
    "docs/test_snippets.py::test_every_snippet_of_a_page_runs_as_printed[spark.md]": _SPARK,
    "docs/test_snippets.py::test_every_snippet_of_a_page_runs_as_printed[savepoints.md]": _PROCESSES,
    "docs/test_snippets.py::test_every_snippet_of_a_page_runs_as_printed[tables.md]": _PROCESSES,
    "meta/test_tiers.py": "collects all tests twice",
    "meta/test_tiers.py::test_what_asks_for_a_session_of_spark_shares_one_process": None,
    "storage/test_races.py": _PROCESSES,
    "storage/test_contract.py::test_thousands_of_names[s3]": _LARGE,
    "unit/files/test_row_stream.py::test_text_of_2_gib_stays_in_several_pieces": _LARGE,
    "storage/test_claim.py::test_nobody_is_lied_to[two decisions]": _SEARCH,
    "storage/test_claim.py::test_nobody_is_lied_to[two tries of one decision]": _SEARCH,
    **{
        f"storage/test_object_store_table.py::test_a_lost_reply_at_every_write_loses_and_doubles_nothing[{case}-2]": _SWEEP
        for case in (
            *("upsert", "insert", "delete", "bulk_insert"),
            *("insert_overwrite", "insert_overwrite_table"),
            *("delete_partition", "truncate"),
        )
    },
    "protocol/test_holes.py::test_a_hole_opens_without_its_guard[H1 the log is read again after inflight]": _SEARCH,
    "services/compaction/test_simulated.py::test_no_death_pause_or_lost_lock_amid_a_preemption_loses_a_row": _SEARCH,
    "services/compaction/test_simulated.py::test_without_a_guard_the_search_finds_what_it_prevents[the epoch]": _SEARCH,
    "protocol/test_simulated_metadata.py::test_no_single_fault_leaves_the_metadata_table_behind_or_ahead": _SEARCH,
    "protocol/test_simulated_metadata.py::test_no_schedule_leaves_the_metadata_table_behind_or_ahead"
    "[two ingests, each of which compacts the metadata table]": _SEARCH,
    "protocol/test_simulated_pairs.py::test_no_death_or_lost_lock_amid_preemptions_loses_a_row": _SEARCH,
    "protocol/test_simulated_pairs.py::test_no_single_fault_of_a_pair_loses_a_row[executor and takeover]": _SEARCH,
    "protocol/test_simulated_pairs.py::test_no_single_fault_of_a_pair_loses_a_row[ingest and Apache Hudi on one group]": _SEARCH,
    "protocol/test_simulated_pairs.py::test_without_a_guard_the_search_finds_what_it_prevents[the slot]": _SEARCH,
    "services/compaction/test_crashes.py::test_the_second_executor_is_crashed_too": _SWEEP,
    "services/clean/test_crashes.py::test_the_second_executor_is_crashed_too": _SWEEP,
    "services/clean/test_incremental.py::test_calls_do_not_grow_with_the_partitions[1000]": _LARGE,
    **{
        f"services/archive/test_crashes.py::test_an_archiver_that_goes_wrong_anywhere_is_continued[mor-mdt-{fault}]": _SWEEP
        for fault in ("CRASH_AFTER", "ERROR_AFTER")
    },
    **{
        "services/archive/test_crashes.py::test_an_archiver_of_aborted_plans_that_goes_wrong_anywhere_is_continued"
        f"[Fault.{fault}]": _SWEEP
        for fault in ("CRASH_BEFORE", "ERROR_BEFORE", "ERROR_AFTER", "LANDS_LATER")
    },
    **{
        "services/archive/test_archivers.py::test_no_schedule_of_an_archiver_loses_a_row"
        f"[writer that died {when} its slot, ingest and archiver-]": _SEARCH
        for when in ("before", "behind")
    },
    "services/archive/test_archivers.py::test_without_a_guard_the_search_finds_what_it_prevents": _SEARCH,
    **{
        f"protocol/test_ingest_crashes.py::test_crash_again_at_every_operation_of_the_recovery[{case}]": _SWEEP
        for case in (
            "upsert-Fault.CRASH_BEFORE",
            "upsert-Fault.CRASH_AFTER",
            "insert_overwrite-Fault.CRASH_AFTER",
        )
    },
    "services/restore/test_restore.py::test_a_restore_goes_wrong_at_every_storage_operation": _SWEEP,
    "services/restore/test_restore.py::test_a_restore_goes_wrong_at_every_storage_operation[Fault.CRASH_BEFORE]": None,
    "protocol/test_ring_tables.py::test_a_crash_of_an_overwrite_leaves_rings_that_fit_the_groups": _SWEEP,
    "services/resize/test_with_model.py": _SEARCH,
    "services/resize/test_with_model.py::test_rounds_of_splits_and_merges_keep_every_row_once": None,
    "services/clustering/test_crashes.py": _SWEEP,
    "services/clustering/test_crashes.py::test_crash_at_every_storage_operation[execute-Fault.CRASH_BEFORE]": None,
    "services/clustering/test_simulated.py::test_no_single_fault_of_a_clustering_loses_a_row": _SEARCH,
    "services/resize/test_simulated.py": _SEARCH,
    "services/resize/test_simulated.py::test_no_schedule_of_a_resize_breaks_a_ring_or_loses_a_row[ingest and planner-]": None,
    **{
        f"services/resize/test_simulated.py::test_without_a_guard_the_search_finds_what_it_prevents[{guard}]": None
        for guard in ("the late dual write", "the version of a child log", "the abort of completed writers' logs")
    },
    "services/resize/test_crashes.py": _SWEEP,
    "services/resize/test_crashes.py::test_crash_at_every_storage_operation[Fault.CRASH_BEFORE]": None,
    "services/resize/test_execute.py::test_a_resize_beside_writers_keeps_every_row_once": "tries each plan with each table",
    **{
        f"services/resize/test_execute.py::test_a_resize_beside_writers_keeps_every_row_once[{case}]": None
        for case in (
            "metadata table-two groups",
            "commit time-split",
            "extendible-two partitions",
        )
    },
    "services/repair/test_crashes.py": _SWEEP,
    "services/repair/test_crashes.py::test_a_repair_that_goes_wrong_anywhere_is_ended_by_another"
    "[file that a rollback left-Fault.CRASH_AFTER]": None,
    "services/histories/test_histories.py": _SEARCH,
    "model": _SEARCH,
    "services/cancel/test_crashes.py": _SWEEP,
    "services/cancel/test_ingestion_crashes.py": _SWEEP,
    "services/cancel/test_simulated.py": _SEARCH,
    "services/cancel/test_stopped.py::test_an_executor_amid_a_long_task_stops[1]": _PROCESSES,
    "services/resize/test_abort_crashes.py": _SWEEP,
    "services/resize/test_abort_crashes.py::test_a_cancel_goes_wrong_at_every_storage_operation[begun-metadata-CRASH_AFTER]": None,
    "services/resize/test_abort_crashes.py::test_a_writer_runs_on_beside_a_cancel_that_goes_wrong"
    "[before its slot-Fault.CRASH_AFTER]": None,
    "services/clean/test_crashes.py": _SWEEP,
    "services/clean/test_simulated.py": _SEARCH,
    "services/indexing/test_starvation.py": _PROCESSES,
    "services/indexing/test_simulated.py": _SEARCH,
    "services/indexing/test_simulated.py::test_no_schedule_loses_a_row_of_an_index[abort and executor]": None,
    "services/indexing/test_simulated.py::test_without_a_guard_the_search_finds_what_it_prevents[the announcement]": None,
    "services/indexing/test_cancel.py::test_a_cancel_at_any_moment_leaves_nothing_of_the_build[a secondary index]": _LIKE,
    "services/indexing/test_resume.py::test_a_death_amid_catch_up_loses_nothing[MERGE_ON_READ-upsert]": _LIKE,
    "services/clean/test_incremental.py::test_random_histories_leave_what_a_full_clean_leaves": _SEARCH,
    "unit/cli/test_repair.py::test_a_damage_is_repaired": _SWEEP,
    "unit/cli/test_repair.py::test_a_damage_is_repaired[file that a rollback left]": None,
    "unit/cli/test_repair.py::test_a_damage_is_repaired[metadata table missing]": None,
    "protocol/test_metadata_build.py::test_crash_while_partitions_are_added": _SWEEP,
    "protocol/test_metadata_build.py::test_crash_at_every_change[Fault.CRASH_AFTER]": _SWEEP,
    **{
        f"protocol/test_metadata_build.py::test_an_error_leaves_a_table_that_is_right[Fault.{fault}]": _SWEEP
        for fault in ("LANDS_LATER", "EXISTS_THOUGH_ABSENT", "EXISTS_BY_ITSELF")
    },
    **{
        f"docs/test_snippets.py::test_every_snippet_of_a_page_runs_as_printed[{page}.md]": _PROCESSES
        for page in ("archive", "changes", "clean", "clustering", "errors", "resizing")
    },
    "protocol/test_simulated_pairs.py::test_no_single_fault_of_a_pair_loses_a_row"
    "[ingest whose puts land later and Apache Hudi]": _SEARCH,
    "protocol/test_simulated_pairs.py::test_without_a_guard_the_search_finds_what_it_prevents[the epoch]": _SEARCH,
    "protocol/test_simulated_metadata.py::test_no_schedule_leaves_the_metadata_table_behind_or_ahead"
    "[ingest and removal of one partition, metadata table]": _LIKE,
    "protocol/test_simulated_metadata.py::test_no_drawn_schedule_leaves_the_metadata_table_behind_or_ahead": _SEARCH,
    "services/compaction/test_simulated.py::test_no_single_fault_of_a_compaction_loses_a_row[two executors]": _SEARCH,
    "services/clustering/test_simulated.py::test_no_drawn_schedule_of_a_clustering_loses_a_row"
    "[two ingests of both groups, and executor]": _SEARCH,
    "services/clustering/test_beside_ingestion.py::test_most_groups_complete_beside_five_commits_a_second[cow]": _LIKE,
    "services/archive/test_crashes.py::test_a_merge_of_levels_that_goes_wrong_anywhere_is_continued[CRASH_AFTER]": _SWEEP,
    "services/row_count/test_row_count.py::test_no_schedule_of_two_runs_counts_wrongly": _SEARCH,
    "services/cancel/test_stopped.py::test_a_task_on_an_executor_ends_itself_once_its_instant_is_cancelled": _PROCESSES,
    "storage/test_object_store_table.py::test_a_crash_after_every_write_loses_and_doubles_nothing": _SWEEP,
    "storage/test_object_store_table.py::test_rows_are_neither_lost_nor_doubled[0.4]": _LIKE,
    "storage/test_contract.py::test_thousands_of_names[local]": _LARGE,
    "unit/engine/test_spill.py::test_a_disk_that_takes_no_more_is_named_and_the_table_is_as_it_was": _PROCESSES,
    **{
        f"unit/cli/test_remove.py::test_people_at_a_terminal_are_asked[{case}-words1]": _PROCESSES
        for case in ("y-0", "n-12", "-12")
    },
    **{
        f"unit/cli/test_progress.py::test_a_terminal_shows_what_is_done_of_the_total[command{n}-shown{n}]": _PROCESSES
        for n in (2, 3)
    },
    "unit/cli/test_program.py::test_progress_is_shown_on_a_terminal_only": _PROCESSES,
    "unit/cli/test_program.py::test_a_terminal_gets_a_table_that_fits": _PROCESSES,
    **{
        f"unit/cli/test_inspect.py::test_every_table_of_apache_hudi_can_be_looked_at[command{n}]": _LIKE for n in (3, 4)
    },
    "unit/concurrency/test_leases.py::test_a_beat_that_hangs_keeps_neither_the_end_nor_a_lease_that_was_dropped": _WAITS,
    "storage/test_bad_stores.py::test_a_network_that_drops_in_the_middle_of_a_read_is_asked_again": _WAITS,
    "storage/test_object_store.py::test_a_put_whose_replies_are_lost_is_unknown_and_claim_settles_it": _WAITS,
    "storage/test_claim.py::test_nobody_is_lied_to[more preemptions]": _SEARCH,
    "services/indexing/test_secondary.py::test_reads_by_value_give_what_a_model_has_after_any_changes[merge-on-read]": _LIKE,
    "services/automatic/test_automatic.py::test_a_new_table_stays_small_and_keeps_what_is_promised[with metadata table]": _LIKE,
    "unit/cli/test_progress.py::test_a_terminal_shows_what_is_done_of_the_total[command1-shown1]": _PROCESSES,
    "unit/cli/test_adopt.py::test_at_a_terminal_the_zone_is_asked_about": _PROCESSES,
    "unit/cli/test_restore.py::test_consent_is_asked_for": _PROCESSES,
}
"""Place -> why quick leaves it out; None: quick has it, within a place that it leaves out."""

SAMPLED: dict[str, int] = {
    "protocol": 2,
    "services": 2,
    "protocol/test_holes.py::test_a_hole_opens_without_its_guard": 3,
    "protocol/test_ingest_crashes.py::test_crash_at_every_storage_operation": 3,
    "protocol/test_left_states.py::test_no_schedule_of_sessions_that_go_on_loses_a_row": 3,
    "protocol/test_lost_completions.py::test_the_next_write_puts_any_deleted_completed_file_back": 3,
    "protocol/test_metadata_again.py::test_crash_at_every_change": 3,
    "protocol/test_metadata_compaction.py": 3,
    "protocol/test_metadata_drop.py::test_crash_at_every_change": 3,
    "protocol/test_overwrite_races.py::test_one_writer_between_any_two_steps_of_the_other": 3,
    "protocol/test_simulated_pairs.py::test_no_schedule_of_a_pair_loses_a_row": 3,
    "services/archive/test_archivers.py::test_no_schedule_of_an_archiver_loses_a_row": 3,
    "services/archive/test_crashes.py": 3,
    "services/clustering/test_simulated.py::test_no_schedule_of_a_clustering_loses_a_row": 5,
    "services/compaction/test_simulated.py::test_no_schedule_of_a_compaction_loses_a_row": 3,
    "services/indexing/test_beside_others.py": 4,
    "services/indexing/test_cancel.py": 3,
    "unit/cli/test_messages.py::test_a_source_that_may_not_be_entered_is_told_with_the_right": 3,
    "unit/cli/test_verify_advice.py::test_following_every_advice_ends_with_a_whole_table": 2,
    "unit/services/test_dropped_partition_columns.py": 2,
    "unit/services/test_index_pruning.py::test_every_value_is_found_by_every_index": 2,
    "unit/services/test_meta_columns.py": 2,
    "unit/services/test_table_kinds.py": 2,
}
"""Place -> n: quick runs one of n cases of each test there, and all cases that `LEFT_OUT` names with None."""

_RELEASE = "full has this with the other release, or the other kind of table"

SOAK_ONLY: dict[str, str] = {
    "install": "installs packages, or starts every service of docker-compose.yaml",
    "interop/test_killed_cancels.py::test_cancelled_and_killed_applications_leave_nothing[8]": "repeats full's case with version 8",
    **{
        f"interop/test_repairs.py::{case}": "repeats a state that full makes with another table"
        for case in (
            "test_a_rollback_of_a_savepoint_is_repaired[mor-True]",
            "test_a_failed_commit_that_was_passed_is_repaired[mor-False]",
            "test_files_of_a_rollback_without_markers_are_repaired[cow-False]",
            "test_files_of_a_rollback_without_markers_are_repaired[cow-True]",
            "test_a_killed_writer_is_repaired[no heartbeat]",
        )
    },
    **{
        f"interop/test_archive.py::test_either_side_archives_on_after_the_other[{case}]": "repeats a case that full makes"
        for case in ("cow-False-9", "mor-False-9")
    },
    **{
        f"interop/test_cancelled_plans.py::test_apache_hudi_goes_on_beside_aborted_plans[{case}]": "repeats a case that full makes"
        for case in ("False-8", "False-9", "True-8")
    },
    **{
        f"airflow/test_scheduler.py::{test}": "repeats with another service what full does with one"
        for test in (
            "test_a_task_that_is_cleared_while_it_executes_goes_on[sorted at .marker]",
            "test_a_task_that_is_cleared_while_it_executes_goes_on[indexed at .deltacommit]",
            "test_a_task_that_is_cleared_while_it_executes_goes_on[indexed at hoodie.properties]",
            "test_a_task_that_is_cleared_while_it_executes_goes_on[ringed at .marker]",
            "test_a_task_that_is_marked_as_failed_leaves_its_plan_to_the_next_run[indexed at bloom_filters]",
            "test_a_task_that_is_marked_as_failed_leaves_its_plan_to_the_next_run[indexed at .deltacommit]",
            "test_a_task_that_is_marked_as_failed_leaves_its_plan_to_the_next_run[indexed at hoodie.properties]",
            "test_a_task_that_is_marked_as_failed_leaves_its_plan_to_the_next_run[ringed at .marker]",
        )
    },
    **{
        f"interop/test_aborted_resizes.py::test_apache_hudi_counts_the_rows_after_cancels_that_died[{case}]": (
            "repeats full's case with another release or without a metadata table"
        )
        for case in ("8-False", "9-False", "8-True")
    },
    "interop/test_clustering.py::test_both_plan_and_execute_clusterings_in_turn[mor-9-False]": "repeats a table that full has",
    **{
        f"services/clustering/test_crashes.py::test_an_error_at_every_storage_operation_leaves_rows_and_plan[{case}]": (
            "compactions go wrong in this way at the same operations in full"
        )
        for case in (
            "plan-Fault.LANDS_LATER",
            *(f"{phase}-Fault.EXISTS_{how}" for phase in ("plan", "execute") for how in ("THOUGH_ABSENT", "BY_ITSELF")),
            "execute-Fault.LANDS_LATER",
            "execute-Fault.ERROR_BEFORE",
        )
    },
    **{
        f"services/{service}/test_simulated.py::test_without_a_guard_the_search_finds_what_it_prevents[the epoch]": (
            "compactions prove this guard of every service in full"
        )
        for service in ("clustering", "resize")
    },
    **{
        f"services/resize/test_crashes.py::test_an_error_at_every_storage_operation_leaves_rows_and_plan[Fault.{fault}]": (
            "compactions go wrong in this way at the same operations in full"
        )
        for fault in ("ERROR_AFTER", "LANDS_LATER", "EXISTS_THOUGH_ABSENT", "EXISTS_BY_ITSELF")
    },
    "services/clustering/test_crashes.py::test_crash_at_every_storage_operation[execute-Fault.CRASH_AFTER]": (
        "test_ingestion_goes_on_after_every_crash of full crashes at the same operations"
    ),
    **{
        f"services/cancel/test_crashes.py::test_a_cancel_goes_wrong_at_every_storage_operation[plain-{state}-Fault.{fault}]": (
            "full goes wrong in this way with a metadata table"
        )
        for state in ("planned", "begun", "requested")
        for fault in ("ERROR_BEFORE", "ERROR_AFTER", "LANDS_LATER", "EXISTS_THOUGH_ABSENT", "EXISTS_BY_ITSELF")
    },
    **{
        f"interop/test_resizes.py::test_both_plan_and_execute_resizes_in_turn_while_both_write[{case}]": (
            "full has another table of this release"
        )
        for case in ("9-False", "8-True")
    },
    "interop/test_archive.py::test_either_side_archives_on_after_the_other[cow-True-9]": "repeats a case that full makes",
    "interop/test_automatic.py::test_a_write_of_apache_hudi_switches_them_off[cow]": "full has the case of merge-on-read",
    "interop/test_restores.py::test_apache_hudi_goes_on_after_our_restore[cow-True]": "repeats a table that full has",
    "interop/test_spark_writer.py::test_every_save_is_one_commit_that_all_readers_see[cow]": "full has the case of merge-on-read",
    "airflow/test_stops.py::test_a_plan_that_airflow_killed_is_executed_by_the_next_try[clustering]": (
        "full has Airflow kill a resize, and the DAG is the same"
    ),
    "airflow/test_clean_dag.py::test_each_task_can_be_killed_and_tried_again": "full kills the same tasks of index builds",
    "airflow/test_clean_dag.py::test_a_plan_that_was_left_is_executed_once": "full has this of compactions",
    "airflow/test_clustering_dag.py::test_execute_run_alone_takes_the_oldest_resize": "full has this of compactions",
    "airflow/test_clustering_dag.py::test_execute_run_alone_takes_the_oldest_plan_and_names_what_it_left_out": (
        "full has this of compactions"
    ),
    "interop/test_index_builds.py::test_apache_hudi_writes_in_each_phase_of_a_build[8-silent-cow]": _RELEASE,
    "interop/test_index_builds.py::test_each_executes_the_plans_of_the_other[8]": _RELEASE,
    "interop/test_archive.py::test_either_side_archives_on_after_the_other[mor-True-9]": "repeats a case that full makes",
    "interop/test_clustering.py::test_both_plan_and_execute_clusterings_in_turn[mor-8-True]": _RELEASE,
    "interop/test_cleans.py::test_incremental_cleans_after_each_other_leave_what_a_full_one_leaves[mor-True]": (
        "full has copy-on-write tables"
    ),
    "interop/test_resizes.py::test_both_plan_and_execute_resizes_in_turn_while_both_write[8-False]": _RELEASE,
    "interop/test_rounds.py::test_rounds_in_turn_keep_every_row[cow-True-8]": _RELEASE,
    **{
        f"interop/test_shared_cancels.py::test_apache_hudi_executes_a_plan_before_amid_and_after_its_cancel[{case}]": _RELEASE
        for case in ("False-8", "False-9", "True-8")
    },
    "services/indexing/test_resume.py::test_a_build_that_died_after_its_announcement_reads_no_file_again[a secondary index]": (
        "full kills builds of all other indexes here, and of a secondary one in the next test"
    ),
    "services/indexing/test_cancel.py::test_a_cancel_at_any_moment_leaves_nothing_of_the_build[two more]": (
        "full cancels the build of a secondary index and of its record index"
    ),
    **{
        f"services/indexing/test_resume.py::test_a_death_amid_catch_up_loses_nothing[{case}]": (
            "full has each operation once, and each kind of table once"
        )
        for case in ("MERGE_ON_READ-delete", "COPY_ON_WRITE-upsert")
    },
    **{
        f"services/indexing/test_resume.py::test_an_executor_that_slept_removes_what_it_puts_after_others_went_on[{case}]": (
            "full has each kind of table once, and each end of the build once"
        )
        for case in ("taken over-a secondary index", "cancelled-keys")
    },
    "services/cancel/test_simulated.py::test_without_a_guard_the_search_finds_what_it_prevents[the slot]": (
        "pairs of writers prove this guard in full"
    ),
    **{
        f"services/archive/test_crashes.py::test_an_archiver_that_goes_wrong_anywhere_is_continued[mor-mdt-{fault}]": (
            "full goes wrong in this way with a copy-on-write table"
        )
        for fault in ("CRASH_BEFORE", "ERROR_BEFORE", "LANDS_LATER")
    },
    **{
        f"services/cancel/test_crashes.py::test_a_cancel_goes_wrong_at_every_storage_operation[metadata-{state}-Fault.{fault}]": (
            "full goes wrong in this way with a plan that was begun"
        )
        for state in ("planned", "requested")
        for fault in ("ERROR_BEFORE", "ERROR_AFTER", "LANDS_LATER", "EXISTS_THOUGH_ABSENT", "EXISTS_BY_ITSELF")
    },
    "services/clean/test_crashes.py::test_the_second_executor_is_crashed_too[Fault.CRASH_BEFORE]": (
        "full crashes it after the same operations"
    ),
    **{
        f"services/histories/test_histories.py::test_what_the_policy_promises_is_readable_and_nothing_else_is_left[{case}]": (
            "full has the other kind of table, and each with and without a metadata table once"
        )
        for case in ("mor", "cow-mdt")
    },
}
"""Place -> why only the soak has it."""

_AZURE = "needs Azurite"


def places(nodeid: str) -> Iterator[str]:
    """Yield the places of a test, the closest first: its id, the test without its case, the file, the folders."""
    whole = nodeid.removeprefix("tests/")
    yield whole
    yield whole.partition("[")[0]
    file = PurePosixPath(whole.partition("::")[0])
    yield str(file)
    yield from map(str, file.parents)


def reason_to_leave_out(item: pytest.Item, tier: str = "quick") -> str | None:
    """Return why a tier leaves a test out, or None."""
    if tier == "soak":
        return None
    for place in places(item.nodeid):
        if place in SOAK_ONLY:
            return SOAK_ONLY[place]
    if tier == "full":
        return None
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if "make_azure" in getattr(item, "fixturenames", ()) or "azure" in map(str, parameters.values()):
        return _AZURE
    return next((LEFT_OUT[place] for place in places(item.nodeid) if place in LEFT_OUT), None)


def _left_out_of_samples(items: Iterable[pytest.Item]) -> set[str]:
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item.nodeid)
    left_out = set()
    for test, nodeids in cases.items():
        share = next((SAMPLED[place] for place in places(test) if place in SAMPLED), 1)
        # A seeded draw, the same in every run. Every n-th case might always have the same value of the last parameter.
        kept = Random(test).sample(nodeids, -(-len(nodeids) // share))
        left_out.update(set(nodeids).difference(kept))
    return {nodeid for nodeid in left_out if nodeid.removeprefix("tests/") not in LEFT_OUT}


def select(config: pytest.Config, items: list[pytest.Item], tier: str) -> Counter[tuple[str, str]]:
    """Deselect what a tier leaves out; returns how many tests, by folder and reason."""
    reasons = {item.nodeid: reason_to_leave_out(item, tier) for item in items}
    if tier == "quick":
        reasons |= dict.fromkeys(_left_out_of_samples(item for item in items if not reasons[item.nodeid]), _CASE)
    left_out = [item for item in items if reasons[item.nodeid]]
    items[:] = [item for item in items if not reasons[item.nodeid]]
    config.hook.pytest_deselected(items=left_out)
    return Counter((nodeid.split("/")[1], reason) for nodeid, reason in reasons.items() if reason)


def lines(left_out: Iterable[tuple[tuple[str, str], int]]) -> Iterator[str]:
    """Yield a line for each folder and reason: how many tests were left out."""
    for (folder, reason), count in sorted(left_out):
        yield f"{count:6}  tests/{folder}: {reason}"
