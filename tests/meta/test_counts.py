"""What is tried together does not shrink unnoticed: the covering set of tables, the game with Apache Hudi, the crash sweeps.

Goal: an operation or a kind of table that is added is tried with the rest, and none is dropped. Method: the lists that those tests
run over are held against what the product offers and against sizes written down here, without running them.
"""

from __future__ import annotations

import ast
import itertools
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from hudi_ops.config.key_generators import KeyGenerator
from hudi_ops.config.table import TABLE_TYPES, WRITABLE_VERSIONS
from hudi_ops.services.write.operations import DELETE_PARTITION, INGESTING, TRUNCATE
from hudi_ops.testing.faults import Fault
from tests.interop import test_ping_pong, test_table_shapes
from tests.interop.covering import AS_OF, AXES, CHOICES, covering, is_possible
from tests.protocol import (
    test_holes,
    test_ingest_crashes,
    test_simulated_ingests,
    test_simulated_metadata,
    test_simulated_pairs,
)
from tests.protocol.crash_table import JOBS, LOCATED_JOBS, LOGGED_JOBS, METADATA_JOBS, UPSERT
from tests.protocol.suite import SUITES
from tests.protocol.sweep import CRASHES, ERRORS
from tests.services.archive import test_archivers
from tests.services.cancel import test_simulated as simulated_cancels
from tests.services.clean import test_crashes as crashed_cleans, test_simulated as simulated_cleans
from tests.services.clustering import test_simulated as simulated_clusterings
from tests.services.compaction import test_crashes, test_simulated
from tests.services.indexing import test_simulated as simulated_builds
from tests.services.resize import test_simulated as simulated_resizes

REGISTERING = (
    test_archivers,
    simulated_cancels,
    simulated_cleans,
    simulated_clusterings,
    simulated_builds,
    simulated_resizes,
    test_holes,
    test_simulated,
    test_simulated_ingests,
    test_simulated_metadata,
    test_simulated_pairs,
)
"""Modules whose suites are in the registry once they are imported."""

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = {*INGESTING, DELETE_PARTITION.name, TRUNCATE.name}

POSSIBLE = [values for values in itertools.product(*AXES.values()) if is_possible(values)]


def pairs(values: tuple[Any, ...]) -> set[Any]:
    return set(itertools.combinations(zip(AXES, values, strict=True), 2))


def test_the_covering_set_knows_every_choice() -> None:
    assert set(AXES["operation"]) == OPERATIONS
    assert {*AXES["key_generator"], "auto"} == set(get_args(KeyGenerator))
    assert set(AXES["table_type"]) == set(TABLE_TYPES)
    assert set(AXES["version"]) == set(WRITABLE_VERSIONS)
    assert len(AXES["partitioning"]) >= 6
    assert set(AXES) >= {"operation", "partitioning", "key_generator", "ordering", "engine", "meta_fields"}
    assert len(POSSIBLE) >= 5_500


def test_the_covering_set_covers_every_possible_pair() -> None:
    chosen = covering(POSSIBLE)
    assert set().union(*map(pairs, chosen)) == set().union(*map(pairs, POSSIBLE))
    assert len(chosen) >= 47  # each operation with each partitioning that it can have
    assert {value for values in chosen for value in values} == {value for axis in AXES.values() for value in axis}


def test_both_players_have_every_operation_that_they_can_have() -> None:
    # Truncating is left to the covering set.
    assert set(test_ping_pong.OURS) >= OPERATIONS - {"truncate"}
    assert set(test_ping_pong.THEIRS) >= {"upsert", "insert", "delete", "insert_overwrite", "delete_partition"}
    assert test_ping_pong.ROUNDS >= 10
    assert test_ping_pong.SOAK_ROUNDS >= 20
    assert len(test_table_shapes.SHAPES) >= 15


def test_apache_hudi_reads_every_operation_of_the_covering_set_as_of_its_instant() -> None:
    asked = {(one.operation, one.shape.table_type) for one in CHOICES if str(one) in AS_OF}
    assert asked == {(one.operation, one.shape.table_type) for one in CHOICES}
    assert {one.shape.version for one in CHOICES if str(one) in AS_OF} == set(WRITABLE_VERSIONS)


def test_every_operation_is_crashed_at_every_point() -> None:
    assert {job.operation for job in JOBS} == OPERATIONS
    removing = {"delete_partition", "truncate"}
    assert all(job.points >= (34 if job.operation in removing else 40) for job in JOBS)
    assert all(job.writes >= (7 if job.operation in removing else 14) for job in JOBS)


def test_what_keeps_a_metadata_table_is_crashed_at_every_change() -> None:
    assert {(job.operation, job.table_type) for job in METADATA_JOBS} >= {
        ("upsert", "COPY_ON_WRITE"),
        ("upsert", "MERGE_ON_READ"),
        ("insert_overwrite", "COPY_ON_WRITE"),
        ("insert_overwrite", "MERGE_ON_READ"),
        ("truncate", "COPY_ON_WRITE"),
    }
    assert all(job.metadata for job in METADATA_JOBS)
    assert all(job.writes >= (12 if job.operation == "truncate" else 20) for job in METADATA_JOBS)


def test_no_sweep_leaves_a_job_out() -> None:
    every = [*JOBS, *LOGGED_JOBS, *LOCATED_JOBS, *METADATA_JOBS]
    swept = test_ingest_crashes.sweeps(test_ingest_crashes.SWEPT)
    assert [job for job, fault in swept if fault is Fault.CRASH_AFTER] == every
    assert {fault for job, fault in swept if job is UPSERT} == {Fault.CRASH_BEFORE, Fault.CRASH_AFTER}
    assert any(test_ingest_crashes.is_whole(job) for job in every)


