"""Files with a context: no code of the other sex is written, with a scalar and an array."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from support.file_commands import read, run, write, write_deployment

CHILDREN = {"women": ["w1", "w2", "w3"], "men": ["m1", "m2", "m3"], "anybody": ["a1", "a2", "a3"]}
OTHERS = {"F": {"m1", "m2", "m3"}, "M": {"w1", "w2", "w3"}}
SIZE = 1200


def events():
    """Events of both sexes, whose codes follow from it; the age of some is missing."""
    rng = np.random.default_rng(5)
    for k in range(SIZE):
        sex = "FM"[k % 2]
        pool = [*CHILDREN["women" if sex == "F" else "men"], *CHILDREN["anybody"]]
        others = [{"code": pool[j]} for j in rng.integers(0, 6, rng.integers(0, 4))]
        age = {} if k % 60 == 0 else {"age": int(rng.integers(0, 100))}
        yield orjson.dumps({"id": k, "sex": sex, **age, "main": pool[rng.integers(6)], "others": others})


@pytest.fixture
def config(tmp_path):
    links = {code: group for group, codes in CHILDREN.items() for code in codes}
    return write_deployment(
        tmp_path,
        {**dict.fromkeys(CHILDREN, "root"), **links},
        attributes={
            "main": {"path": "main", "ontology": "tree"},
            "others": {"path": "others[*].code", "ontology": "tree"},
        },
        fields={"keep": ["id", "sex"], "generalize": {"age": {"width": 10}}, "unlisted": "drop"},
        mechanism={"context": {"sex": ["F", "M"], "age": [50]}},
        calibration={"window_records": SIZE, "min_records": 100},
    )


def check(before, after):
    assert [record["id"] for record in after] == [record["id"] for record in before]
    changed = sum(old["main"] != new["main"] for old, new in zip(before, after, strict=True))
    assert changed > SIZE / 4
    for record in after:
        assert not {record["main"], *(one["code"] for one in record["others"])} & OTHERS[record["sex"]]


def test_files_are_masked_calibrated_and_checked_with_a_context(tmp_path, config):
    source, before = write(tmp_path / "in.jsonl", events()), [orjson.loads(line) for line in events()]
    assert "; context sex, age)" in run("config", "check", "-c", config).stdout
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl")
    check(before, read(tmp_path / "out.jsonl"))
    assert "sure of a code" in done.stderr
    run("calibrate", "-c", config, source, "-o", tmp_path / "snapshot.json")
    model = orjson.loads((tmp_path / "snapshot.json").read_bytes())["snapshot"]["statistics"]["model"]
    assert [one["name"] for one in model["context"]] == ["sex", "age"]
    run("mask", "-c", config, "--statistics", tmp_path / "snapshot.json", source, tmp_path / "again.jsonl")
    check(before, read(tmp_path / "again.jsonl"))


def test_a_model_of_another_context_is_refused(tmp_path, config):
    source = write(tmp_path / "in.jsonl", events())
    run("calibrate", "-c", config, source, "-o", tmp_path / "snapshot.json")
    config.write_text(config.read_text().replace("- 50", "- 60"))
    arguments = ("--statistics", tmp_path / "snapshot.json", source, tmp_path / "out.jsonl")
    assert "contexts are not those of this mechanism" in run("mask", "-c", config, *arguments, code=1).output


def test_evaluation_knows_the_context(tmp_path, config):
    source, output = write(tmp_path / "in.jsonl", events()), tmp_path / "report.html"
    options = ("--mechanisms", "semantic_transport", "--alpha", "1", "--records", "600", "--repeats", "1")
    run("evaluate", "-c", config, *options, "--processes", "1", "-o", output, source)
    assert output.exists()
