"""Choose the router of a table's index."""

from __future__ import annotations

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.engine.protocol import Engine, Scattered
from hudi_ops.services.write.operations import WriteOperation
from hudi_ops.services.write.routing.known_rings import KnownRings
from hudi_ops.services.write.routing.lookup import IndexRouter
from hudi_ops.services.write.routing.rings import RingRouter
from hudi_ops.services.write.routing.routes import BucketRouter, Router
from hudi_ops.timeline.state import TableState


def router_of(
    session: Session,
    state: TableState,
    operation: WriteOperation,
    engine: Engine,
    schema: pa.Schema,
    scattered: Scattered,
    rings: KnownRings | None,
) -> Router:
    """Return the router of the table's index; `scattered` is the result of the first step."""
    facts = state.log.properties.facts
    if facts.has_ring:
        return RingRouter(session, operation, scattered, scattered.summaries, state, rings)
    if facts.has_buckets:
        return BucketRouter(session, operation, scattered, scattered.summaries)
    return IndexRouter(session, operation, engine, scattered, scattered.summaries, schema, state)
