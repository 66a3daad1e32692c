"""A deployment of three attributes, one of them an array, with each target of semantic transport."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from support.file_commands import read, run, write, write_deployment

CODES = [f"c{k}" for k in range(15, 31)]
TARGETS = {"alpha": 0.3, "rmse": 0.45, "vulnerability": 0.4, "epsilon": 6.0}


def events(size=1500):
    """Events with a code, an array of codes that are often equal to it, and another code."""
    rng = np.random.default_rng(4)
    for k in range(size):
        main = int(rng.integers(16))
        others = [main if rng.random() < 0.5 else int(rng.integers(16)) for _ in range(rng.integers(0, 4))]
        last = main if rng.random() < 0.4 else int(rng.integers(16))
        codes = [{"code": CODES[other]} for other in others]
        yield orjson.dumps({"id": k, "main": CODES[main], "others": codes, "last": CODES[last]})


@pytest.fixture
def config(tmp_path):
    """A function that writes the configuration with a target, and returns its path."""
    paths = {"main": "main", "others": "others[*].code", "last": "last"}
    return lambda **target: write_deployment(
        tmp_path,
        {f"c{k}": f"c{(k - 1) // 2}" for k in range(1, 31)},
        attributes={name: {"path": path, "ontology": "tree"} for name, path in paths.items()},
        fields={"keep": ["id"], "unlisted": "drop"},
        mechanism={"name": "semantic_transport", "target": target},
        calibration={"window_records": 1500, "min_records": 100},
    )


@pytest.mark.parametrize("kind", TARGETS)
def test_three_attributes_and_an_array_are_masked_with_each_target(tmp_path, config, kind):
    source = write(tmp_path / "in.jsonl", events())
    done = run("mask", "-c", config(**{kind: TARGETS[kind]}), source, tmp_path / "out.jsonl")
    assert f"mechanism: semantic_transport (target {kind} {TARGETS[kind]:g})" in done.stderr
    after, before = read(tmp_path / "out.jsonl"), [orjson.loads(line) for line in events()]
    assert [record["id"] for record in after] == list(range(1500))
    assert [len(record["others"]) for record in after] == [len(record["others"]) for record in before]
    assert all({record["main"], record["last"]} <= set(CODES) for record in after)
    changed = np.mean([one["main"] != other["main"] for one, other in zip(before, after, strict=True)])
    assert 0.2 < changed < 1.0


@pytest.mark.parametrize(("kind", "level"), [("vulnerability", 0.01), ("epsilon", 0.001), ("rmse", 0.95)])
def test_a_target_out_of_reach_stops_with_the_range(tmp_path, config, kind, level):
    source = write(tmp_path / "in.jsonl", events())
    done = run("mask", "-c", config(**{kind: level}), source, tmp_path / "out.jsonl", code=1)
    assert f"target {kind}" in done.stderr
    assert "this window allows" in done.stderr
