"""Parse the options of a read: rows as they are, or changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hudi_ops.clock import SystemClock
from hudi_ops.config.tables_file import locate_table
from hudi_ops.errors import InvalidRequest
from hudi_ops.read.as_of import instant_meant
from hudi_ops.read.changes import ChangesRequest, plan_changes
from hudi_ops.read.current_view import storage_at
from hudi_ops.read.plan import ReadPlan, ReadRequest, plan_read, request_of
from hudi_ops.storage.protocol import Storage

FORMAT = "hudi_ops"
OF_CHANGES = ("since", "until", "fence")
READ_OPTIONS = ("path", "columns", "where", "as_of", "query", "listing", "meta_columns", *OF_CHANGES)


def given_options(options: Mapping[str, str], known: tuple[str, ...], what: str) -> dict[str, str | None]:
    """Return the value of each known option; None: not given.

    Raises:
        InvalidRequest: an option is unknown, or no table is named.
    """
    for name in options:
        if name.lower() not in known:
            raise InvalidRequest(
                f"the format {FORMAT} has no option {name} for {what}",
                expected=", ".join(known),
                found=name,
                setting=name,
            )
    given = {name: options.get(name) for name in known}
    if not given.get("path"):
        raise InvalidRequest(
            "no table was named", expected='a path, as in .load("/data/trips")', found="none", setting="path"
        )
    return given


def switch(name: str, text: str | None) -> bool:
    """Return the value of an option that is true or false; absent: false.

    Raises:
        InvalidRequest: it is neither.
    """
    if text is None or text.lower() in {"true", "false"}:
        return text is not None and text.lower() == "true"
    raise InvalidRequest(f"the option {name} is a switch", expected="true or false", found=text, setting=name)


def storage_of(given: Mapping[str, str | None]) -> Storage:
    """Open the storage of the table that the options name: a path, or a name of `tables.yaml`.

    Raises:
        InvalidRequest: neither of them.
    """
    return storage_at(locate_table(given.get("path") or ""))


@dataclass(frozen=True)
class Asked:
    """Parsed options of a read."""

    storage: Storage
    read: ReadRequest
    changes: ChangesRequest | None = None

    @classmethod
    def of(cls, storage: Storage, options: Mapping[str, str | None]) -> Asked:
        """Parse options by name.

        Raises:
            InvalidRequest: a value is wrong, or two options exclude each other.
        """
        names = options.get("columns")
        columns = tuple(name.strip() for name in names.split(",")) if names else None
        as_of, since, until = (options.get(name) or None for name in ("as_of", "since", "until"))
        fence = switch("fence", options.get("fence"))
        asked = {"since": since, "until": until, "fence": fence}
        of_changes = [name for name in OF_CHANGES if asked[name]]
        if as_of and of_changes:
            raise InvalidRequest(
                "the table as of an instant has no changes",
                expected=f"either as_of or {of_changes[0]}",
                found="both",
                setting="as_of",
                next_step="name the end of the interval by the option until",
            )
        instant = instant_meant(storage, as_of) if as_of else None
        query = options.get("query") or "snapshot"
        if of_changes and query != "snapshot":
            raise InvalidRequest(
                "changes are those of all files", expected="query=snapshot with changes", found=query, setting="query"
            )
        read = request_of(
            columns,
            options.get("where") or None,
            instant,
            None,
            query,
            options.get("listing") or "auto",
            meta_columns=switch("meta_columns", options.get("meta_columns")),
        )
        return cls(storage, read, ChangesRequest(read, since, until, fence) if of_changes else None)

    def plan(self) -> ReadPlan:
        """Return the files to read, as of now."""
        if self.changes is None:
            return plan_read(self.storage, self.read)
        return plan_changes(self.storage, replace(self.changes, read=self.read), SystemClock()).read

    @property
    def if_gone(self) -> str:
        """Return the next step when a file was cleaned away."""
        again = "run the query again; the cleaner removed an old slice"
        return again if self.changes is None else f"{again}. If it repeats, ask without `until` and without a fence"
