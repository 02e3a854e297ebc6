"""Reasons to refuse a cancel; nothing was changed."""

from __future__ import annotations

from hudi_ops.errors import InvalidRequest


class InstantNotFound(InvalidRequest):
    """No instant of that time exists, on the timeline or in the history."""


class InstantArchived(InvalidRequest):
    """The instant completed and was archived."""


class AlreadyCommitted(InvalidRequest):
    """The instant is completed: its files are part of the table."""


class NotCancellable(InvalidRequest):
    """The instant is no plan that a cancel may end."""


class NotRequested(InvalidRequest):
    """No cancel of the instant was requested."""
