"""The number of buckets told from keys: proved where keys suffice, left open where they do not, never guessed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from hudi_ops.index import bucket_fit
from hudi_ops.index.bucket_fit import KeySample, chosen_groups, first_misfit, fitting_counts, other_hash_fields
from hudi_ops.kernels.keys.hashing import bucket_hash_values, bucket_ids
from hudi_ops.view.file_group import DataFile


def file_of(bucket: int) -> DataFile:
    return DataFile("", f"{bucket:08d}-a", f"{bucket:08d}-a", "1", 1)


def table_of(keys: list[str], fields: tuple[str, ...], buckets: int) -> list[KeySample]:
    """Samples of every bucket of a table that Apache Hudi would make of these keys."""
    column = pa.array(keys, pa.string())
    found = bucket_ids(bucket_hash_values(column, fields), buckets)
    return [KeySample(file_of(n), n, column.filter(pa.array(found == n))) for n in sorted(set(found.tolist()))]


@pytest.mark.parametrize("buckets", [1, 2, 7, 16, 256, 1000])
def test_a_few_keys_prove_the_number(buckets: int) -> None:
    samples = table_of([f"key-{n}" for n in range(300)], ("id",), buckets)
    assert fitting_counts(samples, ("id",)) == [buckets]
    assert first_misfit(samples, ("id",), buckets) is None


# A key with comma and colon is taken for several fields, on some of which Apache Hudi's own parser never ends.
KEYS = st.text(st.characters(exclude_characters=",", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(KEYS, min_size=1, max_size=30, unique=True), st.integers(1, 500), st.integers(1, 500))
def test_what_fits_is_what_has_no_misfit(keys: list[str], buckets: int, tried: int) -> None:
    samples = table_of(keys, ("id",), buckets)
    counts = fitting_counts(samples, ("id",))
    highest = max(sample.bucket for sample in samples)
    fits = first_misfit(samples, ("id",), tried) is None and tried > highest
    # No divisor is left when every hash is its own bucket: then everything fits and nothing is proved.
    assert not counts or (tried in counts) == fits
    assert not counts or buckets in counts


def test_a_misfit_names_file_key_and_bucket() -> None:
    samples = table_of(["TXN-001", "abc"], ("id",), 4)
    found = first_misfit(samples, ("id",), 8)
    assert found is not None
    assert (found.file.file_id, found.key, found.bucket, found.expected) == ("00000001-a", "TXN-001", 1, 5)


def test_other_hash_fields_are_found() -> None:
    keys = [f"id:k{n},day:{n % 40},shop:{n % 7}" for n in range(500)]
    samples = table_of(keys, ("day",), 12)
    assert fitting_counts(samples, ("id", "day", "shop")) == []
    assert other_hash_fields(samples, ("id", "day", "shop"), ("id", "day", "shop")) == (("day",), 12)


def test_fields_that_cannot_be_parsed_out_are_not_proposed() -> None:
    """By `id` alone, Apache Hudi's parser would not end on these keys."""
    samples = table_of([f"id:k{n},at:1{n}:30" for n in range(50)], ("id", "at"), 6)
    assert other_hash_fields(samples, ("id", "at"), ("at",)) == (("id", "at"), 6)
    assert other_hash_fields(samples, ("id", "at"), ("id", "at")) is None


def test_without_keys_nothing_is_proved() -> None:
    nothing = pa.array([], pa.string())
    assert fitting_counts([], ("id",)) == []
    assert fitting_counts([KeySample(file_of(3), 3, nothing)], ("id",)) == []


def test_partitions_with_numbers_of_their_own_fit_none() -> None:
    keys = [f"key-{n}" for n in range(100)]
    assert fitting_counts(table_of(keys, ("id",), 4) + table_of(keys, ("id",), 6), ("id",)) == []


def test_of_very_many_groups_some_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_fit, "SAMPLED_FILES_MAX", 10)
    groups = {(f"p{part}", n): file_of(n) for part in range(5) for n in range(100)} | {("p1", 700): file_of(700)}
    chosen = chosen_groups(groups)
    assert len(chosen) <= 10
    assert 700 in {bucket for bucket, _ in chosen}
    assert len(chosen_groups({("", n): file_of(n) for n in range(10)})) == 10
