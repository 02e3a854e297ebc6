"""Continue the view of a table, or build it by a listing (RFC-03)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from hudi_ops.config.table import TableConfig
from hudi_ops.config.tables_file import TableLocation
from hudi_ops.config.write_settings import ViewSettings
from hudi_ops.engine.local import LocalEngine
from hudi_ops.metadata.reader.listing import ListingChoice, open_listing
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.read.prune import with_metadata
from hudi_ops.storage.open import open_storage
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.kept import keep_view, keep_views, kept_settings, kept_view
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.listing import Keep, Listing, Source, Walked, WalkedListing
from hudi_ops.view.moment import Moment
from hudi_ops.view.remote.served import Wish, served_view
from hudi_ops.view.slices import is_partitioned


class ViewListing:
    """List the committed files of a view, without a call of the storage.

    `source` is `view`, or that of the listing which built the view.
    """

    is_whole = True

    def __init__(self, view: View, source: Source = "view") -> None:
        self.view = view
        self.source: Source = source

    def files(self, partitions: Sequence[str]) -> FileColumns:
        """Return the files of some partitions; an absent partition has none."""
        return self.view.files.of_partitions(partitions)

    def walk(self, keep: Keep | None = None, *, may_prune_folders: bool = False) -> Walked:
        """Return all partitions with their files; `may_prune_folders` has no effect."""
        paths = self.view.files.partitions
        kept = paths if keep is None or not paths else tuple(compress(paths, keep(paths)))
        return Walked(self.files(kept), tuple(sorted(set(paths) - set(kept))))


def storage_at(location: TableLocation, settings: ViewSettings | None = None) -> Storage:
    """Open the storage of the table at a location.

    Its view is kept as `settings` say, by default those of `tables.yaml`.
    """
    storage = open_storage(location.path)
    keep_views(storage, settings or location.view)
    return storage


def current_view(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    commits: CommitReader,
    engine: LocalEngine | None = None,
    *,
    is_writing: bool = False,
) -> View:
    """Return the view of a whole table at a reading of its timeline.

    It is the view of this process, a stored one, that of the timeline server, or one that is built, in this order. For a write
    (`is_writing`), a view that a server told is not used: a wrong one would decide what is written or deleted.

    Raises:
        Corrupt: a file is lost that a completed write names, or a file of the timeline cannot be read.
        Unavailable: a file was removed while the table was listed.
        Conflict: the same, if it is for a write.
    """
    if (view := kept_view(storage, config, timeline, commits, may_be_served=not is_writing)) is not None:
        return view
    if not is_writing and (view := served_view(storage, config, timeline, commits)) is not None:
        return view

    def built(metadata: MetadataTable | None) -> View:
        listing = open_listing(storage, config, metadata, engine=engine)
        moment = Moment(storage, config, timeline, commits, is_whole=True, is_writing=is_writing)
        return built_view(moment, listing)

    return with_metadata(storage, config, timeline, "auto", built, engine, commits.archived)


def built_view(moment: Moment, listing: Listing) -> View:
    """Build the view of a whole table by a listing, and keep it; raise as `current_view` does.

    A view without a look for lost log files is not kept: they would be missing from it for good.
    """
    listed = listing.walk().files
    view = moment.view(listed, listing.source)
    moment.refuse_lost(listed, listing.source, lambda: newest_slices(view))
    if moment.with_logs:
        keep_view(moment.storage, view)
    return view


def view_or_folders(
    moment: Moment, listing: ListingChoice, may_prune_folders: bool, *, may_walk: bool
) -> tuple[View | None, WalkedListing | None]:
    """Return the view for a read, or few folders that were listed; neither: the table is listed.

    Where the condition on partitions leaves few folders, they are listed before a server is asked: that takes no longer.

    Args:
        moment: what is read.
        listing: how the caller wants the table to be listed.
        may_prune_folders: the test for partitions also fits folders above them.
        may_walk: folders may be listed.
    """
    storage, asks = moment.storage, False
    of = (storage, moment.wanted, is_partitioned(moment.config), may_prune_folders)
    if _may_view(moment, listing):
        if (view := kept_view(storage, moment.config, moment.timeline, moment.commits)) is not None:
            return view, None
        asks = kept_settings(storage).server is not None
    if asks and may_prune_folders and may_walk and (walked := WalkedListing.of(*of, may_be_far=True)) is not None:
        return None, walked
    if asks and (view := _view_of_server(moment)) is not None:
        return view, None
    return None, WalkedListing.of(*of) if may_walk else None


def _may_view(moment: Moment, listing: ListingChoice) -> bool:
    """Return whether a view may be used.

    A clean that is under way may have removed files that an earlier moment needs: a listing tells which.
    """
    cleans = moment.timeline.by_kind.get("clean", ())
    return listing == "auto" and (moment.as_of is None or all(one.is_completed for one in cleans))


def _view_of_server(moment: Moment) -> View | None:
    """Return the view that a server tells, of the wanted partitions alone.

    Of the newest state it leaves out files of older slices, and may be of a later state than that of the moment.
    """
    is_newest = moment.as_of is None
    wish = Wish(moment.wanted, is_newest=is_newest and moment.wanted is not None, may_be_later=is_newest)
    return served_view(moment.storage, moment.config, moment.timeline, moment.commits, wish)
