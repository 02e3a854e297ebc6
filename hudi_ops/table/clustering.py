"""Offer the services that replace file groups: `table.clustering` and `table.resize`."""

from __future__ import annotations

from hudi_ops.config.requests import ClusteringRequest, ResizeRequest
from hudi_ops.services.clustering.result import ClusterResult
from hudi_ops.services.clustering.service import CLUSTERING
from hudi_ops.services.resize.result import ResizeResult
from hudi_ops.services.resize.service import RESIZE
from hudi_ops.table.services import ServiceApi


class ClusteringApi(ServiceApi[ClusteringRequest, ClusterResult]):
    """Plans and executes clusterings."""

    service = CLUSTERING
    request_type = ClusteringRequest


class ResizeApi(ServiceApi[ResizeRequest, ResizeResult]):
    """Plans and executes resizes."""

    service = RESIZE
    request_type = ResizeRequest
