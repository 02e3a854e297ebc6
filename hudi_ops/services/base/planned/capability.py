"""Record in a table's facts that it has plans which a cancel may end (RFC-79).

The fact is decided before the first such plan. A release that does not know cancellable plans would complete a write without
cancelling a plan on its file groups; Apache Hudi could execute that plan and lose the rows of the write. Such a release refuses a
fact that it does not know, and so refuses the table.

Source: docs/protocol.md §26, step 12.
"""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.timeline.log.entries import Entry, Properties
from hudi_ops.timeline.log.unique_keys import newest_count
from hudi_ops.timeline.state import TableState


def record_cancellable(session: Session, begun: TableState) -> None:
    """Decide the fact `cancellable`, unless the table has it; `begun` is any state of it.

    Raises:
        Busy: the lock was not free in time.
        OutcomeUnknown: storage did not say whether it was decided. The next plan decides it, if it was not.
    """
    if begun.log.properties.facts.cancellable:
        return
    decision_id = f"cancellable {session.ctx.ids.new_id()}"

    def prepare(state: TableState, slot: int) -> Entry | None:
        properties = state.log.properties
        if properties.facts.cancellable:
            return None
        counted = newest_count(state.log)
        return Properties(
            **session.entry(state, decision_id),
            facts=properties.facts.model_copy(update={"cancellable": True}),
            to_build=properties.to_build,
            # Processes that read the log from here on look for the count in the newest PROPERTIES.
            doubled_keys=counted.doubled_keys if counted is not None else None,
            counted_until=counted.counted_until if counted is not None else "",
            settings=session.settings(state),
        )

    session.decide(prepare, "record that plans may be cancelled")
