"""Cases within this process: tagging, dual writes, plans. A case gives the calls to be timed, each made ready just before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.harness.rows import BASE_TS, ORDERING, PARTITION, PARTITIONS, SEED, make_keys, make_rows
from benchmarks.index.cases import BUCKETS, Case
from benchmarks.index.tables import create, create_ringed
from hudi_ops import Table
from hudi_ops.config.requests import ResizeRequest
from hudi_ops.config.write_settings import FileSizes
from hudi_ops.index.ring_files import put_initial
from hudi_ops.services.resize.choose import choose
from hudi_ops.services.resize.draft import ResizeDraft
from hudi_ops.services.write.batch import Batch, tagged
from hudi_ops.services.write.operations import UPSERT
from hudi_ops.services.write.routing.known_rings import KnownRings
from hudi_ops.services.write.routing.router import router_of
from hudi_ops.view.schema import table_schema

Call = Callable[[], bool]
"""What is timed; whether its result is right."""
BLOOM_FILES = 8
_OTHER = 2
"""Factor between the nodes of a resized ring and those of the initial ring."""


def calls(case: Case, work: Path, rows: int, batch_rows: int) -> dict[str, Callable[[], Call]]:
    """By variant, a function that makes ready what is timed."""
    kind = case.name.partition("-")[0]
    if kind == "tagging":
        return {name: _tagging(case, name, work / name, rows, batch_rows) for name in case.variants}
    make = _dual if kind == "dual" else _plan
    return {name: make(case, name, work / name) for name in case.variants}


def _tagging(case: Case, name: str, path: Path, rows: int, batch_rows: int) -> Callable[[], Call]:
    """Rows of known keys in memory, until each file group that takes some is known."""
    rng = np.random.default_rng(SEED)
    keys = make_keys(rng, rows)
    base = make_rows(rng, rows, keys, BASE_TS)
    batch = make_rows(rng, batch_rows, keys.take(pa.array(rng.choice(rows, batch_rows, replace=False))), BASE_TS)
    if name == "bloom":
        create(path, base.schema, index="bloom").close()
        table = Table.open(str(path), file_sizes=FileSizes(small_bytes=0))
        for first in range(0, rows, -(-rows // BLOOM_FILES)):
            table.ingest(base.slice(first, -(-rows // BLOOM_FILES)), "bulk_insert", engine="local")
    else:
        if name == "simple":
            table = create(path, base.schema, buckets=case.size)
        else:
            table = create_ringed(path, base.schema, case.size // (_OTHER if name == "resized" else 1))
            put_initial(table.context.storage, "", case.size)
        table.ingest(batch, engine="local")  # no other rows: only how many groups there are counts
    session = table._session
    state = session.loader.load()
    schema = table_schema(state.config, state.timeline, session.commits)

    def call() -> bool:
        given, engine = Batch(UPSERT, rows=batch), table.context.engine
        rings = KnownRings.of(session, state, engine)
        with (
            tagged(engine, state, given, schema, rings) as scattered,
            router_of(session, state, UPSERT, engine, schema, scattered, rings) as router,
        ):
            router.intent(None)
            targets = router.routes(state).targets
        groups = {(target.partition_path, target.file_id("", "")) for target in targets}
        return len(groups) == len(targets) > 1 and all(target.found is not None for target in targets)

    return lambda: call


def _dual(case: Case, name: str, path: Path) -> Callable[[], Call]:
    """An upsert of known keys into the buckets of one partition; a resize splits those of this one, or of another."""
    rng = np.random.default_rng(SEED)
    count = case.size * BUCKETS
    base = make_rows(rng, 2 * count, make_keys(rng, 2 * count), BASE_TS)
    base = base.set_column(base.schema.get_field_index(PARTITION), PARTITION, pa.array(PARTITIONS[:2] * count))
    table = create_ringed(path, base.schema, BUCKETS, partitioned=True, metadata=case.has_metadata)
    table.ingest(base, engine="local")
    ours = base.filter(pa.array(np.arange(2 * count) % 2 == 0))
    if name == "beside":
        planned = table.resize.plan(
            partitions=[f"{PARTITION}={PARTITIONS[0 if case.is_affected else 1]}"],
            split_bytes=1,
            merge_bytes=0,
            split_point="middle",
        )
        assert planned.instant is not None, planned
    times = cycle(range(1, 10**6))
    place = ours.schema.get_field_index(ORDERING)

    def ready() -> Call:
        later = ours.set_column(place, ORDERING, pa.array(ours[ORDERING].to_numpy() + next(times) * 10**9))

        def call() -> bool:
            return table.ingest(later, engine="local").logged == count

        return call

    return ready


def _plan(case: Case, name: str, path: Path) -> Callable[[], Call]:
    """Splits in the middle, of all buckets of a partition."""
    rng = np.random.default_rng(SEED)
    base = make_rows(rng, 40 * case.size, make_keys(rng, 40 * case.size), BASE_TS)
    create_ringed(path, base.schema, case.size).ingest(base, engine="local")
    request = ResizeRequest(split_bytes=1, merge_bytes=0, split_point="middle")
    made: list[str] = []

    def ready() -> Call:
        table = Table.open(str(path))
        while made:
            table.cancel(made.pop())
        session = table._session
        if name == "plan":
            return lambda: _published(table, request, made) == case.size
        state = session.loader.load()

        def draft() -> bool:
            choice = choose(session, state, request)
            return bool(ResizeDraft(session, state, choice).draft().body) and len(choice.groups) == case.size

        return draft

    return ready


def _published(table: Table, request: ResizeRequest, made: list[str]) -> int:
    planned = table.resize.plan(request)
    assert planned.instant is not None, planned.note
    made.append(planned.instant)
    return len(planned.planned)
