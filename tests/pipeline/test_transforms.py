"""Transforms of fields: what they make of good values, and that no value of another kind passes."""

from __future__ import annotations

import datetime
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.transforms import (
    DROPPED,
    Constant,
    DateShift,
    DateUnit,
    LeadingCharacters,
    NumberBands,
    Pseudonym,
    Pseudonyms,
    find_date,
)

KEY = compile_path("patient.id")
P = Pseudonyms(b"0123456789abcdef")


def made(transform, value, key=b"p1"):
    return transform.of_value(value, P, key)


@pytest.mark.parametrize(
    ("transform", "value", "expected"),
    [
        (NumberBands(10), 47, "40-49"),
        (NumberBands(5), 4.99, "0-4"),
        (NumberBands(10), "47", "40-49"),
        (NumberBands(10, top=90), 90, "90+"),
        (NumberBands(10, top=90), 104, "90+"),
        (NumberBands(10, top=85), 84, "80-84"),
        (NumberBands(10), -1, DROPPED),
        (NumberBands(10), "old", DROPPED),
        (NumberBands(10), "nan", DROPPED),
        (NumberBands(10), True, DROPPED),
        (DateUnit("month"), "1980-03-14", "1980-03"),
        (DateUnit("year"), "1980-03-14T10:15:00+02:00", "1980"),
        (DateUnit("year"), "1980-02-31", DROPPED),
        (DateUnit("year"), "1980-03-14 Ada", DROPPED),
        (DateUnit("year"), "1980-03-14TAda", DROPPED),
        (DateUnit("year"), 1980, DROPPED),
        (LeadingCharacters(3), "80331", "803"),
        (LeadingCharacters(3), 80331, "803"),
        (LeadingCharacters(3), True, DROPPED),
        (Constant("x"), {"any": "value"}, "x"),
        (Constant(0), None, 0),
        (Pseudonym(16), "17", P.of_bytes(b"17")[:16]),
        (Pseudonym(32), 17, P.of_bytes(b"17")),
    ],
)
def test_values(transform, value, expected):
    assert made(transform, value) == expected


TRANSFORMS = [NumberBands(10), DateUnit("month"), LeadingCharacters(3), Pseudonym(16), DateShift(30, KEY)]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_null_stays_null_and_containers_are_dropped(transform):
    assert made(transform, None) is None
    assert made(transform, {"name": "Ada"}) is DROPPED
    assert made(transform, ["Ada"]) is DROPPED


dates = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))


@given(dates, dates, st.binary(min_size=1, max_size=8), st.integers(1, 1000))
def test_dates_of_a_key_move_together_by_at_most_the_days(first, second, key, days):
    shift = DateShift(days, KEY)
    one, two = (datetime.date.fromisoformat(made(shift, d.isoformat(), key)) for d in (first, second))
    assert two - one == second - first
    assert 1 <= abs((one - first).days) <= days


def test_all_offsets_occur_equally_often():
    offsets = [DateShift(3, KEY).offset(b"%d" % k, P) for k in range(6_000)]
    counts = {offset: offsets.count(offset) for offset in set(offsets)}
    assert set(counts) == {-3, -2, -1, 1, 2, 3}
    assert sum((count - 1_000) ** 2 / 1_000 for count in counts.values()) < 30  # chi², 5 degrees of freedom


def test_times_keep_what_stands_behind_the_date():
    before, after = "2024-03-14T10:15:00.5Z", made(DateShift(30, KEY), "2024-03-14T10:15:00.5Z")
    assert after[10:] == before[10:]
    assert after[:10] != before[:10]


@pytest.mark.parametrize(("value", "key"), [("2024-03-14", None), ("0001-01-01", b"p1"), ("Ada", b"p1")])
def test_dates_that_cannot_be_shifted_are_dropped(value, key):
    moves = [made(DateShift(d, KEY), value, key) for d in (1, 2, 3, 5, 8, 13)]
    assert DROPPED in moves
    assert value not in moves


@pytest.mark.parametrize(
    ("value", "year"),
    [
        ("1980-03-14 10:15:00.000+0100", "1980"),
        ("14.03.1980", "1980"),
        ("14.03.1980 10:15", "1980"),
        ("19800314", "1980"),
        ("198003141015", "1980"),
        ("19800314101530.5000-0500", "1980"),
        (19800314, "1980"),
        ("31.02.1980", None),
        ("14.03.1980 Ada", None),
        ("1980-0314", None),
        ("03/14/1980", None),
        ("14.03.80", None),
        ("1712011234", None),  # seconds since the epoch: its first digits are a date
        (1712011234567, None),
        ("1980", None),
        (True, None),
    ],
)
def test_dates_are_generalized_and_shifted_in_their_own_form(value, year):
    shift = DateShift(3, KEY)
    moved = made(shift, value)
    if year is None:
        assert made(DateUnit("year"), value) is moved is DROPPED
        return
    assert made(DateUnit("year"), value) == year
    assert type(moved) is type(value)
    days = shift.offset(b"p1", P)
    assert find_date(moved).date - find_date(value).date == datetime.timedelta(days)
    assert find_date(moved).time == find_date(value).time
    assert re.sub(r"\d", "", str(moved)) == re.sub(r"\d", "", str(value))
