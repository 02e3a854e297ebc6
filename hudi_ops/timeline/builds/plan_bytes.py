"""Encode plans and results of index builds, as `timeline.content.plans` decodes them.

Source: RFC-45; docs/format.md §14.10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.service_schemas import INDEX_COMMIT_METADATA, INDEX_PLAN

INDEX_VERSION = 1
"""Version of plans, results and their partitions."""


def encode_index_plan(partitions: Mapping[str, str]) -> bytes:
    """Encode the requested file of an index build.

    `partitions` maps each partition of the metadata table to the last completed instant before the first pending one.
    """
    return avro.write_one(INDEX_PLAN, {"version": INDEX_VERSION, "indexPartitionInfos": _infos(partitions)})


def encode_index_result(partitions: Mapping[str, str]) -> bytes:
    """Encode the completed file of an index build; arguments as of `encode_index_plan`."""
    record = {"version": INDEX_VERSION, "operationType": None, "indexPartitionInfos": _infos(partitions)}
    return avro.write_one(INDEX_COMMIT_METADATA, record)


def _infos(partitions: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"version": INDEX_VERSION, "metadataPartitionPath": name, "indexUptoInstant": upto, "extraMetadata": {}}
        for name, upto in partitions.items()
    ]
