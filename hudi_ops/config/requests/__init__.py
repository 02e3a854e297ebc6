"""Requests of the services: what a caller asks for, with the checks of each value.

Every package may import it, and DAG files do. Read `services.py` first.
"""

from hudi_ops.config.requests.cancel import CancelSettings
from hudi_ops.config.requests.clustering import ClusteringRequest
from hudi_ops.config.requests.compaction import CompactionRequest, StrategyName, checked_strategy
from hudi_ops.config.requests.indexing import IndexRequest, MetadataPartitionName
from hudi_ops.config.requests.request import (
    EngineName,
    Names,
    PathText,
    Request,
    checked_engine,
    invalid_request,
    known_fields,
    listed,
    listed_paths,
    merged,
    refuse_unknown,
    unknown_keyword,
)
from hudi_ops.config.requests.resize import ResizeRequest, checked_split_point
from hudi_ops.config.requests.services import (
    SERVICES,
    ArchiveRequest,
    CancelRequest,
    CleanRequest,
    IngestRequest,
    OperationName,
    PolicyName,
    RecoverRequest,
    VerifyRequest,
    checked_operation,
)

__all__ = [
    "SERVICES",
    "CancelRequest",
    "CancelSettings",
    "CleanRequest",
    "ClusteringRequest",
    "ArchiveRequest",
    "CompactionRequest",
    "EngineName",
    "IndexRequest",
    "IngestRequest",
    "MetadataPartitionName",
    "Names",
    "OperationName",
    "PathText",
    "PolicyName",
    "RecoverRequest",
    "Request",
    "ResizeRequest",
    "StrategyName",
    "VerifyRequest",
    "checked_engine",
    "checked_operation",
    "checked_split_point",
    "checked_strategy",
    "invalid_request",
    "known_fields",
    "listed",
    "listed_paths",
    "merged",
    "refuse_unknown",
    "unknown_keyword",
]
