"""Offer the compaction of a table: `table.compaction`."""

from __future__ import annotations

from hudi_ops.config.requests import CompactionRequest
from hudi_ops.services.compaction.result import CompactResult
from hudi_ops.services.compaction.service import COMPACTION
from hudi_ops.table.services import ServiceApi


class CompactionApi(ServiceApi[CompactionRequest, CompactResult]):
    """Plans and executes compactions."""

    service = COMPACTION
    request_type = CompactionRequest
