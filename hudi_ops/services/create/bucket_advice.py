"""Errors for a missing or wrong number of buckets, with the numbers that fit the keys."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.index.bucket_fit import KeySample, Misfit, fitting_counts, other_hash_fields


def count_missing(
    config: TableConfig, samples: Sequence[KeySample], fields: tuple[str, ...], counts: Sequence[int]
) -> InvalidRequest | Unsupported:
    """Return the error for a missing number; it names the number that fits, if there is one."""
    if len(counts) != 1 and samples and (other := other_hash_fields(samples, config.record_key_fields, fields)):
        fields, counts = other[0], [other[1]]
    if not counts and any(len(sample.keys) for sample in samples):
        return _nothing_fits(config, samples, fields)
    keys = sum(len(sample.keys) for sample in samples)
    hashed = "" if fields == config.record_key_fields else f" --hash-fields {','.join(fields)}"
    return InvalidRequest(
        "Apache Hudi made this table and does not store how many buckets its partitions have",
        table=config.name,
        expected="a number of buckets",
        found=f"{keys} keys in {len(samples)} files, which fit {_listed(counts)}",
        next_step=f"pass buckets (`hudi-ops adopt TABLE --buckets {counts[0] if len(counts) == 1 else 'N'}{hashed}`), as in "
        "hoodie.bucket.index.num.buckets of the table's other writers",
        counts=list(counts),
        hash_fields=list(fields),
    )


def does_not_fit(
    config: TableConfig, samples: Sequence[KeySample], fields: tuple[str, ...], given: int, misfit: Misfit | None
) -> InvalidRequest | Unsupported:
    """Return the error for a number that does not fit."""
    counts = fitting_counts(samples, fields)
    other = other_hash_fields(samples, config.record_key_fields, fields) if not counts else None
    if not counts and other is None:
        return _nothing_fits(config, samples, fields)
    advice = f"buckets={other[1]} and hash_fields={list(other[0])}" if other is not None else _listed(counts)
    if misfit is None:
        top = max(samples, key=lambda sample: sample.bucket)
        return InvalidRequest(
            f"{top.file.path} is of bucket {top.bucket}, which a table of {given} buckets does not have",
            table=config.name,
            expected=f"buckets 0 to {given - 1}",
            found=str(top.bucket),
            next_step=f"pass values that fit the keys: {advice}",
            file=top.file.path,
        )
    return InvalidRequest(
        f"{misfit.file.path}: key {misfit.key} is in another bucket than {given} buckets by {', '.join(fields)} give",
        table=config.name,
        expected=f"bucket {misfit.expected}",
        found=f"bucket {misfit.bucket}",
        next_step=f"pass values that fit the keys: {advice}",
        file=misfit.file.path,
        record_key=misfit.key,
        bucket=misfit.expected,
    )


def _nothing_fits(config: TableConfig, samples: Sequence[KeySample], fields: Sequence[str]) -> Unsupported:
    partitions = sorted({sample.file.partition_path for sample in samples})
    parts = [[sample for sample in samples if sample.file.partition_path == path] for path in partitions]
    alone = all(fitting_counts(part, fields) for part in parts if any(len(sample.keys) for sample in part))
    return Unsupported(
        f"no number of buckets fits the keys of the table's files, hashed by {', '.join(fields)}",
        table=config.name,
        expected="one number of buckets for all partitions",
        found="partitions with numbers of their own" if alone and len(parts) > 1 else "keys that are routed otherwise",
        next_step="go on writing the table with Apache Hudi: its index cannot be reproduced",
    )


def _listed(counts: Sequence[int]) -> str:
    if not counts:
        return "any number"
    shown = ", ".join(str(count) for count in counts[:5])
    return f"{shown} buckets" if len(counts) <= 5 else f"{shown} and {len(counts) - 5} other numbers of buckets"
