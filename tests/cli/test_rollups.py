"""Files whose codes are generalized through an ontology."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest
from support.file_commands import changed, read, run, write, write_deployment

GROUPS = {"A": ["a1", "a2", "a3"], "B": ["b1", "b2"]}
REASONS = ["a1"] * 30 + ["a2"] * 4 + ["a3"] * 7 + ["b1"] * 11 + ["nothing"] * 2
SIZE = 400


def events():
    for k in range(SIZE):
        rare = {"reason": REASONS[k]} if k < len(REASONS) else {}
        others = [{"code": code} for code in GROUPS["AB"[k % 2]]]
        yield orjson.dumps({"id": k, "main": GROUPS["AB"[k % 2]][k % 2], "others": others, **rare})


@pytest.fixture
def config(tmp_path):
    links = {code: group for group, codes in GROUPS.items() for code in codes}
    generalized = {
        "reason": {"ontology": "tree", "records": 10},
        "others[*].code": {"ontology": "tree", "level": 2},
    }
    return write_deployment(
        tmp_path,
        {"A": "root", "B": "root", **links},
        attributes={"main": {"path": "main", "ontology": "tree"}},
        fields={"keep": ["id"], "generalize": generalized, "unlisted": "drop"},
        calibration={"window_records": SIZE, "min_records": 100},
    )


def test_codes_become_levels_and_shared_ancestors(tmp_path, config):
    source = write(tmp_path / "in.jsonl", events())
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl")
    after = read(tmp_path / "out.jsonl")
    assert Counter(one["reason"] for one in after if "reason" in one) == {"a1": 30, "A": 11, "b1": 11}
    for k, one in enumerate(after):
        assert one["others"] == [{"code": "AB"[k % 2]}] * len(GROUPS["AB"[k % 2]])
    assert "2 values of reason were removed" in done.stderr
    run("calibrate", "-c", config, source, "-o", tmp_path / "snapshot.json")
    run("mask", "-c", config, "--statistics", tmp_path / "snapshot.json", source, tmp_path / "again.jsonl")
    assert read(tmp_path / "again.jsonl") == after


def test_a_snapshot_of_another_number_of_records_removes_the_values(tmp_path, config):
    source = write(tmp_path / "in.jsonl", events())
    run("calibrate", "-c", config, source, "-o", tmp_path / "snapshot.json")
    config.write_text(config.read_text().replace("records: 10", "records: 9"))
    done = run("mask", "-c", config, "--statistics", tmp_path / "snapshot.json", source, tmp_path / "out.jsonl")
    assert not any("reason" in one for one in read(tmp_path / "out.jsonl"))
    assert f"{len(REASONS)} values of reason were removed" in done.stderr


def test_the_check_of_events_counts_codes_without_a_concept_only(tmp_path, config):
    source = write(tmp_path / "in.jsonl", events())
    assert "2 values of reason were removed" in run("config", "check", "-c", config, "--events", source).output


@pytest.mark.parametrize(
    ("path", "section", "message"),
    [
        ("reason", {"ontology": "tree"}, "reason.level: required"),
        ("reason", {"ontology": "three", "level": 2}, "reason.ontology: 'three' is not in ontologies: use tree"),
        ("reason", {"ontology": "tree", "level": "section"}, "use chapter, block or category or a whole number"),
        ("reason", {"ontology": "tree", "level": 0}, "use chapter, block or category or a whole number"),
        ("reason", {"ontology": "tree", "records": 1}, "use a whole number of at least 2"),
        ("others[*].code", {"ontology": "tree", "records": 5}, "not allowed for a path with [*]"),
    ],
)
def test_the_check_says_what_is_wrong(config, path, section, message):
    with changed(config) as content:
        content["fields"]["generalize"][path] = section
    assert message in run("config", "check", "-c", config, code=2).output
