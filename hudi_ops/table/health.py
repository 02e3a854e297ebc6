"""Judge whether a table is well kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.config.requests.targets import HealthTargets, checked_targets
from hudi_ops.health.health import health
from hudi_ops.health.verdict import HealthVerdict
from hudi_ops.table.argument_types import checks_types


@checks_types
class HealthApi:
    """Judges the health of a table."""

    _session: Session
    _targets: HealthTargets = HealthTargets()
    _asked_as: str = ""

    def health(
        self,
        targets: HealthTargets | Mapping[str, Any] | None = None,
        previous: HealthVerdict | Mapping[str, Any] | None = None,
    ) -> HealthVerdict:
        """Return whether the table is well kept, with commands for what is not.

        Nothing is changed. An unchanged table costs six reads, if `previous` is its last verdict.

        Args:
            targets: of the checks, also as a mapping such as `{"read_cost": {"log_files": 5}}`; None: those of `tables.yaml`, or
                the defaults.
            previous: last verdict, or its `as_dict()`; that of another table, form or release is not used.

        Raises:
            InvalidRequest: an unknown check or target, or a negative number.
            Unavailable: storage did not answer.
            Conflict: others changed the table at each look.
            Corrupt: the timeline, the commit log or the settings cannot be read.
        """
        wanted = self._targets if targets is None else checked_targets(targets)
        return health(self._session, wanted, previous, name=self._asked_as)
