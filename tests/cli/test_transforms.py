"""Transformed fields from the configuration to the masked file."""

from __future__ import annotations

import datetime

import orjson
from support.file_commands import amend, event, read, run, write

FIELDS = {
    "keep": ["id", "address"],
    "unlisted": "drop",
    "pseudonymize": ["patient"],
    "generalize": {
        "age": {"width": 10, "top": 90},
        "birth": {"date": "year"},
        "address.postcode": {"characters": 3},
        "visits[*].age": {"width": 5},
    },
    "shift": {"visits[*].date": {"days": 30, "key": "patient"}},
    "constant": {"hospital": "a hospital"},
}


def visit(k):
    first = datetime.date(2024, 1, 1) + datetime.timedelta(k)
    return {
        **event(k),
        "age": 30 + k,
        "birth": "1950-02-03",
        "address": {"postcode": "80331", "city": "Munich"},
        "visits": [{"date": first.isoformat(), "age": 7}, {"date": (first + datetime.timedelta(5)).isoformat()}],
        "hospital": f"hospital {k}",
    }


def test_every_transform_applies(tmp_path, config):
    amend(config, fields=FIELDS)
    events, moves = [visit(k) for k in range(60)], {}
    run("mask", "-c", config, write(tmp_path / "in.jsonl", map(orjson.dumps, events)), tmp_path / "out.jsonl")
    for before, after in zip(events, read(tmp_path / "out.jsonl"), strict=True):
        assert after["hospital"] == "a hospital"
        assert after["age"] == ("90+" if before["age"] >= 90 else f"{before['age'] // 10}0-{before['age'] // 10}9")
        assert after["birth"] == "1950"
        assert after["address"] == {"postcode": "803", "city": "Munich"}
        assert after["visits"][0]["age"] == "5-9"
        days = [datetime.date.fromisoformat(one["date"]) for one in (*before["visits"], *after["visits"])]
        assert (days[3] - days[2]).days == 5
        moves.setdefault(before["patient"], set()).add((days[2] - days[0]).days)
    assert len(moves) == 7
    assert all(len(days) == 1 and days != {0} for days in moves.values())
    text = (tmp_path / "out.jsonl").read_text()
    assert not any(name in text for name in ("80331", "1950-02", '"p1"', "hospital 1"))


def test_dates_in_formats_of_their_own_are_shifted_and_other_values_are_counted(tmp_path, config):
    fields = {
        "unlisted": "drop",
        "keep": ["id"],
        "shift": {"admitted": {"days": 30, "key": "patient", "formats": ["%d.%m.%Y"]}},
        "generalize": {"birth": {"date": "year"}},
    }
    amend(config, fields=fields)
    events = [event(k) | {"admitted": f"{1 + k % 28:02}.03.2024", "birth": "04.07.1948"} for k in range(60)]
    events[7]["admitted"] = "Ada"
    source = write(tmp_path / "in.jsonl", map(orjson.dumps, events))
    shown = run("config", "check", "-c", config, "--events", source).stdout
    assert "birth     100.0%  generalized\n" in shown
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl")
    assert "60 values of birth were removed, because its treatment does not fit them" in done.stderr
    assert "1 values of admitted were removed" in done.stderr
    assert "Ada" not in shown + done.stderr
    masked = read(tmp_path / "out.jsonl")
    dates = [datetime.datetime.strptime(one["admitted"], "%d.%m.%Y").date() for k, one in enumerate(masked) if k != 7]
    assert all(1 <= abs((date - datetime.date(2024, 3, 1)).days) <= 58 for date in dates)
    assert "admitted" not in masked[7]
    assert not any("birth" in one for one in masked)