def test_plan_and_execution_of_a_compaction_are_crashed_at_every_point() -> None:
    least = {"plan": (30, 5), "execute": (60, 14), "run": (85, 19)}
    assert all(test_crashes.PHASES[phase] >= floor for phase, floor in least.items())
    assert {*CRASHES, *ERRORS} == {*Fault}


def test_plan_and_execution_of_a_clean_are_crashed_at_every_point() -> None:
    least = {"plan": (25, 5), "execute": (40, 12), "run": (60, 17)}
    assert all(crashed_cleans.PHASES[phase] >= floor for phase, floor in least.items())


@dataclass(frozen=True)
class Least:
    """What a suite of the simulator holds at least: cases by name, their number, the sum of their floors, and proofs."""

    names: frozenset[str] = frozenset()
    cases: int = 0
    runs: int = 0
    proofs: int = 0


LEAST = {
    "pairs": Least(
        frozenset({
            "two ingests of one group",
            "two ingests of two groups",
            "ingest and delete of one group",
            "ingest and delete of two groups",
            "ingest and rollback of written files",
            "ingest and executor",
            "executor and takeover",
            "ingest and Apache Hudi on one group",
            "ingest and Apache Hudi on two groups",
        }),
        cases=14,
        runs=690,
        proofs=3,
    ),
    "compactions": Least(
        frozenset({
            "ingest and planner",
            "ingest and executor",
            "two executors",
            "ingest, planner and executor",
            "overwrite and executor",
            "ingest and resume before the slot",
        }),
        cases=12,
        runs=525,
        proofs=2,
    ),
    "cleans": Least(
        frozenset({"clean and savepoint", "executor and hold", "two cleans", "two executors", "clean and ingest"}),
        cases=5,
        runs=320,
        proofs=2,
    ),
    "archivers": Least(
        frozenset({
            "long ingestion and archiver",
            "two archivers",
            "late applier and archiver",
            "writer that died behind its slot, ingest and archiver",
        }),
        cases=6,
        runs=210,
        proofs=2,
    ),
    "metadata": Least(
        frozenset({
            "two ingests of one group, metadata table",
            "two ingests, each of which compacts the metadata table",
            "two ingests of two groups, metadata table",
            "ingest and delete of one group, metadata table",
            "ingest and removal of one partition, metadata table",
            "ingest and overwrite of another partition, metadata table",
        }),
        cases=6,
        runs=240,
        proofs=1,
    ),
    "ingests": Least(frozenset({"two ingests"}), cases=1, runs=40),
    "cancels": Least(
        frozenset({"ingest and executor", "ingest and Apache Hudi executes the plan", "abort and executor"}),
        cases=14,
        runs=640,
        proofs=2,
    ),
    "clusterings": Least(
        frozenset({
            "ingest and executor",
            "ingest and planner",
            "two executors",
            "ingest and executor, with log files",
            "ingest of all groups",
            "overwrite and executor",
            "ingest and resume before the slot",
        }),
        cases=12,
        runs=510,
        proofs=3,
    ),
    "resizes": Least(
        frozenset({
            "ingest and planner",
            "ingest and executor",
            "two executors",
            "two ingests into one child",
            "abort and executor",
            "ingest and abort",
            "ingest and resume before the ring file",
            "overwrite and executor",
        }),
        cases=16,
        runs=1_150,
        proofs=5,
    ),
    "index builds": Least(
        frozenset({
            "ingest and executor",
            "ingest and first build",
            "delete and executor",
            "two executors",
            "abort and executor",
            "removal and executor",
            "two planners",
        }),
        cases=9,
        runs=600,
        proofs=1,
    ),
    "holes": Least(proofs=15),
}


@pytest.mark.parametrize("name", LEAST)
def test_nothing_leaves_the_simulator(name: str) -> None:
    suite, least = SUITES[name], LEAST[name]
    assert suite.names >= least.names
    assert len(suite.names) == len(suite.floors) >= least.cases
    assert sum(floor for _, floor in suite.floors) >= least.runs
    assert len(suite.proofs) >= least.proofs


def test_every_suite_of_the_simulator_has_floors() -> None:
    assert len(REGISTERING) == len(SUITES)
    assert set(SUITES) == set(LEAST)
    for suite in SUITES.values():
        assert len(suite.always) == (2 if len(suite.floors) > 1 else 0), suite.name
        assert suite.quick_proof in {"", *(proof.name for proof in suite.proofs)}, suite.name
    assert sum(bool(suite.quick_proof) for suite in SUITES.values()) >= 9


def test_what_writes_log_files_is_crashed_at_every_point() -> None:
    assert {job.operation for job in LOGGED_JOBS} == {"upsert", "insert", "delete"}
    assert {job.table_type for job in LOGGED_JOBS} == {"MERGE_ON_READ"}


def test_what_looks_keys_up_is_crashed_at_every_point() -> None:
    assert {job.index for job in LOCATED_JOBS} == {"bloom", "simple"}
    assert {job.table_type for job in LOCATED_JOBS} == {"COPY_ON_WRITE", "MERGE_ON_READ"}


def test_what_chooses_the_bounds_of_tests_outlives_the_throw_away_airflow() -> None:
    """Its conftest clears the environment before most test files are collected, and those read the switch when they are."""
    code = "import os, tests.airflow.conftest; print({name for name in os.environ if name.startswith('HUDI_OPS_')})"
    given = {"HUDI_OPS_SOAK": "1", "HUDI_OPS_SEED": "7", "HUDI_OPS_INTEROP": "/interop", "HUDI_OPS_TABLES": "/tables"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    kept = ast.literal_eval(done.stdout)
    assert kept >= {"HUDI_OPS_SOAK", "HUDI_OPS_SEED", "HUDI_OPS_INTEROP"}
    assert "HUDI_OPS_TABLES" not in kept
