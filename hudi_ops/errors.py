"""Error tree, by what the caller does next.

Each class promises whether something may have landed: after `Conflict`, `InvalidRequest`, `Unsupported`, `Busy` and
`Cancelled` the attempt's own files may be removed; after any other class they may not, since the attempt may be visible.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from hudi_ops.redaction import redacted, redacted_values


class HudiOpsError(Exception):
    """Base of every error that this library raises on purpose.

    Credentials in its texts are masked.

    Args:
        what: one sentence: what happened, and to which file, field or row.
        table: name or path of the table, where one is involved.
        instant: instant time (17 digits), where one is involved.
        expected: what the code relied on.
        found: what it found instead.
        next_step: what the reader should do; printed after `Next:`.
        details: further facts, kept for machines (`as_dict`), not printed.
    """

    exit_code: ClassVar[int] = 70
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        what: str,
        *,
        table: str = "",
        instant: str = "",
        expected: str = "",
        found: str = "",
        next_step: str = "",
        **details: Any,
    ) -> None:
        super().__init__(redacted(what))
        self.what = redacted(what)
        self.table = redacted(table)
        self.instant = instant
        self.expected = redacted(expected)
        self.found = redacted(found)
        self.next_step = redacted(next_step)
        self.details: dict[str, Any] = redacted_values(details)

    def __str__(self) -> str:
        where = ", ".join(
            f"{name} {value}" for name, value in (("table", self.table), ("instant", self.instant)) if value
        )
        text = f"{self.what} [{where}]" if where else self.what
        comparison = [
            f"{name} {value}" for name, value in (("expected", self.expected), ("found", self.found)) if value
        ]
        if comparison:
            text += f"\n  {', '.join(comparison)}"
        if self.next_step:
            text += f"\n  Next: {self.next_step}"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (Spark workers, Airflow); keyword-only constructors do not pickle by themselves.
        return _rebuild, (type(self), self.what, self._keywords())

    def _keywords(self) -> dict[str, Any]:
        named = {
            key: getattr(self, key)
            for key in ("table", "instant", "expected", "found", "next_step")
            if getattr(self, key)
        }
        return {**named, **self.details}

    def at(self, *, table: str = "", instant: str = "") -> Self:
        """Fill in table and instant if they are missing, and return the same error."""
        self.table = self.table or table
        self.instant = self.instant or instant
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the error as plain values, for `--json` and the last line of a Spark application."""
        return {"error": type(self).__name__, "exit_code": self.exit_code, "message": str(self), **self._keywords()}


def _rebuild(cls: type[HudiOpsError], what: str, keywords: dict[str, Any]) -> HudiOpsError:
    return cls(what, **keywords)


class InvalidRequest(HudiOpsError):
    """The call is wrong: a bad value, an unknown table, column or instant.

    Nothing was changed; change the call.
    """

    exit_code = 2


class Unsupported(HudiOpsError):
    """The table, its version or the storage needs something this library does not do.

    Nothing was changed.
    """

    exit_code = 3


class Conflict(HudiOpsError):
    """Another action completed first and overlaps.

    Nothing landed; start again from a fresh view.
    """

    exit_code = 10
    retryable = True


class Busy(HudiOpsError):
    """Another process holds the lock or a live lease.

    Nothing landed; come back later.
    """

    exit_code = 11
    retryable = True


class Cancelled(HudiOpsError):
    """The instant was cancelled, for good. Not a fault; nothing landed."""

    exit_code = 12


class Overtaken(Cancelled):
    """Other writes touched every group of a plan, so that its executor cancelled it."""


class Unavailable(HudiOpsError):
    """Storage, ZooKeeper or a database did not answer after bounded retries.

    Retry the same call.
    """

    exit_code = 13
    retryable = True


class PermissionDenied(Unavailable):
    """The storage answers, but denies a right that the call needs.

    A retry fails in the same way: grant the right, or use other credentials. A subclass of `Unavailable`, since a write that is
    refused in the middle is settled as one whose storage did not answer.
    """

    exit_code = 2
    retryable = False


class OutcomeUnknown(HudiOpsError):
    """The write may have landed or not. Delete nothing; the next write settles it."""

    exit_code = 14
    retryable = True


class Corrupt(HudiOpsError):
    """Bytes that do not follow the format; names the file, and the offset where it is known."""

    exit_code = 20


class Internal(HudiOpsError):
    """A broken invariant of this library: please report it, with the text."""

    exit_code = 70


class NotFound(HudiOpsError):
    """No file under that path; the caller converts it to a class above."""

    exit_code = 20


class AlreadyExists(HudiOpsError):
    """A file exists under that path.

    It does not tell who wrote it: only `storage.claim` may interpret it.
    """

    exit_code = 14


def not_installed(feature: str, extra: str, *, found: str) -> Unsupported:
    """Return the error of a feature without its packages; names the command that installs them."""
    return Unsupported(
        f"{feature} needs packages that are not installed",
        expected=f"hudi-ops with the extra {extra}",
        found=found,
        next_step=f'pip install "hudi-ops[{extra}]"',
        extra=extra,
    )


NOTHING_LANDED = (InvalidRequest, Unsupported, Conflict, Busy, Cancelled)
"""Errors that promise that nothing landed. After any other error of a write it may be visible, and `recover` settles it."""
