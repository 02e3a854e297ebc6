"""Offer the clustering of a table: `table.clustering`."""

from __future__ import annotations

from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.services.clustering.result import ClusterResult
from hudi_ops.services.clustering.service import CLUSTERING
from hudi_ops.table.services import ServiceApi


class ClusteringApi(ServiceApi[ClusteringRequest, ClusterResult]):
    """Plans and executes clusterings."""

    service = CLUSTERING
    request_type = ClusteringRequest
