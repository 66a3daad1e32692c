"""Values that a transform of a field cannot treat."""

from __future__ import annotations

import datetime

import orjson
from support.file_commands import amend, event, read, run, write


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
