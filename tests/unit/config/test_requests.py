"""Goal: a request says what is wrong with it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from hudi_ops.config.requests import (
    CompactionRequest,
    IndexRequest,
    IngestRequest,
    MetadataPartitionName,
    OperationName,
    StrategyName,
)
from hudi_ops.errors import InvalidRequest
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.services.compaction.choose import STRATEGIES
from hudi_ops.services.write.operations import INGESTING


@pytest.mark.parametrize(
    ("model", "given", "says"),
    [
        (CompactionRequest, {"strategy": "biggest"}, "unknown compaction strategy 'biggest'"),
        (CompactionRequest, {"threshold": -1}, "threshold is below 0"),
        (CompactionRequest, {"threshold": "many"}, "threshold cannot be 'many'"),
        (CompactionRequest, {"max_bytes": 0}, "max_bytes is below 1"),
        (CompactionRequest, {"engine": "flink"}, "unknown engine 'flink'"),
        (
            CompactionRequest,
            {"treshold": 5},  # codespell:ignore treshold
            "unknown keyword 'treshold'; did you mean 'threshold'",  # codespell:ignore treshold
        ),
        (CompactionRequest, {"partitions": [1]}, "partitions.0 cannot be 1"),
        (IngestRequest, {"operation": "merge"}, "unknown operation 'merge'"),
        (IngestRequest, {"operation": "truncate"}, "call `hudi-ops truncate`"),
        (IngestRequest, {"evolve": "perhaps"}, "evolve cannot be 'perhaps'"),
        (IndexRequest, {"rebuidl": True}, "did you mean 'rebuild'"),
    ],
)
def test_a_wrong_value_is_named(model: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        model(**given)
    assert caught.value.expected or caught.value.next_step


def test_texts_of_forms_and_command_lines_are_read() -> None:
    request = CompactionRequest(strategy="AGE", threshold="7200", max_bytes="10", partitions="city=x", abandoned="true")
    assert (request.strategy, request.threshold, request.max_bytes) == ("age", 7200.0, 10)
    assert (request.partitions, request.abandoned) == (("city=x",), True)


def test_names_are_those_that_the_services_know() -> None:
    assert get_args(StrategyName) == tuple(STRATEGIES)
    assert get_args(OperationName) == tuple(INGESTING)
    assert set(get_args(MetadataPartitionName)) == set(MetadataPartition)


@pytest.mark.parametrize("model", [CompactionRequest, IngestRequest, IndexRequest])
def test_every_field_has_a_title_and_a_description(model: Any) -> None:
    assert all(field.title and field.description for field in model.model_fields.values())
