"""Read some keys of each file group, written as this library would write them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.context import TableContext
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.index.bucket_fit import KeySample, SampleTask, sample_keys
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.view.file_group import DataFile


def samples_of(
    ctx: TableContext,
    config: TableConfig,
    schema: pa.Schema,
    fields: tuple[str, ...],
    chosen: Sequence[tuple[int, DataFile]],
) -> tuple[list[KeySample], bool | None]:
    """Return keys of file groups, and whether they name their fields; None: as in the settings.

    Raises:
        Unsupported: keys that this library would write differently.
    """
    if not chosen:
        return [], None
    try:
        return _read(ctx, config, schema, chosen, TableFacts(buckets=1, hash_fields=fields)), None
    except Unsupported as error:
        # Releases differ in the keys that the complex generator makes of one field, and no property names the release.
        if len(config.record_key_fields) > 1 or "record_key" not in error.details:
            raise
        other = not config.encodes_key_names
        facts = TableFacts(buckets=1, hash_fields=fields, encodes_key_names=other)
        try:
            return _read(ctx, config, schema, chosen, facts), other
        except Unsupported:
            raise error from None


def _read(
    ctx: TableContext, config: TableConfig, schema: pa.Schema, chosen: Sequence[tuple[int, DataFile]], facts: TableFacts
) -> list[KeySample]:
    tagger = Tagger.of(config, facts)
    tasks = [
        SampleTask(ctx.storage, file, bucket, schema, tagger.keys, tagger.partitions, config.populate_meta_fields)
        for bucket, file in chosen
    ]
    # Keys of a few rows of each file: starting executors would take longer.
    try:
        return ctx.local_engine.map(sample_keys, tasks)
    except (Unsupported, InvalidRequest) as error:
        raise error.at(table=config.name) from error
