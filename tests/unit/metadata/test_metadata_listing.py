"""Listing by the metadata table: the files of storage, by partition, with what a condition leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.metadata.reader.listing import MetadataListing, listing_choice, open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.read.plan import Opened
from hudi_ops.storage.local import LocalStorage
from hudi_ops.view.listing import Listing
from tests.unit.metadata.fixture_metadata import TABLES


def both(path: Path) -> tuple[Listing, Listing]:
    """By the metadata table, and of storage."""
    storage = LocalStorage(str(path))
    opened = Opened.of(storage)
    metadata = open_metadata(storage, opened.config, opened.timeline)
    return (
        open_listing(storage, opened.config, metadata, "metadata"),
        open_listing(storage, opened.config, metadata, "storage"),
    )


@pytest.mark.parametrize("name", TABLES)
def test_it_lists_what_lies_on_storage(hudi_fixtures: Callable[[str], Path], name: str):
    by_metadata, of_storage = both(hudi_fixtures(name))
    assert (by_metadata.source, of_storage.source) == ("metadata", "storage")
    walked = by_metadata.walk()
    assert walked == of_storage.walk()
    assert by_metadata.files([*walked.files, "nowhere"]) == of_storage.files([*walked.files, "nowhere"])


@pytest.mark.parametrize("wanted", [0, 1, 2, 3])
def test_partitions_that_nobody_wants_are_left_out(hudi_fixtures: Callable[[str], Path], wanted: int):
    by_metadata, of_storage = both(hudi_fixtures("v9_txns_simple_meta_mor"))
    kept = sorted(of_storage.walk().files)[:wanted]

    def keep(paths: Sequence[str]) -> list[bool]:
        return [path in kept for path in paths]

    storage = LocalStorage(str(hudi_fixtures("v9_txns_simple_meta_mor")))
    opened = Opened.of(storage)
    metadata = open_metadata(storage, opened.config, opened.timeline)
    assert metadata is not None
    for listing in (by_metadata, MetadataListing(metadata, is_partitioned=True, whole_bytes=0)):
        walked = listing.walk(keep)
        assert walked == of_storage.walk(keep)
        assert sorted(walked.files) == kept


def test_a_table_without_one_is_listed_on_storage(hudi_fixtures: Callable[[str], Path]):
    storage = LocalStorage(str(hudi_fixtures("v9_bucket_simple")))
    config = Opened.of(storage).config
    assert open_listing(storage, config, None).source == "storage"
    with pytest.raises(Unsupported, match="cannot be listed by its metadata table"):
        open_listing(storage, config, None, "metadata")


def test_one_without_the_partition_files_is_not_listed_by(hudi_fixtures: Callable[[str], Path]):
    storage = LocalStorage(str(hudi_fixtures("v9_async_index")))
    opened = Opened.of(storage)
    config = opened.config.model_copy(update={"metadata_partitions": ("column_stats",)})
    metadata = open_metadata(storage, config, opened.timeline)
    assert open_listing(storage, config, metadata).source == "storage"


def test_another_choice_is_refused():
    assert listing_choice("storage") == "storage"
    with pytest.raises(InvalidRequest, match="folders is not a kind of listing") as refused:
        listing_choice("folders")
    assert "auto" in refused.value.next_step
