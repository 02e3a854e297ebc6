"""Instants of moments: 17 digits in the order of the moments, in every year, and durations with a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hudi_ops.cli.arguments import parse_seconds
from hudi_ops.clock import DURATION_MAX_S, FIRST_MS, LAST_MS, iso_of_ms
from hudi_ops.config.requests import CleanRequest, IndexRequest, IngestRequest
from hudi_ops.config.requests.cancel import parse_cancel
from hudi_ops.errors import InvalidRequest
from hudi_ops.timeline.names import instant_of_ms, ms_of_instant, parse_instant
from tests.bounds import examples

MOMENTS = st.one_of(
    st.integers(FIRST_MS, LAST_MS), st.integers(-(10**30), 10**30), st.sampled_from([FIRST_MS, LAST_MS, 0, -1])
)
ZONES = ["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"]


@settings(max_examples=examples(100), deadline=None)
@given(one=MOMENTS, other=MOMENTS, zone=st.sampled_from(ZONES))
def test_instants_have_17_digits_and_sort_as_their_moments(one: int, other: int, zone: str) -> None:
    first, second = sorted((one, other))
    texts = [instant_of_ms(first), instant_of_ms(second)]
    assert texts == sorted(texts)
    for ms in (one, other):
        assert len(instant_of_ms(ms, zone)) == 17
        assert instant_of_ms(ms, zone).isdecimal()
        assert iso_of_ms(ms)
        assert ms_of_instant(instant_of_ms(ms)) == min(max(ms, FIRST_MS), LAST_MS)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("0999-05-06T07:08:09", "09990506070809000"),
        ("0001-01-01", "00010102000000000"),
        ("0001-01-01T00:00:00+05:00", "00010102000000000"),
        ("9999-12-31T23:59:59-11:00", "99991230235959999"),
    ],
)
def test_iso_times_of_every_year_are_instants(text: str, instant: str) -> None:
    for zone in ZONES:
        assert len(parse_instant(text, zone)) == 17
    assert parse_instant(text) == instant


@pytest.mark.parametrize(
    "take",
    [
        lambda seconds: parse_seconds(f"{seconds:.0f}s", "--for"),
        lambda seconds: IngestRequest(source="x", min_age_s=seconds),
        lambda seconds: IndexRequest(timeout_s=seconds),
        lambda seconds: parse_cancel(f"after {seconds / 3_600:.6f}h"),
        lambda seconds: CleanRequest(policy="hours", retain=int(seconds)),
    ],
    ids=["option", "min age", "timeout", "cancel", "retain"],
)
def test_every_duration_has_an_upper_limit(take: Callable[[float], Any]) -> None:
    take(DURATION_MAX_S)
    for longer in (1e11, 1e25, 1e300):
        with pytest.raises(InvalidRequest) as refused:
            take(longer)
        assert refused.value.expected
