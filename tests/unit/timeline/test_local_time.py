"""Instants in a time zone: what they mean, and that they rise where clocks are put back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hudi_ops.errors import InvalidRequest, Unavailable
from hudi_ops.timeline.log.reserve import next_after
from hudi_ops.timeline.names import instant_of_ms, ms_of_instant, parse_instant

BERLIN = "Europe/Berlin"


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "moment", "instant"),
    [
        ("UTC", "2026-11-21T12:00:00.005", "20261121120000005"),
        (BERLIN, "2026-11-21T12:00:00.005", "20261121130000005"),
        (BERLIN, "2026-07-01T12:00:00.005", "20260701140000005"),
        ("Asia/Kolkata", "2026-11-21T22:00:00", "20261122033000000"),
        ("America/New_York", "2026-11-21T03:00:00", "20261120220000000"),
    ],
)
def test_an_instant_and_its_moment(zone: str, moment: str, instant: str) -> None:
    assert instant_of_ms(ms(moment), zone) == instant
    assert ms_of_instant(instant, zone) == ms(moment)
    assert parse_instant(f"{moment}Z", zone) == instant
    assert parse_instant(moment, zone) == instant, "ISO times without a zone are UTC, in every table"
    assert parse_instant(instant, zone) == instant


def test_times_rise_through_the_hour_that_comes_twice() -> None:
    """Clocks in Berlin went back from 3 to 2 o'clock on 2026-10-25, at 01:00 UTC."""
    taken: list[str] = []
    for minute in range(180):
        now_ms = ms("2026-10-24T23:30:00") + minute * 60_000
        taken.append(next_after(frozenset(taken), now_ms, "t", BERLIN))
    assert taken == sorted(set(taken))
    assert taken[89] == "20261025025900000"
    assert taken[90:93] == ["20261025025900001", "20261025025900002", "20261025025900003"]
    assert taken[-1] == "20261025032900000", "the clock has caught up"


def test_names_that_rose_past_the_end_of_the_hour_that_comes_twice_stop_nobody() -> None:
    """A commit a second, of two names each, brings the names past three o'clock long before the clock is there."""
    taken = {"20261025025959990"}
    for second in range(3_600):
        for _ in range(2):
            taken = {next_after(frozenset(taken), ms("2026-10-25T01:00:00") + second * 1_000, "t", BERLIN)}
    assert taken == {"20261025030007190"}
    assert next_after(frozenset(taken), ms("2026-10-25T02:00:08"), "t", BERLIN) == "20261025030008000"
    with pytest.raises(Unavailable, match="clock is 120 s behind"):
        next_after(frozenset({"20261025040200000"}), ms("2026-10-25T03:00:00"), "t", BERLIN)


def test_times_go_on_through_the_hour_that_is_left_out() -> None:
    before = next_after(frozenset(), ms("2026-03-29T00:59:59.999"), "t", BERLIN)
    after = next_after(frozenset({before}), ms("2026-03-29T01:00:00"), "t", BERLIN)
    assert (before, after) == ("20260329015959999", "20260329030000000")
    # A name that no clock shows is a name all the same.
    assert next_after(frozenset({before}), ms("2026-03-29T00:59:59.999"), "t", BERLIN) == "20260329020000000"
    assert next_after(frozenset({"20260329020000000"}), ms("2026-03-29T01:00:01"), "t", BERLIN) == "20260329030001000"


def test_a_clock_that_is_behind_is_told_in_the_tables_zone() -> None:
    newest = instant_of_ms(ms("2026-11-21T12:10:00"), BERLIN)
    assert next_after(frozenset({newest}), ms("2026-11-21T12:09:30"), "t", BERLIN) == "20261121131000001"
    with pytest.raises(Unavailable, match="600 s behind") as caught:
        next_after(frozenset({newest}), ms("2026-11-21T12:00:00"), "t", BERLIN)
    assert caught.value.found == "20261121130000000, in zone Europe/Berlin"


@pytest.mark.parametrize("zone", ["Nowhere/Else", "", "../etc/passwd", "Europe"])
def test_what_is_no_zone(zone: str) -> None:
    with pytest.raises(InvalidRequest, match="not a time zone"):
        instant_of_ms(0, zone)
